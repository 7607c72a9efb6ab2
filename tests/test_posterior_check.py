"""Checks of a posterior: they pass what is right and name what is wrong."""

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from conftest import ROOT
from tailcast.diagnostics import definition as done
from tailcast.diagnostics.coefficients import CoefficientCheck
from tailcast.diagnostics.convergence import Convergence
from tailcast.diagnostics.definition import Requirement, at_least, at_most, failures
from tailcast.diagnostics.emulators import EmulatorError
from tailcast.diagnostics.fitted import FittedData
from tailcast.diagnostics.leave_one_out import LeaveOneOut, leave_one_out
from tailcast.diagnostics.predictive_check import PredictiveCheck, predictive_checks
from tailcast.diagnostics.requirements import CARD_KEYS, requirements
from tailcast.diagnostics.stored_evaluation import StoredEvaluation, load_evaluation
from tailcast.errors import InputError
from tailcast.inference.evidence import content_hash
from tailcast.inference.population import prior_population
from tailcast.latency_model import load_latency_model
from tailcast.posteriors import Posterior
from tailcast.scoring.score import QUANTILE_FIELDS
from tailcast.scoring.summary import Coverage
from tailcast.streams import stream

NORMAL = 1e6
"""Degrees of freedom at which a Student-t is a normal law."""


def normal_data(
    n: int, shift: float = 0.0, scale: float = 1.0, draws: int = 2000, seed: int = 1
) -> FittedData:
    """n observations of one mean under a flat prior: every posterior quantity is known."""
    rng = stream(seed, "data")
    observed = scale * rng.standard_normal(n)
    observed[0] += shift
    mean = observed.mean() + rng.standard_normal(draws) / math.sqrt(n)
    return FittedData(
        names=tuple(f"run/{k}" for k in range(n)),
        sources=tuple(f"run {k % 5}" for k in range(n)),
        kinds=("e2e.mean",) * n,
        observed=observed,
        mean=np.tile(mean[:, None], (1, n)),
        scale=np.ones((draws, n)),
        nu=NORMAL,
        weight=np.ones(n),
    )


def test_log_likelihood_and_probability_are_those_of_the_normal_law() -> None:
    data = normal_data(6)
    r = data.observed - data.mean
    np.testing.assert_allclose(
        data.log_likelihood, -0.5 * math.log(2 * math.pi) - 0.5 * r**2, atol=1e-4
    )
    assert data.probability[0, 0] == pytest.approx(
        0.5 * (1 + math.erf(r[0, 0] / math.sqrt(2))), abs=1e-5
    )


@pytest.mark.statistical
def test_leave_one_out_agrees_with_the_closed_form() -> None:
    """Without datum i it is normal around the others' mean with variance 1 + 1/(n - 1)."""
    n = 12
    data = normal_data(n, draws=4000)
    found = leave_one_out(data)
    others = (data.observed.sum() - data.observed) / (n - 1)
    sd = math.sqrt(1 + 1 / (n - 1))
    z = (data.observed - others) / sd
    exact = -0.5 * np.log(2 * math.pi) - math.log(sd) - 0.5 * z**2
    np.testing.assert_allclose(found.elpd, exact, atol=0.03)
    pit = [0.5 * (1 + math.erf(v / math.sqrt(2))) for v in z]
    np.testing.assert_allclose(found.pit, pit, atol=0.02)
    assert found.good.all()
    seen = np.mean(data.probability, axis=0)
    assert np.abs(seen - pit).max() > 0.02  # control: with the datum it is another number


def test_a_datum_that_carries_the_posterior_has_a_bad_pareto_shape() -> None:
    """Two data, one far off: without it the posterior sits elsewhere."""
    found = leave_one_out(normal_data(2, shift=9.0, draws=800))
    assert not found.good.any()
    assert found.bad_by_kind == {"e2e.mean": 2}
    assert found.coverage(90).share == 0.0
    assert found.uniformity == 0.0


