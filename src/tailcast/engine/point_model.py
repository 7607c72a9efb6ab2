"""Latency models that give one number: which one a name means, and in which mode it runs."""

from dataclasses import dataclass
from pathlib import Path

from tailcast.artifacts import artifact_names
from tailcast.engine.blis.coefficients import BLIS_LATENCY_MODEL
from tailcast.errors import UsageError, near_name
from tailcast.latency_model import LatencyModel, load_latency_model

MODES = ("vllm", "blis")
"""Engines: corrected semantics in float seconds, and exact parity with BLIS in microseconds."""

ROOFLINE = "roofline"
"""Shipped baseline; in mode ``blis`` the name stands for BLIS's own roofline backend."""

_BLIS_OWN = f"BLIS's own latency models {BLIS_LATENCY_MODEL} and {ROOFLINE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointModel:
    """A latency model without priors and the mode that it runs in.

    Parameters
    ----------
    latency_model : LatencyModel
        All coefficients fixed.
    mode : str
        One of `MODES`.
    """

    latency_model: LatencyModel
    mode: str

    @property
    def label(self) -> str:
        """Name and mode, for people."""
        return f"{self.latency_model.name} in mode {self.mode}"

    @property
    def backend(self) -> str:
        """BLIS's latency backend that mode ``blis`` uses."""
        return ROOFLINE if self.latency_model.name == ROOFLINE else "trained-physics"


def checked_mode(mode: str) -> str:
    """A mode by its name.

    Parameters
    ----------
    mode : str
        As given.

    Returns
    -------
    str
        One of `MODES`.

    Raises
    ------
    UsageError
        If there is no such mode.
    """
    if mode not in MODES:
        raise UsageError(f"no mode {mode!r}; {near_name(mode, MODES)}")
    return mode


def names_latency_model(name: str) -> bool:
    """Whether a name means a latency model rather than a posterior.

    Parameters
    ----------
    name : str
        Shipped name, folder, or path of a ``model.toml``.

    Returns
    -------
    bool
        True for shipped latency models and folders with a ``model.toml``.
    """
    path = Path(name)
    is_path = path.name == "model.toml" or (path / "model.toml").is_file()
    return name in artifact_names("models") or is_path


def point_model(name: str | None, mode: str | None = None) -> PointModel:
    """Latency model for one answer without interval.

    Parameters
    ----------
    name : str, optional
        Shipped latency model or folder; BLIS's defaults where absent.
    mode : str, optional
        One of `MODES`; the latency model's own where absent.

    Returns
    -------
    PointModel
        Ready to run.

    Raises
    ------
    UsageError
        If there is no such model or mode, the model has priors, or it cannot run in that mode.
    InputError
        If its file is malformed.
    """
    if mode is not None:
        checked_mode(mode)
    if mode == "blis" and name is not None and not names_latency_model(name):
        raise UsageError(f"mode blis runs {_BLIS_OWN}, and {name!r} is neither")
    model = load_latency_model(name or BLIS_LATENCY_MODEL)
    if not model.is_fixed:
        raise UsageError(
            f"latency model {model.name!r} has priors, not values; use a posterior of it"
        )
    chosen = checked_mode(mode or model.mode)
    if chosen == "blis" and model.mode != "blis" and model.name != ROOFLINE:
        raise UsageError(
            f"mode blis runs {_BLIS_OWN}, and {model.name!r} is neither; use --mode vllm for it"
        )
    return PointModel(latency_model=model, mode=chosen)
