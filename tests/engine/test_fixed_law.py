"""Latency models without priors: the roofline baseline, BLIS's numbers, and physical floors."""

from pathlib import Path

import numpy as np
import pytest

from deployments import deployment
from tailcast.artifacts import artifact_names
from tailcast.coefficients import Coefficients, step_law
from tailcast.engine.fixed_law import PEAK_BASES, fixed_law
from tailcast.engine.point_model import names_latency_model, point_model
from tailcast.errors import InputError, UsageError
from tailcast.latency_model import load_latency_model


def test_all_shipped_latency_models_are_read() -> None:
    names = artifact_names("models")
    assert {"physics", "roofline", "blis-trained-physics"} <= set(names)
    assert [load_latency_model(name).name for name in names] == names


def test_roofline_is_the_datasheet_at_fixed_efficiencies() -> None:
    served = deployment()
    found = fixed_law(load_latency_model("roofline"), served)
    assert found.notes == ()
    reads = served.llm.fixed_weight_bytes / 3.35e12
    kv = 64 * 1000 * served.kv_bytes_per_token_per_accelerator / 3.35e12
    step = found.law.duration(0, 0, 0, 64, 64_000)
    np.testing.assert_allclose(step, 5e-4 + 1.25 * (reads + kv))


def test_roofline_never_beats_the_datasheet() -> None:
    model = load_latency_model("roofline")
    at_peak = {
        c.name: np.array([1.0 if c.basis in PEAK_BASES else 0.0]) for c in model.coefficients
    }
    for served in (deployment(), deployment("llama-3.1-70b", tensor_parallel=4)):
        ours = fixed_law(model, served).law
        peak = step_law(Coefficients(latency_model=model, values=at_peak, speed=np.ones(1)), served)
        for batch in (
            (2048, 2048 * 1024, 1, 0, 0),
            (0, 0, 0, 1, 800),
            (512, 512 * 256, 1, 64, 64000),
        ):
            assert ours.duration(*batch) > peak.duration(*batch)


def test_blis_beats_the_datasheet_and_says_so() -> None:
    model = load_latency_model("blis-trained-physics")
    notes = fixed_law(model, deployment()).notes
    assert notes == (
        "prefill_compute 0.152 beats the datasheet's peak: 6.6 times what the tensor cores can do",
    )
    split = fixed_law(model, deployment("llama-3.1-70b", tensor_parallel=4)).notes
    assert len(split) == 2
    assert "9.9 times what the link can do" in split[1]


def test_no_other_model_may_beat_the_datasheet(tmp_path: Path) -> None:
    text = "[coefficients.prefill_compute]\nvalue = 0.5\n"
    (tmp_path / "model.toml").write_text(text)
    model = load_latency_model(str(tmp_path))
    with pytest.raises(InputError, match=r"prefill_compute 0\.5 beats the datasheet's peak"):
        fixed_law(model, deployment())
    (tmp_path / "model.toml").write_text("[coefficients.weight_read]\nvalue = 0.0\n")
    with pytest.raises(InputError, match="would take no time"):
        fixed_law(load_latency_model(str(tmp_path)), deployment())


def test_a_model_with_priors_has_no_single_law() -> None:
    with pytest.raises(UsageError, match="has priors"):
        fixed_law(load_latency_model("physics"), deployment())
    with pytest.raises(UsageError, match="has priors"):
        point_model("physics")


@pytest.mark.parametrize(
    ("name", "mode", "label", "backend"),
    [
        (None, None, "blis-trained-physics in mode blis", "trained-physics"),
        (None, "vllm", "blis-trained-physics in mode vllm", "trained-physics"),
        ("roofline", None, "roofline in mode vllm", "roofline"),
        ("roofline", "blis", "roofline in mode blis", "roofline"),
    ],
)
def test_a_model_runs_in_its_own_mode_unless_told(
    name: str | None, mode: str | None, label: str, backend: str
) -> None:
    model = point_model(name, mode)
    assert (model.label, model.backend) == (label, backend)


def test_mode_blis_runs_blis_models_only(tmp_path: Path) -> None:
    (tmp_path / "model.toml").write_text("[coefficients.weight_read]\nvalue = 1.5\n")
    assert names_latency_model(str(tmp_path))
    assert names_latency_model(str(tmp_path / "model.toml"))
    assert not names_latency_model("physics-h100-vllm015")
    assert point_model(str(tmp_path)).mode == "vllm"
    for name in (str(tmp_path), "physics-h100-vllm015"):
        with pytest.raises(UsageError, match="mode blis runs BLIS's own"):
            point_model(name, "blis")
    with pytest.raises(UsageError, match="did you mean 'blis'"):
        point_model(None, "bliss")