def test_a_datum_of_no_weight_is_left_out_already() -> None:
    data = normal_data(8)
    bare = FittedData(
        **{f: getattr(data, f) for f in FittedData.__slots__ if f != "weight"},
        weight=np.zeros(8),
    )
    np.testing.assert_allclose(leave_one_out(bare).pit, data.probability.mean(axis=0), atol=1e-9)


@pytest.mark.statistical
def test_replications_find_data_that_the_model_does_not_make() -> None:
    """p of 40 data in the model's own scatter stays above .002 (false alarm 3 x .002 a kind, seed
    fixed); twice the scatter and one wild datum fall below it."""
    assert predictive_checks(normal_data(40))[0].extreme > done.MIN_PREDICTIVE_P
    wide = predictive_checks(normal_data(40, scale=2.0))[0]
    assert wide.extreme < done.MIN_PREDICTIVE_P
    assert wide.p["spread"] < done.MIN_PREDICTIVE_P
    wild = predictive_checks(normal_data(40, shift=7.0))[0]
    assert wild.p["worst"] < done.MIN_PREDICTIVE_P
    narrow = predictive_checks(normal_data(40, scale=0.3))[0]
    assert narrow.p["spread"] > 1 - done.MIN_PREDICTIVE_P


def test_replications_are_judged_kind_by_kind_and_repeat_with_the_seed() -> None:
    data = normal_data(10)
    mixed = FittedData(
        **{f: getattr(data, f) for f in FittedData.__slots__ if f != "kinds"},
        kinds=("ttft.mean",) * 4 + ("step.decode",) * 6,
    )
    found = predictive_checks(mixed, seed=4)
    assert [(c.kind, c.n) for c in found] == [("ttft.mean", 4), ("step.decode", 6)]
    assert found == predictive_checks(mixed, seed=4)


def test_not_a_number_never_passes() -> None:
    assert not at_most("x", math.nan, 1.0).passed
    assert not at_least("x", math.nan, 1.0).passed


def good_posterior(folder: Path) -> Posterior:
    model = load_latency_model("physics")
    population = prior_population(model, 20, 0)
    digest = content_hash(
        population.location.astype(np.float32), population.deployment.astype(np.float32)
    )
    card = dict.fromkeys(CARD_KEYS, "there") | {
        "posterior_sha256": digest,
        "diagnostics": {
            "rhat": 1.003,
            "ess_bulk": 900.0,
            "ess_tail": 800.0,
            "divergences": 0,
            "n_draw": 4000,
        },
    }
    (folder / "README.md").write_text("scope")
    return Posterior(
        name="good", latency_model=model, population=population, card=card, path=folder
    )


def judged(folder: Path, **changes: object) -> list[Requirement]:
    """Requirements of a posterior that is right but for what is changed."""
    data = normal_data(30)
    good: dict[str, object] = {
        "n_byte": 500_000,
        "convergence": Convergence(
            rhat=1.01,
            worst="location",
            ess_bulk=300.0,
            scarce="location",
            divergences=0,
            n_draw=800,
        ),
        "coefficients": [coefficient()],
        "predictive": [PredictiveCheck(kind="e2e.mean", n=30, p={"bias": 0.4})],
        "loo": loo(data, data.observed * 0 + 0.1, np.linspace(0.02, 0.98, 30)),
        "emulators": [emulator()],
        "evaluation": None,
        "has_runs": True,
    }
    posterior = changes.pop("posterior", None) or good_posterior(folder)
    return list(requirements(posterior, **{**good, **changes}))  # type: ignore[arg-type]


def coefficient(
    name: str = "per_step", below: int = 0, contraction: float = 0.3
) -> CoefficientCheck:
    return CoefficientCheck(
        name=name,
        unit="s",
        prior=(1.0, 2.0, 3.0),
        posterior=(1.5, 2.0, 2.5),
        contraction=contraction,
        n_below_floor=below,
    )


