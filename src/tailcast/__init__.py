"""Bayesian latency forecasts for LLM serving.

>>> import tailcast
>>> tree = tailcast.predict(  # doctest: +SKIP
...     "llama-3.1-8b", "h100-sxm", rate=12, input_tokens=512, output_tokens=256
... )
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailcast.api import evaluate, load_posterior, predict

__all__ = ["evaluate", "load_posterior", "predict"]


def __getattr__(name: str) -> Any:
    """Import the Python API on first use, so that ``import tailcast`` stays light."""
    if name in __all__:
        from tailcast import api

        return getattr(api, name)
    raise AttributeError(f"module 'tailcast' has no attribute {name!r}")
