"""Which deployments and engine settings the data behind a posterior cover, and which not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailcast.deployment import Deployment
from tailcast.inference.population import group_levels

_SERIOUS = ("accelerator", "engine_version")
"""Levels whose change makes another machine of it; the hierarchy widens for the others."""

_REACH = 2.0
"""A limit is covered up to this factor beyond the data."""

_LIMITS = ("max_num_seqs", "max_num_batched_tokens")
_FLAGS = (
    "prefix_caching",
    "chunked_prefill",
    "scheduler",
    "kv_cpu_offload",
    "enforce_eager",
    "long_prefill_token_threshold",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One way in which a deployment differs from all that a posterior has seen.

    Parameters
    ----------
    what : str
        Level or setting.
    given : str
        Of the deployment.
    known : tuple of str
        Of the posterior's data; empty where the card does not say.
    serious : bool
        Whether the posterior's answers are about something else: another accelerator, engine
        version or flag.
    """

    what: str
    given: str
    known: tuple[str, ...]
    serious: bool

    def __str__(self) -> str:
        name = self.what.replace("_", " ")
        if not self.known:
            return f"{name} {self.given}: the posterior's card does not say what its data had"
        return f"{name} {self.given} is not in the posterior's data ({', '.join(self.known)})"


def settings_of(deployments: Sequence[Deployment]) -> dict[str, list[Any]]:
    """Engine settings that runs had, for the card of what is fitted to them.

    Parameters
    ----------
    deployments : sequence of Deployment
        Of the runs.

    Returns
    -------
    dict of str to list
        Different values by setting, sorted.
    """
    found: dict[str, set[Any]] = {}
    for deployment in deployments:
        for name, value in _settings(deployment).items():
            found.setdefault(name, set()).add(value)
    return {name: sorted(values) for name, values in sorted(found.items())}


def merged_settings(*parts: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Settings of several bodies of data together.

    Parameters
    ----------
    *parts : mapping of str to sequence
        As `settings_of` gives them.

    Returns
    -------
    dict of str to list
        Different values by setting, sorted.
    """
    names = sorted({name for part in parts for name in part})
    return {name: sorted({v for part in parts for v in part.get(name, ())}) for name in names}


def _settings(deployment: Deployment) -> dict[str, Any]:
    engine = deployment.engine
    return {
        **{name: getattr(engine, name) for name in (*_LIMITS, *_FLAGS)},
        "async_scheduling": engine.schedules_ahead,
        "kv_dtype": deployment.kv_dtype,
        "weights": deployment.weight_dtype,
        "tensor_parallel": deployment.tensor_parallel,
    }


def mismatches(card: Mapping[str, Any], deployment: Deployment) -> tuple[Mismatch, ...]:
    """What of a deployment a posterior's data do not cover.

    Parameters
    ----------
    card : mapping
        Of the posterior.
    deployment : Deployment
        To be predicted or learned from.

    Returns
    -------
    tuple of Mismatch
        Serious ones first.
    """
    scope = card.get("scope", {})
    found = [
        Mismatch(what=group, given=level, known=tuple(scope[group]), serious=group in _SERIOUS)
        for group, level in group_levels(deployment).items()
        if group in scope and level not in scope[group] and _matters(group, deployment)
    ]
    known = card.get("settings", {})
    for name, value in _settings(deployment).items():
        values = known.get(name)
        if values is None:
            continue
        if name in _LIMITS:
            inside = min(values) / _REACH <= value <= max(values) * _REACH
        else:
            inside = value in values
        if not inside:
            text = tuple(_text(v) for v in values)
            serious = name not in {"tensor_parallel", "weights"}
            found.append(Mismatch(what=name, given=_text(value), known=text, serious=serious))
    return tuple(sorted(found, key=lambda mismatch: not mismatch.serious))


def _matters(group: str, deployment: Deployment) -> bool:
    if group == "interconnect":
        return deployment.tensor_parallel > 1
    return group != "family" or deployment.llm.is_moe


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
