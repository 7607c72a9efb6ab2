"""Everything that is asked of a posterior, in one pass over what is stored with it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tailcast.diagnostics.coefficients import CoefficientCheck, coefficient_checks
from tailcast.diagnostics.convergence import Convergence, stored_convergence
from tailcast.diagnostics.definition import Requirement, failures
from tailcast.diagnostics.emulators import EmulatorError, emulator_errors
from tailcast.diagnostics.fitted import FittedData, fitted_data
from tailcast.diagnostics.leave_one_out import LeaveOneOut, leave_one_out
from tailcast.diagnostics.predictive_check import PredictiveCheck, predictive_checks
from tailcast.diagnostics.requirements import requirements
from tailcast.diagnostics.stored_evaluation import StoredEvaluation
from tailcast.inference.card import contraction
from tailcast.inference.tree import evidence_of
from tailcast.posteriors import FILE, Posterior
from tailcast.scoring.score import LEVELS
from tailcast.scoring.summary import N_PIT_BIN

SCHEMA = "tailcast/posterior-check/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PosteriorCheck:
    """What a check of a posterior found.

    Parameters
    ----------
    posterior : Posterior
        Which was checked.
    convergence : Convergence
        Of the stored draws; the card has that of all draws.
    coefficients : tuple of CoefficientCheck
        Prior beside posterior.
    data : FittedData
        What was fitted, with its likelihood.
    predictive : tuple of PredictiveCheck
        By kind of datum.
    loo : LeaveOneOut
        Each datum predicted without it.
    emulators : tuple of EmulatorError
        Against the engine.
    evaluation : StoredEvaluation or None
        Coverage on runs that were not fitted, where one was given.
    n_byte : int
        Size of the stored file.
    requirements : tuple of Requirement
        What must hold before it ships.
    """

    posterior: Posterior
    convergence: Convergence
    coefficients: tuple[CoefficientCheck, ...]
    data: FittedData
    predictive: tuple[PredictiveCheck, ...]
    loo: LeaveOneOut
    emulators: tuple[EmulatorError, ...]
    evaluation: StoredEvaluation | None
    n_byte: int
    requirements: tuple[Requirement, ...]

    @property
    def passed(self) -> bool:
        """Whether everything that must hold does."""
        return not failures(self.requirements)

    @property
    def unidentified(self) -> list[str]:
        """Coefficients that the data did not move."""
        return [c.name for c in self.coefficients if not c.identified]

    def as_json(self) -> dict[str, Any]:
        """The contract ``tailcast/posterior-check/1``.

        Returns
        -------
        dict
            Ready for `json.dumps`.
        """
        card = self.posterior.card
        return {
            "schema": SCHEMA,
            "posterior": {
                "name": self.posterior.name,
                "latency_model": card["latency_model"],
                "model_sha256": card["model_sha256"],
                "sha256": card.get("posterior_sha256"),
                "bytes": self.n_byte,
            },
            "passed": self.passed,
            "requirements": [asdict(r) for r in self.requirements],
            "convergence": {"sampled": card.get("diagnostics"), "stored": asdict(self.convergence)},
            "coefficients": [{**asdict(c), "identified": c.identified} for c in self.coefficients],
            "unidentified": self.unidentified,
            "predictive_checks": [asdict(c) for c in self.predictive],
            "loo": _loo_json(self.loo),
            "emulators": [{**asdict(e), "ratio": e.ratio} for e in self.emulators],
            "hull": {"scope": card.get("scope"), "basis_range": card.get("basis_range")},
            "evaluation": asdict(self.evaluation) if self.evaluation else None,
        }


def _loo_json(loo: LeaveOneOut) -> dict[str, Any]:
    good = loo.pit[loo.good]
    return {
        "n": len(loo.pit),
        "elpd": float(loo.elpd.sum()),
        "n_bad_khat": int(np.sum(~loo.good)),
        "bad_khat_by_kind": loo.bad_by_kind,
        "worst_khat": float(loo.khat.max()),
        "pit5": [int(v) for v in np.histogram(good, N_PIT_BIN, (0.0, 1.0))[0]],
        "uniformity_p": loo.uniformity,
        "coverage": [asdict(loo.coverage(level)) for level in LEVELS],
        "data": [
            {
                "name": name,
                "elpd": float(loo.elpd[k]),
                "pit": float(loo.pit[k]),
                "khat": float(loo.khat[k]),
            }
            for k, name in enumerate(loo.data.names)
        ],
    }


def check_posterior(
    posterior: Posterior, *, evaluation: StoredEvaluation | None = None, seed: int = 0
) -> PosteriorCheck:
    """Check a posterior against the definition of done.

    Parameters
    ----------
    posterior : Posterior
        With evidence, prior and sample statistics in its file.
    evaluation : StoredEvaluation, optional
        Scores on runs that were not fitted.
    seed : int
        Of the replications.

    Returns
    -------
    PosteriorCheck
        With a verdict for each requirement.

    Raises
    ------
    InputError
        If the file cannot be read or lacks a group.
    """
    tree = posterior.tree("evidence", "posterior", "prior", "sample_stats", "observed_data")
    evidence = evidence_of(tree)
    learned: Mapping[str, float] = contraction(posterior.population, evidence)
    data = fitted_data(posterior.latency_model, tree, evidence)
    convergence = stored_convergence(tree)
    coefficients = coefficient_checks(tree, posterior.latency_model, learned)
    predictive = predictive_checks(data, seed)
    loo = leave_one_out(data, min(1.0, convergence.ess_bulk / convergence.n_draw))
    emulators = emulator_errors(tree, data)
    n_byte = (posterior.path / FILE).stat().st_size
    return PosteriorCheck(
        posterior=posterior,
        convergence=convergence,
        coefficients=coefficients,
        data=data,
        predictive=predictive,
        loo=loo,
        emulators=emulators,
        evaluation=evaluation,
        n_byte=n_byte,
        requirements=requirements(
            posterior,
            n_byte=n_byte,
            convergence=convergence,
            coefficients=coefficients,
            predictive=predictive,
            loo=loo,
            emulators=emulators,
            evaluation=evaluation,
            has_runs=bool(evidence.runs),
        ),
    )
