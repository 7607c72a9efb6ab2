"""Online estimate of the three numbers, one window at a time, that never locks itself out.

A belief of ln alpha, ln beta, ln gamma and of what the chain misses in TTFT walks randomly by a
small step a window and is updated with the exact chain (`log_filter`). What the chain misses is
common to the windows of a workload, so it is an unknown of its own and not noise: on real servers
TTFT is up to 30 % above the chain with long outputs and below it with short ones, which would
bend the three numbers and the capacity under a target on TTFT.

The belief starts at a prior from the datasheet, so that a cold start is no special case; Student-t
weights replace gates and clipping. The last windows are kept and taken together, so that a wide
first belief is not linearised where it should not be; what leaves the memory is linearised at the
present mode. The levels of noise are learned (Sarkka and Nummenmaa 2009,
doi:10.1109/TAC.2008.2008348). Drift is tested by rivals that believe in a jump at one of the last
windows: the cumulative log Bayes factor of the best against the belief without jump (Adams and
MacKay 2007, arXiv:0710.3742).
"""

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tailcast.errors import InputError, UsageError
from tailcast.queueing.capacity import Discrepancy
from tailcast.queueing.log_filter import FilterStep, LogFilter, without_nonlinearity
from tailcast.queueing.parameter_prior import NAMES, NumbersPrior
from tailcast.queueing.server import Floats, ServerLimits, ThreeNumbers
from tailcast.queueing.windows import Window

SCHEMA = "tailcast/tuner/2"


