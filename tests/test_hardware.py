"""An accelerator's data sheet."""

from dataclasses import replace

import pytest

from tailcast.errors import InputError
from tailcast.hardware import Accelerator

CARD = Accelerator(
    name="card",
    architecture="test",
    peak_flops_by_dtype={"bf16": 100e12, "fp8": 200e12},
    memory_bandwidth=1e12,
    memory=2.0**34,
    interconnect="pcie4",
    interconnect_bandwidth=32e9,
)


def test_a_format_that_is_there_has_its_own_peak() -> None:
    assert CARD.peak_flops("fp8") == 200e12
    assert CARD.peak_flops("bf16") == 100e12


def test_a_format_that_is_not_there_is_computed_in_16_bits() -> None:
    assert CARD.peak_flops("int8") == 100e12
    assert CARD.peak_flops("fp16") == 100e12
    turing = replace(CARD, peak_flops_by_dtype={"fp16": 65e12})
    assert turing.peak_flops("bf16") == turing.peak_flops("fp8") == 65e12


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(InputError, match="no format 'fp2'"):
        CARD.peak_flops("fp2")


@pytest.mark.parametrize("field", ["memory_bandwidth", "memory", "interconnect_bandwidth"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), "80"])
def test_impossible_figures_are_refused(field: str, value: object) -> None:
    with pytest.raises(InputError, match=f"card: {field} must be positive and finite"):
        replace(CARD, **{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("peaks", "message"),
    [
        ({"bf16": 0.0}, "peak_flops in bf16 must be positive"),
        ({"bf17": 1e12}, "no format 'bf17'"),
        ({"fp8": 1e12}, "a peak in bf16 or fp16 is needed"),
        ({}, "a peak in bf16 or fp16 is needed"),
    ],
)
def test_impossible_peaks_are_refused(peaks: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(CARD, peak_flops_by_dtype=peaks)
