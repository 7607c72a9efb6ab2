"""The control loop on a load, against as many plants as there are draws of the truth."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from tailcast.autoscale.controller import (
    Controller,
    ControllerSettings,
    FixedController,
    TunerController,
    WvaController,
)
from tailcast.autoscale.load import LoadProfile
from tailcast.autoscale.loop import LoopSettings, run_loop
from tailcast.autoscale.outcome import Outcome, outcome
from tailcast.autoscale.plant import Cluster
from tailcast.autoscale.replica import Source, named_deployment, uncertain_numbers
from tailcast.coefficients import pipeline_depth
from tailcast.crosscheck.calibrate import uniform_lengths
from tailcast.crosscheck.law import engine_law, engine_limits
from tailcast.engine.deployment_limits import deployment_limits
from tailcast.engine.limits import Limits
from tailcast.errors import InputError, UsageError, near_name
from tailcast.queueing.field_units import parse_three_numbers
from tailcast.queueing.parameter_prior import NumbersPrior, hardware_prior, numbers_prior
from tailcast.queueing.sensitivity import numbers_of_log
from tailcast.queueing.server import RequestShape, ServerLimits
from tailcast.queueing.sizing import Targets
from tailcast.queueing.tuner import restore_tuner
from tailcast.request import RequestTable, request_table
from tailcast.step_law import StepLaw
from tailcast.streams import stream

# of the first belief where no deployment is named: sd of the logs of alpha, beta, gamma
_PRIOR_LOG_SD = (0.2, 0.3, 0.4)
MOST_REQUESTS = 5e6

ControllerName = Literal["tuner", "wva", "fixed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """The truth that a controller does not see, by draw.

    Parameters
    ----------
    law : StepLaw
        One row a draw.
    limits : Limits
        Of each replica.
    source : str
        Where the law comes from.
    """

    law: StepLaw
    limits: Limits
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscaleQuestion:
    """What is run.

    Parameters
    ----------
    load : LoadProfile
        Rate over time.
    shape : RequestShape
        Mean tokens.
    length_spread : float
        Half width of the uniform lengths over their mean, within 0 and 1.
    targets : Targets
        On means.
    risk : float
        Accepted by the tuner's controller.
    stabilisation : float
        Seconds before a replica is given up.
    loop : LoopSettings
        Times and bounds.
    routing : str
        How the gateway spreads requests.
    limits : ServerLimits
        As the controller knows them.
    controller : str
        ``tuner``, ``wva`` or ``fixed:N``.
    seed : int
        Of arrivals, lengths, draws.
    """

    load: LoadProfile
    shape: RequestShape
    length_spread: float = 0.5
    targets: Targets
    risk: float = 0.05
    stabilisation: float = 240.0
    loop: LoopSettings
    routing: str = "round-robin"
    limits: ServerLimits
    controller: str = "tuner"
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.length_spread <= 1:
            raise UsageError(
                f"autoscale: length_spread must lie between 0 and 1, got {self.length_spread!r}"
            )
        if not 0 <= self.stabilisation < math.inf:
            raise UsageError(
                f"autoscale: stabilisation must not be negative, got {self.stabilisation!r}"
            )
        if not 0 < self.risk < 1:
            raise UsageError(f"autoscale: risk must lie between 0 and 1, got {self.risk!r}")


def make_plant(
    source: Source, limits: ServerLimits, n_draw: int, *, schedule_lag: float, seed: int
) -> Plant:
    """Truths of a source.

    Parameters
    ----------
    source : Source
        Numbers, else a posterior of a deployment, else the deployment's datasheet.
    limits : ServerLimits
        As configured.
    n_draw : int
        How many truths; exact numbers are the same in each.
    schedule_lag : float
        Steps, for laws made of three numbers.
    seed : int
        Of the draws.

    Returns
    -------
    Plant
        With as many rows.

    Raises
    ------
    UsageError
        If nothing usable is named.
    """
    generator = stream(seed, "plants")
    if source.numbers is not None:
        if "%" in source.numbers:
            draws = uncertain_numbers(source.numbers).draws(n_draw, generator)
            numbers = numbers_of_log(draws)
        else:
            numbers = parse_three_numbers(source.numbers)
            numbers = replace(numbers, alpha=np.full(n_draw, numbers.alpha))
        law = engine_law(numbers, schedule_lag=schedule_lag)
        return Plant(law=law, limits=engine_limits(limits), source=source.numbers)
    deployment = named_deployment(source, limits)
    if source.posterior is not None:
        from tailcast.posteriors import load_posterior
        from tailcast.prediction import predictive_law

        _, law = predictive_law(
            load_posterior(source.posterior), deployment, n_draw=n_draw, seed=seed
        )
        name = f"posterior {source.posterior}"
    else:
        prior = hardware_prior(deployment)
        lag = pipeline_depth(deployment)
        law = engine_law(numbers_of_log(prior.draws(n_draw, generator)), schedule_lag=lag)
        name = prior.source
    return Plant(law=law, limits=deployment_limits(deployment), source=name)


def first_belief(source: Source, limits: ServerLimits, *, seed: int) -> NumbersPrior:
    """What the controller believes before the first window.

    Parameters
    ----------
    source : Source
        A deployment gives its datasheet's prior; numbers alone give a belief that is off by as
        much as it claims to be.
    limits : ServerLimits
        As configured.
    seed : int
        Of how far it is off.

    Returns
    -------
    NumbersPrior
        For a tuner.
    """
    if source.llm_name is not None and source.gpu is not None:
        return hardware_prior(named_deployment(source, limits))
    numbers = source.numbers or ""
    if "%" in numbers:
        return uncertain_numbers(numbers)
    around = numbers_prior(parse_three_numbers(numbers), _PRIOR_LOG_SD)
    off = around.draws(1, stream(seed, "first belief"))[0]
    return NumbersPrior(log_mean=off, log_cov=around.log_cov, source="drawn around the truth")


def make_controller(question: AutoscaleQuestion, belief: NumbersPrior) -> Controller:
    """Controller of a name.

    Parameters
    ----------
    question : AutoscaleQuestion
        With its name: ``tuner``, ``tuner:FILE`` (goes on from a saved state), ``wva``, ``fixed:N``.
    belief : NumbersPrior
        Before the first window.

    Returns
    -------
    Controller
        Fresh.

    Raises
    ------
    UsageError
        If there is none of this name.
    """
    name, _, argument = question.controller.partition(":")
    settings = ControllerSettings(
        targets=question.targets,
        risk=question.risk,
        lead=question.loop.lead,
        stabilisation=question.stabilisation,
        shape=question.shape,
        seed=question.seed,
    )
    if name == "tuner":
        controller = TunerController(belief, question.limits, settings)
        if argument:
            controller.tuner = restore_tuner(_text(Path(argument)), argument)
        return controller
    if name == "wva" and not argument:
        return WvaController(question.limits.max_batch, settings)
    if name == "fixed" and argument.isdigit() and int(argument) > 0:
        return FixedController(n_replica=int(argument))
    hint = near_name(name, ("tuner", "wva", "fixed"))
    raise UsageError(f"no controller {question.controller!r}; tuner, wva or fixed:4; {hint}")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def load_requests(question: AutoscaleQuestion, draw: int) -> RequestTable:
    """Requests of a load: Poisson arrivals, uniform lengths, unique prompts.

    They are all held at once, so that a load with more than `MOST_REQUESTS` is refused.

    Parameters
    ----------
    question : AutoscaleQuestion
        Load, shape, seed.
    draw : int
        Each has its own.

    Returns
    -------
    RequestTable
        Open loop.

    Raises
    ------
    UsageError
        If the load is too large to hold.
    """
    expected = float(np.trapezoid(question.load.rates, question.load.times))
    if expected > MOST_REQUESTS:
        raise UsageError(
            f"load: brings {expected:.3g} requests, more than {MOST_REQUESTS:.0e}; shorten it or "
            "lower its rate"
        )
    arrival = question.load.arrivals(stream(question.seed, "arrivals", draw))
    lengths = [
        uniform_lengths(
            float(mean),
            arrival.size,
            stream(question.seed, name, draw),
            question.length_spread,
        )
        for name, mean in (
            ("input lengths", question.shape.tokens_in),
            ("output lengths", question.shape.tokens_out),
        )
    ]
    return request_table(arrival, lengths[0], lengths[1])


def run_draw(
    question: AutoscaleQuestion, plant: Plant, belief: NumbersPrior, draw: int
) -> tuple[Outcome, Controller]:
    """One run of the loop.

    Parameters
    ----------
    question : AutoscaleQuestion
        What is run.
    plant : Plant
        Truths.
    belief : NumbersPrior
        Of the controller at first.
    draw : int
        Which truth, and which arrivals.

    Returns
    -------
    outcome : Outcome
        What came of it.
    controller : Controller
        With what it learned.
    """
    requests = load_requests(question, draw)
    uniforms = stream(question.seed, "routing", draw).random(len(requests))
    cluster = Cluster(
        requests, plant.limits, plant.law.draw(draw), routing=question.routing, draws=uniforms
    )
    controller = make_controller(question, belief)
    duration = question.load.duration
    decisions = run_loop(cluster, controller, question.loop, duration)
    return outcome(cluster, decisions, question.targets, duration), controller


def run_draws(
    question: AutoscaleQuestion,
    plant: Plant,
    belief: NumbersPrior,
    progress: Callable[[str], None] | None = None,
) -> Iterator[Outcome]:
    """Runs of the loop, one a draw of the truth.

    Parameters
    ----------
    question : AutoscaleQuestion
        What is run.
    plant : Plant
        Truths.
    belief : NumbersPrior
        Of the controller at first.
    progress : callable, optional
        Told one line a run.

    Yields
    ------
    Outcome
        In the order of the draws.
    """
    for draw in range(plant.law.n_draw):
        found, _ = run_draw(question, plant, belief, draw)
        if progress is not None:
            progress(
                f"run {draw + 1} of {plant.law.n_draw}: {found.path_text}, "
                f"above target {found.above_settled:.1%} of the time"
            )
        yield found
