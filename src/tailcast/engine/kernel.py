"""The compiled engine loop, ready to be called."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

from tailcast.engine.machine_code import machine_code

_PLAIN_PYTHON: Final = ("_memory.py", "_output.py", "_plan.py")
_N_ARGUMENT: Final = 5


@cache
def kernel() -> Callable[[int, int, int, int, int], int]:
    """The kernel's entry, compiled on its first use on a machine.

    Returns
    -------
    callable
        `tailcast.engine._serve.serve`.
    """
    files = Path(__file__).parent.glob("_*.py")
    sources = [file for file in files if file.name not in _PLAIN_PYTHON]
    return machine_code("kernel", _N_ARGUMENT, sources, _compiled)


def _compiled() -> tuple[str, bytes]:
    """Symbol and object file of the kernel's entry."""
    from numba import types

    from tailcast.engine import _serve

    entry: Any = _serve.serve
    signature = types.int64(*[types.int64] * _N_ARGUMENT)
    entry.compile(signature)
    result = entry.overloads[signature.args]
    _, _, (code, _) = result.library.serialize_using_object_code()
    return result.fndesc.llvm_func_name, code
