"""The PyTensor form of the hierarchy equals the numpy form; the split of sums is exact."""

import numpy as np
import pytest
from numpy.typing import NDArray

from deployments import deployment
from tailcast.basis import FEATURES
from tailcast.inference.evidence import Evidence, StepEvidence, step_evidence
from tailcast.inference.graph import build_model, split
from tailcast.inference.population import free_names, group_levels, varying
from tailcast.inference.stack import level_offsets, total_scales
from tailcast.latency_model import LatencyModel, load_latency_model
from tailcast.streams import stream

Array = NDArray[np.float64]


@pytest.fixture(scope="module")
def model() -> LatencyModel:
    """The default latency model."""
    return load_latency_model("physics")


def source(name: str, model: LatencyModel, llm: str, version: str) -> StepEvidence:
    """A few step timings of one deployment."""
    rng = stream(2, name)
    rows = [
        (rng.uniform(1, 100, len(FEATURES)), float(rng.uniform(0.01, 0.05)), "step.decode")
        for _ in range(3)
    ]
    return step_evidence(name, model, deployment(llm, tensor_parallel=2, version=version), rows)


@pytest.fixture(scope="module")
def evidence(model: LatencyModel) -> Evidence:
    """Two LLMs, two versions, one accelerator."""
    steps = (
        source("a", model, "llama-3.1-8b", "0.15.1"),
        source("b", model, "mixtral-8x7b", "0.11.0"),
    )
    return Evidence(runs=(), steps=steps)


def test_an_offset_is_sampled_where_its_coefficient_enters_several_levels(
    model: LatencyModel, evidence: Evidence
) -> None:
    found = level_offsets(model, evidence)
    sampled = {(group, name) for group, name, _ in found.terms}
    assert ("llm", "prefill_compute") in sampled
    assert set(found.collapsed["per_moe_layer"]) == {"family"}  # one of the two LLMs is a mixture
    assert "accelerator" in found.collapsed["weight_read"]
    assert not {(g, n) for n, groups in found.collapsed.items() for g in groups} & sampled
    assert found.collapsed["weight_read_quantised"] == {}  # it enters nowhere: prior alone


@pytest.mark.statistical
def test_split_gives_back_the_prior_and_the_sum(model: LatencyModel, evidence: Evidence) -> None:
    """n = 20,000: each standardised part is normal (5 sigma, false alarm 6e-7 each of ~100)."""
    found = level_offsets(model, evidence)
    scales = total_scales(model, found)
    rng = stream(5, "excess")
    excess = 4.0 * np.exp(scales * rng.standard_normal((20_000, len(scales))))
    offset = rng.standard_normal((20_000, len(found.terms)))
    location, offsets = split(model, evidence, excess, offset, seed=1)
    names = free_names(model)
    total = np.array([model.coefficient(n).sd for n in names]) * location
    for name, groups in found.collapsed.items():
        for group, level in groups.items():
            own = offsets[group][
                :, varying(model, group).index(name), evidence.levels(group).index(level)
            ]
            total[:, names.index(name)] += model.coefficient(name).effects[group] * own
    np.testing.assert_allclose(total, np.log(excess / 4.0), atol=1e-9)
    slack = 5 / np.sqrt(20_000)
    for part in (location, *offsets.values()):
        assert np.all(np.abs(part.mean(axis=0)) < slack)
        assert np.all(np.abs(part.std(axis=0) - 1) < slack)
    assert abs(excess[:, 0].std() - 1) > slack  # control: the sum itself is not standard normal


def numpy_seconds(
    model: LatencyModel, evidence: Evidence, item: StepEvidence, point: dict[str, Array]
) -> Array:
    """Predicted seconds of each timing, by plain loops."""
    names = free_names(model)
    found = level_offsets(model, evidence)
    values = {}
    for k, name in enumerate(names):
        c = model.coefficient(name)
        log_excess = np.log(point["excess"][k] / 4.0)
        for z, (group, of, level) in enumerate(found.terms):
            if of == name and item.levels[group] == level:
                log_excess += c.effects[group] * point["offset"][z]
        values[name] = c.floor + (c.centre - c.floor) * np.exp(log_excess)
    beta = np.array([values[c.name] for c in model.coefficients])
    speed = point["deployment_speed"][evidence.deployments.index(item.deployment)]
    seconds: Array = np.exp(speed) * (item.clock @ beta) + item.overhead @ beta
    return seconds


@pytest.mark.slow
def test_graph_equals_numpy(model: LatencyModel, evidence: Evidence) -> None:
    import pymc as pm

    graph = build_model(model, evidence)
    with graph:
        drawn = pm.draw(
            [*graph.free_RVs, graph["log_timing"].owner.inputs[3]],
            random_seed=4,
            mode="FAST_COMPILE",
        )
    point = dict(zip([v.name for v in graph.free_RVs], drawn[:-1], strict=True))
    expected = np.concatenate([numpy_seconds(model, evidence, s, point) for s in evidence.steps])
    np.testing.assert_allclose(np.exp(drawn[-1]), expected, rtol=1e-9)


def test_levels_of_a_deployment_name_what_it_is() -> None:
    levels = group_levels(deployment("llama-3.1-8b", tensor_parallel=2))
    assert levels["engine_version"] == "vllm-0.15"
    assert levels["interconnect"].endswith("tp2")
