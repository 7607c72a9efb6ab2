"""BLIS's own hardware table, apart from the catalogue because some of it is wrong on purpose."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tailcast.errors import CatalogError, near_name


@dataclass(frozen=True, slots=True, kw_only=True)
class BlisAccelerator:
    """One row of BLIS's ``hardware_config.json``.

    Parameters
    ----------
    name : str
        BLIS's name.
    peak_flops : float
        Dense 16-bit peak in TFLOP/s.
    peak_flops_fp8 : float
        FP8 peak in TFLOP/s, 0 for none. L40S carries the with-sparsity figure.
    memory_bandwidth : float
        Peak memory bandwidth in TB/s.
    mfu_prefill, mfu_decode : float
        Fractions of the peak that roofline assumes; dimensionless.
    memory : float
        Memory in GiB.
    """

    name: str
    peak_flops: float
    peak_flops_fp8: float
    memory_bandwidth: float
    mfu_prefill: float
    mfu_decode: float
    memory: float

    def peak_tflops(self, bytes_per_weight: float) -> float:
        """Peak that BLIS charges compute at.

        Parameters
        ----------
        bytes_per_weight : float
            Bytes of one weight; exactly 1 selects the FP8 peak (INT8 weights get it too).

        Returns
        -------
        float
            TFLOP/s.
        """
        if bytes_per_weight == 1.0 and self.peak_flops_fp8 > 0:
            return self.peak_flops_fp8
        return self.peak_flops


def _a100(name: str) -> BlisAccelerator:
    return BlisAccelerator(
        name=name,
        peak_flops=312.0,
        peak_flops_fp8=0.0,
        memory_bandwidth=2.039,
        mfu_prefill=0.38,
        mfu_decode=0.18,
        memory=80.0,
    )


BLIS_ACCELERATORS: Mapping[str, BlisAccelerator] = MappingProxyType(
    {
        "H100": BlisAccelerator(
            name="H100",
            peak_flops=989.5,
            peak_flops_fp8=1979.0,
            memory_bandwidth=3.35,
            mfu_prefill=0.45,
            mfu_decode=0.30,
            memory=80.0,
        ),
        "A100-SXM": _a100("A100-SXM"),
        "A100-80": _a100("A100-80"),
        "L40S": BlisAccelerator(
            name="L40S",
            peak_flops=362.05,
            peak_flops_fp8=1466.0,
            memory_bandwidth=0.864,
            mfu_prefill=0.32,
            mfu_decode=0.08,
            memory=48.0,
        ),
    }
)
"""Rows by BLIS's spelling (inference-sim ``hardware_config.json`` at f90a1e3)."""


def blis_accelerator(name: str) -> BlisAccelerator:
    """Row of BLIS's hardware table.

    Parameters
    ----------
    name : str
        BLIS's spelling; case does not matter.

    Returns
    -------
    BlisAccelerator
        The row.

    Raises
    ------
    CatalogError
        If BLIS does not know the name.
    """
    for known, row in BLIS_ACCELERATORS.items():
        if known.lower() == name.lower():
            return row
    raise CatalogError(f"BLIS knows no accelerator {name!r}; {near_name(name, BLIS_ACCELERATORS)}")
