"""A posterior and new traces to a new posterior: checked before, contraction told after."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.coefficients import deployment_basis
from tailcast.deployment import Deployment
from tailcast.drift import DriftCheck, drift_check, run_prediction
from tailcast.errors import InferenceError, InputError, UsageError
from tailcast.inference.card import posterior_card
from tailcast.inference.fit import Fit
from tailcast.inference.forward import STAT_QUANTILES
from tailcast.inference.nuts import Sampler
from tailcast.inference.population import deployment_draws, deployment_key
from tailcast.inference.scope import Mismatch, merged_settings, mismatches, settings_of
from tailcast.inference.sources import Sources
from tailcast.inference.trace_input import same_source
from tailcast.inference.tree import population_of
from tailcast.inference.update import UPDATE, update
from tailcast.posteriors import Posterior
from tailcast.prediction import METRICS

Array = NDArray[np.float64]
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """What a posterior thinks of new sources before it uses them.

    Parameters
    ----------
    checks : tuple of DriftCheck
        One a run with statistics; step logs have none.
    mismatches : tuple of (str, Mismatch)
        Deployment key and what of it the posterior's data do not cover.
    """

    checks: tuple[DriftCheck, ...]
    mismatches: tuple[tuple[str, Mismatch], ...]

    @property
    def refused(self) -> tuple[str, ...]:
        """Reasons for which a strict update refuses, one sentence each."""
        drifted = [f"{c.name}: drift (p {c.p:.4f})" for c in self.checks if c.drifted]
        serious = [f"{key}: {m}" for key, m in self.mismatches if m.serious]
        return (*drifted, *serious)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One number before and after an update.

    Parameters
    ----------
    where : str
        Deployment or run.
    what : str
        Coefficient, or ``"metric.statistic"``.
    before, after : ndarray, shape (n_draw,)
        Posterior draws, in the number's own unit.
    """

    where: str
    what: str
    before: Array
    after: Array

    @property
    def contraction(self) -> float:
        """Spread of the log after over before: 1 for nothing learned, 0 for everything."""
        wide = float(np.std(np.log(self.before)))
        return float(np.std(np.log(self.after))) / wide if wide > 0 else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """A new posterior and how it differs from its parent.

    Parameters
    ----------
    fitted : Fit
        The new posterior.
    card : mapping
        Its card, with parent and data.
    coefficients : tuple of Move
        By deployment of the new runs.
    statistics : tuple of Move
        The statistic asked for, predicted for each new run as if it were yet to come.
    """

    fitted: Fit
    card: Mapping[str, Any]
    coefficients: tuple[Move, ...]
    statistics: tuple[Move, ...]


def asked_statistic(text: str) -> tuple[str, str]:
    """Metric and statistic of a text such as ``ttft.p99``.

    Parameters
    ----------
    text : str
        As typed.

    Returns
    -------
    tuple of str
        Metric and statistic.

    Raises
    ------
    UsageError
        If it is none that a trace is predicted by.
    """
    metric, _, stat = text.partition(".")
    known = ("mean", *STAT_QUANTILES)
    if metric not in METRICS or stat not in known:
        raise UsageError(
            f"no statistic {text!r}; write metric.statistic, of {', '.join(METRICS)} and "
            f"{', '.join(known)}"
        )
    return metric, stat


def assess(
    posterior: Posterior, sources: Sources, *, seed: int, report: Report = lambda _: None
) -> Assessment:
    """Check new sources against a posterior before they are used.

    Parameters
    ----------
    posterior : Posterior
        To be updated.
    sources : Sources
        New.
    seed : int
        Of the predictive draws.
    report : callable
        Receives lines of progress.

    Returns
    -------
    Assessment
        Drift by run, mismatches by deployment.

    Raises
    ------
    InputError
        If a source is in the posterior already.
    """
    _refuse_known(posterior, sources)
    checks = []
    for run in sources.runs:
        report(f"predicting {run.name} before it is used")
        checks.append(drift_check(posterior, run, seed=seed))
    found = {
        (deployment_key(deployment), mismatch)
        for deployment in sources.deployments
        for mismatch in mismatches(posterior.card, deployment)
    }
    ordered = sorted(found, key=lambda pair: (not pair[1].serious, pair[0], pair[1].what))
    return Assessment(checks=tuple(checks), mismatches=tuple(ordered))


def _names(sources: Sources) -> list[str]:
    return [*(run.name for run in sources.runs), *(step.name for step in sources.steps)]


def _refuse_known(posterior: Posterior, sources: Sources) -> None:
    known = [item.name for item in posterior.evidence().items]
    for source in _names(sources):
        for name in known:
            if same_source(source, name):
                raise InputError(
                    f"{source}: already in posterior {posterior.name}; a run counts once"
                )
    hashes = {value: name for name, value in posterior.card.get("data_sha256", {}).items()}
    for name, value in sources.files.items():
        if value in hashes:
            raise InputError(
                f"{name}: already in posterior {posterior.name} as {hashes[value]}; "
                "a file counts once"
            )


