"""The definition of done, judged: one list of requirements a posterior."""

from collections.abc import Sequence

import numpy as np

from tailcast.diagnostics import definition as done
from tailcast.diagnostics.coefficients import CoefficientCheck
from tailcast.diagnostics.convergence import Convergence
from tailcast.diagnostics.definition import Requirement, at_least, at_most, holds
from tailcast.diagnostics.emulators import EmulatorError
from tailcast.diagnostics.leave_one_out import LeaveOneOut
from tailcast.diagnostics.predictive_check import PredictiveCheck
from tailcast.diagnostics.stored_evaluation import StoredEvaluation
from tailcast.inference.evidence import content_hash
from tailcast.posteriors import Posterior
from tailcast.scoring.score import LEVELS
from tailcast.scoring.summary import Coverage

CARD_KEYS = (
    "basis_range",
    "checks_made",
    "contraction",
    "data_sha256",
    "diagnostics",
    "notes",
    "parent",
    "posterior_sha256",
)


def requirements(
    posterior: Posterior,
    *,
    n_byte: int,
    convergence: Convergence,
    coefficients: Sequence[CoefficientCheck],
    predictive: Sequence[PredictiveCheck],
    loo: LeaveOneOut,
    emulators: Sequence[EmulatorError],
    evaluation: StoredEvaluation | None,
    has_runs: bool,
) -> tuple[Requirement, ...]:
    """Judge a posterior.

    Parameters
    ----------
    posterior : Posterior
        With its card.
    n_byte : int
        Size of its file.
    convergence : Convergence
        Of the stored draws.
    coefficients : sequence of CoefficientCheck
        Prior beside posterior.
    predictive : sequence of PredictiveCheck
        By kind of datum.
    loo : LeaveOneOut
        Leave-one-out predictions.
    emulators : sequence of EmulatorError
        Against the engine.
    evaluation : StoredEvaluation or None
        Scores on runs that were not fitted.
    has_runs : bool
        Whether runs were fitted, so that emulators must have been checked.

    Returns
    -------
    tuple of Requirement
        In the order of ``posteriors/DEFINITION.md``.
    """
    return (
        *_file(posterior, n_byte),
        *_sampling(posterior, convergence),
        *_physics(coefficients),
        *_emulators(emulators, has_runs),
        *_fit(predictive, loo),
        *(_calibration(posterior, evaluation) if evaluation is not None else ()),
    )


def _file(posterior: Posterior, n_byte: int) -> list[Requirement]:
    card, population = posterior.card, posterior.population
    missing = [key for key in CARD_KEYS if key not in card]
    digest = content_hash(
        population.location.astype(np.float32), population.deployment.astype(np.float32)
    )
    stated = str(card.get("posterior_sha256"))
    readme = (posterior.path / "README.md").is_file()
    return [
        at_most("bytes of posterior.nc", n_byte, done.MAX_BYTES),
        holds(
            "card is complete",
            not missing,
            f"{len(CARD_KEYS) - len(missing)} of {len(CARD_KEYS)} entries",
            "all",
            ", ".join(missing),
        ),
        holds("card belongs to these draws", digest == stated, digest[:12], stated[:12]),
        holds("README.md", readme, "there" if readme else "missing", "there"),
    ]


def _sampling(posterior: Posterior, stored: Convergence) -> list[Requirement]:
    found = dict(posterior.card.get("diagnostics", {}))
    nan = float("nan")
    n_draw = float(found.get("n_draw", nan))
    divergent = float(found.get("divergences", nan)) / n_draw if n_draw else nan
    return [
        at_most("r-hat, all draws", float(found.get("rhat", nan)), done.MAX_RHAT),
        at_least("bulk ESS, all draws", float(found.get("ess_bulk", nan)), done.MIN_ESS),
        at_least("tail ESS, all draws", float(found.get("ess_tail", nan)), done.MIN_ESS),
        at_most("share of divergences", divergent, done.MAX_DIVERGENT),
        at_most("r-hat, stored draws", stored.rhat, done.MAX_STORED_RHAT, stored.worst),
    ]


def _physics(coefficients: Sequence[CoefficientCheck]) -> list[Requirement]:
    below = [c for c in coefficients if c.n_below_floor]
    unmoved = [c.name for c in coefficients if not c.identified]
    return [
        at_most(
            "draws below the physical floor",
            sum(c.n_below_floor for c in below),
            done.MAX_BELOW_FLOOR,
            ", ".join(c.name for c in below),
        ),
        at_most(
            "share of coefficients at their prior",
            len(unmoved) / max(len(coefficients), 1),
            done.MAX_UNIDENTIFIED,
            ", ".join(unmoved),
        ),
    ]


def _emulators(errors: Sequence[EmulatorError], has_runs: bool) -> list[Requirement]:
    if not has_runs:
        return []
    if not errors:
        return [holds("emulators were checked against the engine", False, "no", "yes")]
    worst = max(errors, key=lambda e: e.ratio)
    biased = max(errors, key=lambda e: e.bias_ratio)
    made = [
        at_most(
            "emulator error over likelihood scale",
            worst.ratio,
            done.MAX_EMULATOR_RMSE,
            _name(worst),
        ),
        at_most(
            "emulator bias over likelihood scale",
            biased.bias_ratio,
            done.MAX_EMULATOR_BIAS,
            _name(biased),
        ),
    ]
    mean_e2e = [e.rmse for e in errors if e.summary == "e2e.mean"]
    if mean_e2e:
        made.append(
            at_most(
                "median emulator error of mean E2E",
                float(np.median(mean_e2e)),
                done.MAX_EMULATOR_MEAN_E2E,
            )
        )
    return made


def _name(error: EmulatorError) -> str:
    return f"{error.run}/{error.stage}/{error.summary}"


def _fit(predictive: Sequence[PredictiveCheck], loo: LeaveOneOut) -> list[Requirement]:
    worst = min(predictive, key=lambda c: c.extreme)
    bad = ", ".join(f"{kind} {n}" for kind, n in loo.bad_by_kind.items())
    share = float(np.mean(~loo.good))
    return [
        at_least(
            "smallest posterior predictive p", worst.extreme, done.MIN_PREDICTIVE_P, worst.kind
        ),
        at_most("share of data with k-hat above 0.7", share, done.MAX_BAD_KHAT, bad),
        *(_left_out(loo.coverage(level)) for level in LEVELS),
    ]


def _left_out(found: Coverage) -> Requirement:
    """Too narrow fails; too wide does no harm."""
    return holds(
        f"leave-one-out coverage of the {found.level} % interval",
        found.high >= found.level / 100,
        f"{found.share:.2f}",
        f"{found.level / 100:.2f} not above {found.low:.2f}-{found.high:.2f}",
    )


def _calibration(posterior: Posterior, evaluation: StoredEvaluation) -> list[Requirement]:
    stated = str(posterior.card.get("posterior_sha256"))
    return [
        holds(
            "evaluation judged these draws",
            evaluation.posterior == stated,
            evaluation.posterior[:12],
            stated[:12],
        ),
        *_covered(evaluation),
    ]


def _covered(evaluation: StoredEvaluation) -> list[Requirement]:
    return [
        holds(
            f"coverage of the {c.level} % interval on {evaluation.n_experiment} other runs",
            c.holds_nominal,
            f"{c.share:.2f}",
            f"{c.level / 100:.2f} in {c.low:.2f}-{c.high:.2f}",
        )
        for c in evaluation.coverage
    ]
