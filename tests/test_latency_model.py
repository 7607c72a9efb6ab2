"""A latency model is data: every malformed file is refused in one line that says where."""

from pathlib import Path

import numpy as np
import pytest

from deployments import deployment
from tailcast.artifacts import artifact_names
from tailcast.coefficients import Coefficients, step_law
from tailcast.errors import InputError, UsageError
from tailcast.inference.population import deployment_draws, prior_population
from tailcast.latency_model import load_latency_model

GOOD = """
[model]
name = "m"
[coefficients.weight_read]
basis = "weight_read"
floor = 1.0
centre = 1.2
sd = 0.3
"""


def written(folder: Path, text: str) -> str:
    """Folder with a model file."""
    (folder / "model.toml").write_text(text)
    return str(folder)


def test_a_good_file_is_read(tmp_path: Path) -> None:
    model = load_latency_model(written(tmp_path, GOOD))
    assert model.names == ("weight_read",)
    assert not model.is_fixed


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("floor = 1.0", "flor = 1.0", "unknown key 'flor'; did you mean 'floor'"),
        ('basis = "weight_read"', 'basis = "weight_reed"', "unknown basis 'weight_reed'"),
        ("centre = 1.2", "centre = 0.9", "must exceed floor"),
        ("sd = 0.3", "sd = -1", "must be finite and at least"),
        ("sd = 0.3", "sd = nan", "must be finite"),
        ("sd = 0.3", 'sd = "wide"', "must be a number"),
        ("sd = 0.3", "sd = 0.3\neffects = { gpu = 0.1 }", "varies by 'gpu'"),
        ("centre = 1.2", "centre = 1.2\nvalue = 1.0", "either value or centre"),
        ("[model]", "[model", "not valid TOML"),
        ("[model]", "[[model]]", r"model must be a table \[model\]"),
        ("[model]", "[model]\nversion = 'x'", "model.version must be a number"),
        ("[model]", "[discrepancy]\nx = 1\n[model]", "unknown discrepancy 'x'"),
        ("[model]", "noise = 3\n[model]", r"noise must be a table \[noise\]"),
        ("[model]", "[noise]\nnu = 0\n[model]", "noise.nu must be finite and at least 1"),
        ("[model]", "[coefficients]\nx = 1\n[model]", "coefficients.x must be a table"),
        ("sd = 0.3", "sd = 0.3\neffects = 1", "effects must be a table"),
        ("[model]", "a = " + "[" * 9000, "nested too deep"),
        ("[model]", "[noize]\nnu = 8.0\n[model]", r"unknown table \[noize\]; did you mean 'noise'"),
        ("[model]", "[model]\nversoin = 2", "unknown key 'versoin'; did you mean 'version'"),
        ("[model]", '[model]\nmode = "sglang"', "model.mode must be one of vllm, blis"),
        (
            "[model]",
            '[noise]\n"e3e.mean" = { centre = 0.1, sd = 0.1 }\n[model]',
            "no metric.statistic; did you mean 'e2e'",
        ),
        (
            "[model]",
            '[noise]\n"e2e.mean" = { centre = 0.0, sd = 0.1 }\n[model]',
            "noise.e2e.mean.centre must be finite and at least 1e-06",
        ),
        ("[model]", "[discrepancy.run]\ncentre = 0.1\nsd = 0\n[model]", "run.sd must be finite"),
        (
            "[model]",
            "[latent.uncached_share]\ncentre = 0\nsd = 1\n[model]",
            "centre must be finite",
        ),
        ("centre = 1.2\nsd = 0.3", "value = 0.5", "value 0.5 below its floor 1"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    name = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(InputError, match=message) as caught:
        load_latency_model(name)
    assert "\n" not in str(caught.value)


def test_an_unknown_model_is_refused_with_the_near_name() -> None:
    with pytest.raises(UsageError, match="did you mean 'physics'"):
        load_latency_model("physic")


@pytest.mark.parametrize("name", artifact_names("models"))
def test_every_shipped_model_is_readable(name: str) -> None:
    model = load_latency_model(name)
    assert all(c.reference for c in model.coefficients)
    assert (Path(__file__).parents[1] / "models" / name / "README.md").is_file()


@pytest.mark.parametrize(
    "llm", ["llama-3.1-8b", "mixtral-8x7b", "gpt-oss-120b", "deepseek-v2-lite"]
)
@pytest.mark.parametrize("gpu", ["h100-sxm", "a100-80gb-sxm", "l40s"])
def test_no_prior_draw_beats_the_datasheet(llm: str, gpu: str) -> None:
    """Steps of every prior draw take the bytes at full bandwidth and the FLOPs at peak."""
    served = deployment(llm, gpu, tensor_parallel=4)
    model = load_latency_model("physics")
    own = deployment_draws(prior_population(model, 200, 5), served, 5, with_discrepancy=False)
    law = step_law(own.coefficients, served)
    bandwidth = served.accelerator.memory_bandwidth
    weights = served.served_llm.fixed_weight_bytes / bandwidth / 4
    kv = served.kv_bytes_per_token_per_accelerator * 20_000 / bandwidth
    assert np.all(law.duration(0, 0, 0, 20, 20_000) >= weights + kv)
    compute = served.matmul_seconds_per_token * 2048
    assert np.all(law.duration(2048, 2048**2 / 2, 1, 0, 0) >= compute)


def test_a_coefficient_below_its_floor_is_refused() -> None:
    model = load_latency_model("physics")
    values = {c.name: np.array([c.centre]) for c in model.coefficients}
    Coefficients(latency_model=model, values=values, speed=np.ones(1))
    values["prefill_compute"] = np.array([0.152])
    with pytest.raises(InputError, match=r"at least 1 \(the datasheet's peak\), got 0.152"):
        Coefficients(latency_model=model, values=values, speed=np.ones(1))