def update_posterior(
    posterior: Posterior,
    sources: Sources,
    assessment: Assessment,
    *,
    name: str,
    seed: int = 0,
    forget: float = 0.0,
    metric: str = "ttft",
    stat: str = "p99",
    sampler: Sampler = UPDATE,
    allow_unconverged: bool = False,
    report: Report = lambda _: None,
) -> Updated:
    """Learn from new sources.

    Parameters
    ----------
    posterior : Posterior
        Parent; it is not changed.
    sources : Sources
        New runs and step logs.
    assessment : Assessment
        Of these sources; it is recorded.
    name : str
        Of the new posterior.
    seed : int
        Of designs and sampling.
    forget : float
        Share of the parent's evidence to forget, in [0, 1).
    metric, stat : str
        Statistic whose contraction is told.
    sampler : Sampler
        Sizes.
    allow_unconverged : bool
        Whether a posterior that fails its diagnostics is returned all the same.
    report : callable
        Receives lines of progress.

    Returns
    -------
    Updated
        With its card.

    Raises
    ------
    UsageError, InputError
        If nothing new is given, a source is known, or `forget` is no share.
    InferenceError
        If sampling fails or does not converge.
    """
    model = posterior.latency_model
    fitted = update(
        model,
        posterior.tree(),
        posterior.population,
        posterior.evidence(),
        sources.runs,
        sources.steps,
        seed=seed,
        sampler=sampler,
        forget=forget,
        patient=not allow_unconverged,
        report=report,
    )
    found = fitted.diagnostics
    if not found.passed and not allow_unconverged:
        raise InferenceError(
            f"not converged: r-hat {found.rhat:.3f} at {found.worst}, bulk ESS "
            f"{found.ess_bulk:.0f}, {found.divergences} divergences; raise --draws, or store it "
            "with --allow-unconverged"
        )
    child = Posterior(
        name=name,
        latency_model=model,
        population=population_of(fitted.tree, model),
        card={},
        path=Path(name),
    )
    card = _card(posterior, sources, assessment, fitted, name, seed, forget, sampler)
    return Updated(
        fitted=fitted,
        card=card,
        coefficients=_coefficient_moves(posterior, child, sources.deployments, seed),
        statistics=_statistic_moves(posterior, child, sources, metric, stat, seed),
    )


def _card(
    posterior: Posterior,
    sources: Sources,
    assessment: Assessment,
    fitted: Fit,
    name: str,
    seed: int,
    forget: float,
    sampler: Sampler,
) -> dict[str, Any]:
    parent = posterior.card
    card = posterior_card(
        name,
        posterior.latency_model,
        fitted,
        files={**parent.get("data_sha256", {}), **sources.files},
        notes=[*parent.get("notes", ()), *sources.notes],
        seed=seed,
        sampler=sampler,
        method="update",
        parent=parent.get("posterior_sha256"),
        settings=merged_settings(parent.get("settings", {}), settings_of(sources.deployments)),
    )
    card["update"] = {
        "parent": posterior.name,
        "parent_sha256": parent.get("posterior_sha256"),
        "data_sha256": dict(sorted(sources.files.items())),
        "sources": _names(sources),
        "forget": forget,
        "drift": [
            {
                "run": check.name,
                "p": check.p,
                "drifted": check.drifted,
                "farthest": check.farthest,
                "suspects": [s.name for s in check.suspects],
            }
            for check in assessment.checks
        ],
        "outside_scope": [f"{key}: {m}" for key, m in assessment.mismatches],
    }
    return card


def _coefficient_moves(
    before: Posterior, after: Posterior, deployments: Sequence[Deployment], seed: int
) -> tuple[Move, ...]:
    """Coefficients that matter on each deployment, without discrepancies."""
    moves = []
    for deployment in {deployment_key(d): d for d in deployments}.values():
        draws = [
            deployment_draws(p.population, deployment, seed, with_discrepancy=False).coefficients
            for p in (before, after)
        ]
        basis = deployment_basis(before.latency_model, deployment)
        live = {
            name
            for name, features in zip(basis.names, basis.features, strict=True)
            if features.any() or name in basis.tables
        }
        for coefficient in before.latency_model.coefficients:
            if coefficient.fixed or not (coefficient.is_overhead or coefficient.name in live):
                continue
            old, new = (d.values[coefficient.name] for d in draws)
            moves.append(
                Move(where=deployment_key(deployment), what=coefficient.name, before=old, after=new)
            )
    return tuple(moves)


def _statistic_moves(
    before: Posterior, after: Posterior, sources: Sources, metric: str, stat: str, seed: int
) -> tuple[Move, ...]:
    moves = []
    for run in sources.runs:
        old, new = (
            run_prediction(p, run, n_draw=200, seed=seed).draws(metric, stat)
            for p in (before, after)
        )
        good = np.isfinite(old) & np.isfinite(new)
        if good.any():
            moves.append(
                Move(where=run.name, what=f"{metric}.{stat}", before=old[good], after=new[good])
            )
    return tuple(moves)
