"""How the kernel is compiled: without reference counts, so that its code needs nothing else."""

from collections.abc import Callable
from typing import Any, Final, cast

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

_OPTIONS: Final[dict[str, Any]] = {
    "error_model": "numpy",
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def compiled[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel function that allocates nothing (so that no reference is counted)."""
    return cast(Callable[P, R], numba.njit(**_OPTIONS)(function))


def inlined[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel function into its callers: for what runs every step."""
    return cast(Callable[P, R], numba.njit(forceinline=True, **_OPTIONS)(function))


@inlined
def wide(value: int) -> int:
    """An integer of 64 bits, so that a callee is compiled for one width only."""
    return np.int64(value)  # type: ignore[return-value]


def record_at(layout: "np.dtype[Any]") -> Callable[[int, int], Any]:
    """Accessor for kernel code: the i-th record with this layout of the array at an address."""
    record = numba.from_dtype(layout)
    size = layout.itemsize

    def at(_typing: Any, address: Any, index: Any) -> Any:
        """Type of the record, and code that computes its place."""

        def place(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            start, i = arguments
            offset = builder.mul(i, ir.Constant(ir.IntType(64), size))
            return builder.inttoptr(builder.add(start, offset), context.get_value_type(record))

        return record(types.int64, types.int64), place

    return cast(Callable[[int, int], Any], intrinsic(at))


def record_of(layout: "np.dtype[Any]") -> Callable[[int], Any]:
    """Accessor for kernel code: the record with this layout at an address."""
    record = numba.from_dtype(layout)

    def of(_typing: Any, address: Any) -> Any:
        """Type of the record, and code that makes the address a pointer."""

        def place(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(record))

        return record(types.int64), place

    return cast(Callable[[int], Any], intrinsic(of))