@dataclass(frozen=True, slots=True, kw_only=True)
class TunerSettings:
    """Assumptions of the tuner.

    Parameters
    ----------
    walk : float
        Standard deviation of the step of each log parameter from window to window.
    jump : float
        Standard deviation of the log parameters in a jump.
    n_rival : int
        Windows for which a rival that believes in a jump is kept.
    drift_log_bayes_factor : float
        Evidence at which a jump is believed.
    ttft_log_sd, itl_log_sd : float
        Levels of noise believed at first: discrepancy of the chain and sampling together.
    noise_weight : float
        Windows that the first levels count for.
    noise_memory : float
        Windows over which the levels are averaged in the long run.
    memory : int
        Windows taken together, at least one.
    overhead : float
        Client and network time in TTFT, in seconds.
    ttft_log_bias : float
        First mean of ln(measured TTFT) less that of the chain with the overhead.
    ttft_bias_log_sd : float
        How far from that mean it may be.
    ttft_bias_walk : float
        Standard deviation of its step from window to window, as the workload changes.
    """

    walk: float = 0.005
    jump: float = 0.3
    n_rival: int = 10
    drift_log_bayes_factor: float = 6.0
    ttft_log_sd: float = 0.10
    itl_log_sd: float = 0.05
    noise_weight: float = 6.0
    noise_memory: float = 100.0
    memory: int = 16
    overhead: float = 0.0
    ttft_log_bias: float = 0.0
    ttft_bias_log_sd: float = 0.15
    ttft_bias_walk: float = 0.02

    def __post_init__(self) -> None:
        for field, value in asdict(self).items():
            if not math.isfinite(value) or (value < 0 and field != "ttft_log_bias"):
                raise UsageError(f"tuner: {field} must not be negative, got {value!r}")
        positive = (self.ttft_log_sd, self.itl_log_sd, self.noise_weight, self.jump)
        if min(*positive, self.ttft_bias_log_sd) == 0:
            raise UsageError(
                "tuner: levels of noise and their weight, the jump and ttft_bias_log_sd must be "
                "positive"
            )
        if self.memory < 1:
            raise UsageError(f"tuner: memory must be at least one window, got {self.memory!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TunerUpdate:
    """What a window did.

    Parameters
    ----------
    drift : bool
        Whether a jump of the server was found in this window.
    log_bayes_factor : float
        Evidence of the best rival for a jump, in nats.
    ttft_weight, itl_weight : float
        Student-t weights: about one for an ordinary window, near zero for an outlier; NaN where
        the latency was not measured.
    log_evidence : float
        Log predictive density of the window.
    """

    drift: bool
    log_bayes_factor: float
    ttft_weight: float
    itl_weight: float
    log_evidence: float


class Tuner:
    """Online belief of the three numbers of one kind of replica.

    Parameters
    ----------
    prior : NumbersPrior
        Belief before the first window.
    limits : ServerLimits
        Of the replicas.
    settings : TunerSettings, optional
        Assumptions.
    """

    __slots__ = (
        "_anchor_cov",
        "_anchor_mean",
        "_cov",
        "_mean",
        "_noise_count",
        "_noise_sum",
        "_rivals",
        "_windows",
        "limits",
        "n_drift",
        "n_window",
        "settings",
    )

    def __init__(
        self, prior: NumbersPrior, limits: ServerLimits, settings: TunerSettings | None = None
    ) -> None:
        self.settings = settings or TunerSettings()
        self.limits = limits
        self.n_window = 0
        self.n_drift = 0
        bias = self.settings.ttft_log_bias
        cov = np.diag([0.0, 0.0, 0.0, self.settings.ttft_bias_log_sd**2])
        cov[:3, :3] = prior.log_cov
        self._restart(np.append(prior.log_mean, bias), cov)
        first = np.square([self.settings.ttft_log_sd, self.settings.itl_log_sd])
        self._noise_count = np.full(2, self.settings.noise_weight)
        self._noise_sum = self._noise_count * first

    @classmethod
    def from_moments(
        cls, mean: Floats, cov: Floats, limits: ServerLimits, settings: TunerSettings
    ) -> "Tuner":
        """Tuner whose first belief knows how the numbers and the bias of TTFT hang together.

        Parameters
        ----------
        mean : ndarray, shape (4,)
            Logs of alpha, beta, gamma in seconds, and of measured over predicted TTFT.
        cov : ndarray, shape (4, 4)
            Covariance.
        limits : ServerLimits
            Of the replicas.
        settings : TunerSettings
            Assumptions; their own first bias is not used.

        Returns
        -------
        Tuner
            Before its first window.
        """
        made = cls(NumbersPrior(log_mean=mean[:3], log_cov=cov[:3, :3]), limits, settings)
        made._restart(mean, cov)
        return made

    def _restart(self, mean: Floats, cov: Floats) -> None:
        # belief before the windows in memory, and with them
        self._anchor_mean, self._anchor_cov = mean.copy(), cov.copy()
        self._mean, self._cov = mean.copy(), cov.copy()
        self._windows: list[Window] = []
        self._rivals: list[_Rival] = []

    @property
    def belief(self) -> NumbersPrior:
        """The present belief, ready to be a prior elsewhere."""
        source = f"tuner after {self.n_window} windows"
        return NumbersPrior(
            log_mean=self._mean[:3].copy(), log_cov=self._cov[:3, :3].copy(), source=source
        )

    @property
    def ttft_log_bias(self) -> tuple[float, float]:
        """Mean and standard deviation of ln(measured TTFT) less that of the chain."""
        return float(self._mean[3]), float(math.sqrt(self._cov[3, 3]))

    @property
    def numbers(self) -> ThreeNumbers:
        """Medians of the present belief, in seconds."""
        return self.belief.numbers

    @property
    def noise_log_sd(self) -> tuple[float, float]:
        """Levels of noise of TTFT and ITL learned so far, as standard deviations of logs."""
        ttft, itl = np.sqrt(self._noise_sum / self._noise_count)
        return float(ttft), float(itl)

    def update(self, window: Window) -> TunerUpdate:
        """Learn from one window.

        Parameters
        ----------
        window : Window
            Latencies that were not measured are NaN.

        Returns
        -------
        TunerUpdate
            What happened; any window is accepted.
        """
        settings = self.settings
        variance = self._noise_sum / self._noise_count
        alone = self._filter([window], variance)
        walk = np.diag(np.square([settings.walk] * 3 + [settings.ttft_bias_walk]))
        plain = alone.update(self._mean, self._cov + walk)
        drifted = self._challenge(alone, plain, walk)
        factor = max((rival.log_bayes_factor for rival in self._rivals), default=-math.inf)
        self.n_window += 1
        if drifted is None:
            step = self._remember(window, variance, walk)
            self._learn_noise(step, -1)
        else:
            step = drifted
            self.n_drift += 1
            self._restart(step.mean, step.cov)
            self._learn_noise(step, 0)
        weights = np.where(step.weight[-1] > 0, step.weight[-1], math.nan)
        return TunerUpdate(
            drift=drifted is not None,
            log_bayes_factor=factor,
            ttft_weight=float(weights[0]),
            itl_weight=float(weights[1]),
            log_evidence=plain.log_evidence,
        )

    def _filter(self, windows: list[Window], variance: Floats) -> LogFilter:
        return LogFilter(windows, self.limits, variance, overhead=self.settings.overhead)

    def _challenge(self, alone: LogFilter, plain: FilterStep, walk: Floats) -> FilterStep | None:
        """Update the rivals; return the step of one that has won."""
        settings = self.settings
        if settings.n_rival < 1:
            return None
        jump = settings.jump**2 * np.diag([1.0, 1.0, 1.0, 0.0])
        young = _Rival(self._mean, self._cov + jump, 0.0, 0)
        steps, rivals = [], []
        for rival in [young, *self._rivals[: settings.n_rival - 1]]:
            step = alone.update(rival.mean, rival.cov + walk)
            total = rival.log_bayes_factor + step.log_evidence - plain.log_evidence
            steps.append(step)
            rivals.append(_Rival(step.mean, step.cov, total, rival.age + 1))
        self._rivals = rivals
        best = int(np.argmax([rival.log_bayes_factor for rival in rivals]))
        # one odd window is an outlier; a jump shows in at least two
        enough = rivals[best].log_bayes_factor > settings.drift_log_bayes_factor
        return steps[best] if enough and rivals[best].age >= 2 else None

    def _remember(self, window: Window, variance: Floats, walk: Floats) -> FilterStep:
        """Take the window together with those in memory."""
        settings = self.settings
        self._windows.append(window)
        self._anchor_cov = self._anchor_cov + walk
        together = self._filter(self._windows, variance)
        step = together.update(self._anchor_mean, self._anchor_cov, self._mean)
        self._mean, self._cov = step.mean, step.cov
        if len(self._windows) > settings.memory:
            self._anchor_mean, self._anchor_cov = without_nonlinearity(
                self._anchor_mean, self._anchor_cov, step, 0
            )
            self._windows.pop(0)
        return step

    def _learn_noise(self, step: FilterStep, place: int) -> None:
        seen = step.weight[place, :2] > 0
        level = self._noise_sum / self._noise_count
        # the share of this window's variance that is level, not sampling and not waiting
        share = level / step.noise[place, :2]
        square = step.weight[place, :2] * step.residual[place, :2] ** 2
        square += step.fitted_variance[place, :2]
        found = level + share * (square - step.noise[place, :2])
        forget = 1.0 - 1.0 / self.settings.noise_memory
        count = np.where(seen, forget * self._noise_count + share, self._noise_count)
        total = forget * self._noise_sum + share * np.maximum(found, 0.05 * level)
        self._noise_sum = np.where(seen, total, self._noise_sum)
        self._noise_count = count

    def draws(self, n_draw: int, generator: np.random.Generator) -> Floats:
        """Draws of the present belief.

        Parameters
        ----------
        n_draw : int
            How many.
        generator : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray, shape (n_draw, 3)
            Logs of alpha, beta and gamma in seconds.
        """
        return self.belief.draws(n_draw, generator)

    def draws_as_measured(
        self, n_draw: int, generator: np.random.Generator, *, noise: bool = False
    ) -> tuple[Floats, Discrepancy]:
        """Draws of the present belief with what lies between the chain and a measured mean.

        Parameters
        ----------
        n_draw : int
            How many.
        generator : numpy.random.Generator
            Source of randomness.
        noise : bool
            True for the mean of one window, false for that of many.

        Returns
        -------
        log_numbers : ndarray, shape (n_draw, 3)
            Logs of alpha, beta and gamma in seconds.
        discrepancy : Discrepancy
            Drawn with them: where TTFT was measured the two are known better than either.
        """
        factor = np.linalg.cholesky(self._cov)
        states = self._mean + generator.standard_normal((n_draw, 4)) @ factor.T
        between = np.zeros((n_draw, 2))
        if noise:
            between = generator.standard_normal((n_draw, 2)) * self.noise_log_sd
        return states[:, :3], Discrepancy(
            overhead=self.settings.overhead,
            ttft_factor=np.exp(states[:, 3] + between[:, 0]),
            itl_factor=np.exp(between[:, 1]),
        )

    def _take(self, state: dict[str, Any]) -> None:
        self._mean, self._cov = _belief_of(state["belief"])
        self._anchor_mean, self._anchor_cov = _belief_of(state["anchor"])
        self._windows = [Window(**fields) for fields in state["windows"]]
        self._rivals = []
        for rival in state["rivals"]:
            factor, age = float(rival["log_bayes_factor"]), int(rival["age"])
            self._rivals.append(_Rival(*_belief_of(rival), factor, age))
        self._noise_count = np.asarray(state["noise_count"], np.float64).reshape(2)
        self._noise_sum = np.asarray(state["noise_sum"], np.float64).reshape(2)
        self.n_window, self.n_drift = int(state["n_window"]), int(state["n_drift"])

    def to_json(self) -> str:
        """State of the tuner as JSON in SI units.

        Returns
        -------
        str
            Restored by `restore_tuner`, which then goes on exactly as this one would.
        """
        state: dict[str, Any] = {
            "schema": SCHEMA,
            "names": [*NAMES, "ttft_bias"],
            "limits": asdict(self.limits),
            "settings": asdict(self.settings),
            "n_window": self.n_window,
            "n_drift": self.n_drift,
            "belief": _belief_state(self._mean, self._cov),
            "anchor": _belief_state(self._anchor_mean, self._anchor_cov),
            "windows": [_window_state(window) for window in self._windows],
            "rivals": [rival.state() for rival in self._rivals],
            "noise_count": self._noise_count.tolist(),
            "noise_sum": self._noise_sum.tolist(),
        }
        return json.dumps(state, indent=2, allow_nan=False)


@dataclass(frozen=True, slots=True)
class _Rival:
    """Belief in a jump some windows ago."""

    mean: Floats
    cov: Floats
    log_bayes_factor: float
    age: int

    def state(self) -> dict[str, Any]:
        evidence = {"log_bayes_factor": self.log_bayes_factor, "age": self.age}
        return {**_belief_state(self.mean, self.cov), **evidence}


def _belief_state(mean: Floats, cov: Floats) -> dict[str, Any]:
    return {"log_mean": mean.tolist(), "log_cov": cov.tolist()}


def _window_state(window: Window) -> dict[str, Any]:
    fields = asdict(window)
    # JSON has neither NaN nor infinity: what is not measured is left out
    return {k: v for k, v in fields.items() if isinstance(v, str) or math.isfinite(v)}


def _belief_of(state: dict[str, Any]) -> tuple[Floats, Floats]:
    mean = np.asarray(state["log_mean"], np.float64).reshape(4)
    cov = np.asarray(state["log_cov"], np.float64).reshape(4, 4)
    if not np.all(np.isfinite(mean)) or not np.linalg.eigvalsh(cov)[0] > 0:
        raise ValueError("a belief is not finite, or its covariance not positive definite")
    return mean, cov


def restore_tuner(text: str, where: str = "tuner state") -> Tuner:
    """Tuner from its saved state.

    Parameters
    ----------
    text : str
        From `Tuner.to_json`.
    where : str
        Named in errors, for example the file.

    Returns
    -------
    Tuner
        Goes on where the saved one stopped.

    Raises
    ------
    InputError
        If the text is not a state of this schema.
    """
    try:
        state = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{where} is not JSON: {error}") from None
    if not isinstance(state, dict) or state.get("schema") != SCHEMA:
        raise InputError(f"{where} is not a saved tuner ({SCHEMA})")
    try:
        limits, (mean, cov) = ServerLimits(**state["limits"]), _belief_of(state["belief"])
        prior = NumbersPrior(log_mean=mean[:3], log_cov=cov[:3, :3])
        tuner = Tuner(prior, limits, TunerSettings(**state["settings"]))
        tuner._take(state)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where} is not a whole tuner state: {error}") from None
    return tuner


def with_noise(settings: TunerSettings, ttft_log_sd: float, itl_log_sd: float) -> TunerSettings:
    """Settings with other first levels of noise, for example from a fit.

    Parameters
    ----------
    settings : TunerSettings
        The rest.
    ttft_log_sd, itl_log_sd : float
        Standard deviations of the logs.

    Returns
    -------
    TunerSettings
        A copy.
    """
    return replace(settings, ttft_log_sd=ttft_log_sd, itl_log_sd=itl_log_sd)
