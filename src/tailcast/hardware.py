"""Datasheet figures of one accelerator."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tailcast.errors import InputError

DTYPES = ("bf16", "fp16", "fp8", "int8", "fp32")
"""Formats that a peak can be given for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One accelerator's datasheet peaks.

    Parameters
    ----------
    name : str
        Catalogue name, for example ``"h100-sxm-80gb"``.
    aliases : tuple of str
        Other names it goes by.
    architecture : str
        For example ``"hopper"``.
    peak_flops_by_dtype : mapping of str to float
        Dense throughput (no sparsity) in FLOP/s by format; formats that it lacks are absent.
    memory_bandwidth : float
        Bytes/s of its memory.
    memory : float
        Bytes that the driver reports to a program as the total.
    interconnect : str
        Link between accelerators of one server, for example ``"nvlink4"`` or ``"pcie5"``.
    interconnect_bandwidth : float
        Bytes/s of one accelerator in one direction over that link.
    sources : mapping of str to str
        Where each figure comes from, by field.
    """

    name: str
    architecture: str
    peak_flops_by_dtype: Mapping[str, float]
    memory_bandwidth: float
    memory: float
    interconnect: str
    interconnect_bandwidth: float
    aliases: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("memory_bandwidth", "memory", "interconnect_bandwidth"):
            self._check(name, getattr(self, name))
        unknown = set(self.peak_flops_by_dtype) - set(DTYPES)
        if unknown:
            raise InputError(f"{self.name}: no format {sorted(unknown)[0]!r}; known: {DTYPES}")
        if not {"bf16", "fp16"} & set(self.peak_flops_by_dtype):
            raise InputError(f"{self.name}: a peak in bf16 or fp16 is needed")
        for dtype, peak in self.peak_flops_by_dtype.items():
            self._check(f"peak_flops in {dtype}", peak)

    def peak_flops(self, dtype: str) -> float:
        """Dense peak in a format; in 16 bits where the accelerator lacks the format.

        Parameters
        ----------
        dtype : str
            ``"bf16"``, ``"fp16"``, ``"fp8"``, ``"int8"`` or ``"fp32"``.

        Returns
        -------
        float
            FLOP/s.

        Raises
        ------
        InputError
            If the format is unknown.
        """
        if dtype not in DTYPES:
            raise InputError(f"{self.name}: no format {dtype!r}; known: {', '.join(DTYPES)}")
        for candidate in (dtype, "bf16", "fp16"):
            if candidate in self.peak_flops_by_dtype:
                return self.peak_flops_by_dtype[candidate]
        raise InputError(f"{self.name}: a peak in bf16 or fp16 is needed")

    def _check(self, name: str, value: float) -> None:
        if not (isinstance(value, int | float) and value > 0 and math.isfinite(value)):
            raise InputError(f"{self.name}: {name} must be positive and finite, got {value!r}")
