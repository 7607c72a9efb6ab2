"""A posterior that needs no fit, a small deployment and a light workload."""

from functools import partial
from pathlib import Path

from tailcast.deployment import Deployment
from tailcast.inference.population import prior_population
from tailcast.latency_model import load_latency_model
from tailcast.posteriors import Posterior
from tailcast.risk.tables import Tables
from tailcast.risk.trial import Question
from tailcast.slo import parse_objective
from tailcast.study import deployment_from_mapping
from tailcast.workload.mapping import workload_from_mapping
from tailcast.workload.materialise import materialise
from tailcast.workload.spec import Workload


def prior_posterior(n_draw: int = 60, name: str = "prior") -> Posterior:
    """The prior of the shipped latency model in a posterior's clothes."""
    model = load_latency_model("physics")
    return Posterior(
        name=name,
        latency_model=model,
        population=prior_population(model, n_draw, 0),
        card={},
        path=Path(),
    )


def deployment(**changes: object) -> Deployment:
    """An 8B model on one or more H100."""
    table = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "max_num_seqs": 64, **changes}
    return deployment_from_mapping(table, "test")


def workload(rate: float | None = 5.0, **changes: object) -> Workload:
    """A hundred requests of mixed lengths."""
    table = {
        "rate": rate,
        "n_requests": 100,
        "arrivals": "poisson",
        "input_tokens": {"law": "lognormal", "median": 300, "sigma": 0.5},
        "output_tokens": {"law": "lognormal", "median": 50, "sigma": 0.5},
        **changes,
    }
    return workload_from_mapping({k: v for k, v in table.items() if v is not None}, "test")


def tables(spec: Workload | None = None) -> Tables:
    """Requests of a workload by seed."""
    return Tables(partial(materialise, spec or workload()))


def question(*texts: str, groups: tuple[str, ...] = ("all",)) -> Question:
    """Objectives of texts."""
    return Question(objectives=tuple(parse_objective(t) for t in texts), groups=groups)
