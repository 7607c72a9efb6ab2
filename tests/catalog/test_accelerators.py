"""Accelerators by name."""

from pathlib import Path

import pytest
import yaml

from tailcast.catalog.accelerators import accelerator, names
from tailcast.errors import CatalogError, InputError


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("H100", "h100-sxm-80gb"),
        ("h100-sxm", "h100-sxm-80gb"),
        ("H100-SXM-80GB", "h100-sxm-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
        ("h100_pcie", "h100-pcie-80gb"),
        ("NVIDIA H100 PCIe", "h100-pcie-80gb"),
        ("NVIDIA H100 NVL", "h100-nvl-94gb"),
        ("A100-SXM-80GB", "a100-sxm-80gb"),
        ("A100-80GB-SXM", "a100-sxm-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("L40S-48GB", "l40s-48gb"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090-24gb"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-96gb"),
        ("RTXPRO6000", "rtx-pro-6000-96gb"),
        ("AMD Instinct MI300X", "mi300x-192gb"),
        ("GH200", "gh200-96gb"),
        ("H200", "h200-sxm-141gb"),
        ("B200", "b200-sxm-180gb"),
        ("T4", "t4-16gb"),
        ("MI250", "mi250-gcd-64gb"),
    ],
)
def test_spellings_of_one_accelerator(spelling: str, name: str) -> None:
    assert accelerator(spelling).name == name


def test_an_ambiguous_name_lists_the_choices() -> None:
    with pytest.raises(CatalogError, match=r"'A100' is ambiguous: a100-pcie-40gb, .*a100-sxm-80gb"):
        accelerator("A100")


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(CatalogError, match=r"no accelerator 'h10'; did you mean 'h100'\?"):
        accelerator("h10")


@pytest.mark.parametrize("name", names())
def test_every_figure_has_a_source_and_a_plausible_size(name: str) -> None:
    card = accelerator(name)
    assert set(card.sources) == {
        "peak",
        "memory_bandwidth",
        "memory",
        "interconnect_bandwidth",
    }
    assert 5e13 < card.peak_flops("bf16") < 1e16
    assert card.peak_flops("bf16") <= card.peak_flops("fp8")
    assert 2e11 < card.memory_bandwidth < 2e13
    assert 10 * 2**30 < card.memory < 300 * 2**30
    nominal = float(name.rsplit("-", 1)[1].removesuffix("gb"))
    assert 0.9 < card.memory / 2**30 / nominal <= 1.0
    assert 1e10 < card.interconnect_bandwidth < 2e12
    # No accelerator of the catalogue computes fewer than 60 FLOPs for a byte it reads.
    assert card.peak_flops("bf16") / card.memory_bandwidth > 60


def test_figures_agree_with_the_data_sheets_beside_the_project(shared_data: Path) -> None:
    sheets = yaml.safe_load((shared_data / "hardware.yaml").read_text())["gpus"]
    assert sheets
    for name, sheet in sheets.items():
        card = accelerator(name)
        assert card.peak_flops("bf16") == pytest.approx(sheet["bf16_dense_tflops"] * 1e12, rel=1e-3)
        if sheet.get("fp8_dense_tflops"):
            assert card.peak_flops("fp8") == pytest.approx(
                sheet["fp8_dense_tflops"] * 1e12, rel=1e-3
            )
        assert card.memory_bandwidth == pytest.approx(sheet["hbm_bandwidth_tb_s"] * 1e12, rel=1e-3)
        if sheet["nvlink_gb_s"]:
            assert card.interconnect_bandwidth == sheet["nvlink_gb_s"] * 1e9 / 2


OWN = """
[[accelerator]]
name = "cpu-epyc-1-core"
architecture = "zen3"
peak = { bf16 = 0.1, fp32 = 0.1 }
memory_bandwidth = 20
memory = 23.5
interconnect = "none"
interconnect_bandwidth = 1
"""


def test_a_file_describes_an_accelerator_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "cpu.toml"
    path.write_text(OWN)
    found = accelerator(str(path))
    assert found.name == "cpu-epyc-1-core"
    assert found.peak_flops("fp32") == 1e11
    assert found.memory_bandwidth == 20e9
    assert found.memory == 23.5 * 2**30


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("memory = 23.5", "", "lacks memory"),
        ("memory = 23.5", "memory = 23.5\nmemroy = 1", "did you mean 'memory'"),
        ("memory = 23.5", "memory = 'much'", "must be a number"),
        ("memory = 23.5", "memory = -1", "must be positive"),
        ("cpu-epyc-1-core", "H100", "in the catalogue already"),
        ("[[accelerator]]", "[accelerator]", "one table"),
        ("[[accelerator]]", "[[accelerator", "not valid TOML"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    path = tmp_path / "cpu.toml"
    path.write_text(OWN.replace(old, new))
    with pytest.raises(InputError, match=complaint):
        accelerator(str(path))


def test_an_unknown_name_points_to_files() -> None:
    with pytest.raises(CatalogError, match=r"\.toml"):
        accelerator("my-cpu")