def emulator(bias: float = 0.0, rmse: float = 0.005, summary: str = "e2e.mean") -> EmulatorError:
    return EmulatorError(
        run="r", stage=0, summary=summary, bias=bias, rmse=rmse, residual=0.005, scale=0.01
    )


def loo(data: FittedData, khat: object, pit: object) -> LeaveOneOut:
    return LeaveOneOut(
        data=data, elpd=np.zeros(30), pit=np.asarray(pit), khat=np.asarray(khat, dtype=np.float64)
    )


def names(found: Sequence[Requirement]) -> list[str]:
    return [r.name for r in failures(found)]


def test_a_posterior_that_is_right_meets_everything(tmp_path: Path) -> None:
    assert names(judged(tmp_path)) == []


def test_each_fault_fails_its_own_requirement(tmp_path: Path) -> None:
    data = normal_data(30)
    even = np.linspace(0.02, 0.98, 30)
    stuck = Convergence(
        rhat=1.2, worst="run_speed", ess_bulk=3.0, scarce="run_speed", divergences=0, n_draw=800
    )
    faults: dict[str, dict[str, object]] = {
        "bytes of posterior.nc": {"n_byte": 1_000_001},
        "r-hat, stored draws": {"convergence": stuck},
        "draws below the physical floor": {"coefficients": [coefficient(below=1)]},
        "share of coefficients at their prior": {"coefficients": [coefficient(contraction=0.9)]},
        "emulators were checked against the engine": {"emulators": []},
        "emulator error over likelihood scale": {"emulators": [emulator(rmse=0.0201)]},
        "emulator bias over likelihood scale": {"emulators": [emulator(bias=-0.011, rmse=0.015)]},
        "smallest posterior predictive p": {
            "predictive": [PredictiveCheck(kind="x", n=3, p={"bias": 0.9995})]
        },
        "share of data with k-hat above 0.7": {"loo": loo(data, [1.0] * 4 + [0.1] * 26, even)},
        "leave-one-out coverage of the 90 % interval": {
            "loo": loo(data, even * 0, [0.5] * 5 + [0.99] * 25)
        },
    }
    for name, change in faults.items():
        assert name in names(judged(tmp_path, **change)), name


def test_the_card_must_be_that_of_these_draws(tmp_path: Path) -> None:
    good = good_posterior(tmp_path)
    other = Posterior(
        name="x",
        latency_model=good.latency_model,
        population=prior_population(good.latency_model, 20, 1),
        card={k: v for k, v in good.card.items() if k != "notes"},
        path=tmp_path / "nowhere",
    )
    assert names(judged(tmp_path, posterior=other)) == [
        "card is complete",
        "card belongs to these draws",
        "README.md",
    ]


def test_sampling_that_did_not_converge_fails(tmp_path: Path) -> None:
    good = good_posterior(tmp_path)
    bad = {"rhat": 1.02, "ess_bulk": 399.0, "ess_tail": 100.0, "divergences": 21, "n_draw": 4000}
    other = Posterior(
        name="x",
        latency_model=good.latency_model,
        population=good.population,
        card={**good.card, "diagnostics": bad},
        path=tmp_path,
    )
    assert names(judged(tmp_path, posterior=other)) == [
        "r-hat, all draws",
        "bulk ESS, all draws",
        "tail ESS, all draws",
        "share of divergences",
    ]


def test_an_evaluation_must_be_of_these_draws_and_cover(tmp_path: Path) -> None:
    good = good_posterior(tmp_path)
    stored = StoredEvaluation(
        posterior="another",
        n_experiment=20,
        n=80,
        coverage=(
            Coverage(level=50, share=0.5, low=0.27, high=0.73),
            Coverage(level=90, share=0.5, low=0.27, high=0.73),
        ),
        pit=(4.0,) * 5,
        pits=(0.5,) * 80,
        extrapolates=(),
    )
    assert names(judged(tmp_path, posterior=good, evaluation=stored)) == [
        "evaluation judged these draws",
        "coverage of the 90 % interval on 20 other runs",
    ]


def test_the_page_states_the_numbers_that_are_checked() -> None:
    text = (ROOT / "posteriors" / "DEFINITION.md").read_text()
    stated = set(re.findall(r"\d+(?:\.\d+)?", text))
    limits = [
        done.MAX_BYTES,
        done.MAX_RHAT,
        done.MAX_STORED_RHAT,
        done.MIN_ESS,
        done.MAX_DIVERGENT,
        done.MAX_BELOW_FLOOR,
        done.MAX_EMULATOR_RMSE,
        done.MAX_EMULATOR_BIAS,
        done.MAX_EMULATOR_MEAN_E2E,
        done.MIN_PREDICTIVE_P,
        done.MAX_BAD_KHAT,
        done.UNIDENTIFIED,
        done.MAX_UNIDENTIFIED,
    ]
    assert {f"{limit:.10g}" for limit in limits} <= stated


def evaluation_file(path: Path, n: int = 4, inside: bool = True) -> Path:
    spread = {name: 1.0 + 0.1 * (level - 0.5) for name, level in QUANTILE_FIELDS.items()}
    records: list[dict[str, object]] = [
        {
            "experiment": str(k),
            "stage": 0,
            "metric": "e2e",
            "statistic": "mean",
            "observed": 1.0 if inside else 3.0,
            "mean": 1.0,
            **spread,
            "pit": 0.5 if inside else 1.0,
            "crps": 0.1,
            "extrapolates": k == 0,
            "mode": "cold",
        }
        for k in range(n)
    ]
    records.append({"experiment": "broken", "error": "no such LLM"})
    content = {
        "schema": "tailcast/evaluate/1",
        "posterior": {"sha256": "abc"},
        "records": records,
    }
    path.write_text(json.dumps(content))
    return path


def test_a_stored_evaluation_is_counted_again(tmp_path: Path) -> None:
    found = load_evaluation(evaluation_file(tmp_path / "e.json"))
    assert (found.n_experiment, found.n, found.posterior) == (4, 4, "abc")
    assert [c.share for c in found.coverage] == [1.0, 1.0, 1.0]
    assert found.extrapolates == ("0",)
    missed = load_evaluation(evaluation_file(tmp_path / "m.json", inside=False))
    assert [c.share for c in missed.coverage] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"pit": None}, "pit must be a number"),
        ({"pit": 2.0}, "pit is impossible"),
        ({"observed": float("nan")}, "observed is impossible"),
        ({"observed": -1.0}, "observed is impossible"),
        ({"stage": "a"}, "stage must be a number"),
        ({"q05": 9.0}, "quantiles are not in order"),
        ({"pinball_log": [1]}, "pinball_log must be an object"),
        ({"metric": 3}, "metric must be text"),
    ],
)
def test_a_damaged_record_is_refused_with_its_place(
    tmp_path: Path, change: dict[str, object], complaint: str
) -> None:
    path = evaluation_file(tmp_path / "e.json")
    content = json.loads(path.read_text())
    content["records"][1].update(change)
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=f"record 1: .*{complaint}") as refused:
        load_evaluation(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "not valid JSON"),
        ("[]", "not tailcast/evaluate/1"),
        ('{"schema": "tailcast/evaluate/1", "records": []}', "no record of mean"),
        (
            '{"schema": "tailcast/evaluate/1", "records": [{"metric": "e2e"}]}',
            "record 0: q05 must be a",
        ),
        ('{"schema": "tailcast/evaluate/1", "records": null}', "records must be a list"),
        ('{"schema": "tailcast/evaluate/1", "records": "abc"}', "records must be a list"),
    ],
)
def test_what_is_no_evaluation_is_refused_in_one_line(
    tmp_path: Path, content: str, complaint: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(InputError, match=complaint) as refused:
        load_evaluation(path)
    assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match="cannot be read"):
        load_evaluation(tmp_path / "absent.json")
