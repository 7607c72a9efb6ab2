"""Online estimate of the three numbers, one window at a time, that never locks itself out.

A belief of ln alpha, ln beta, ln gamma walks randomly by a small step a window and is updated
with the exact chain (`log_filter`). It starts at a prior from the datasheet, so that a cold start
is no special case; Student-t weights replace gates and clipping. The levels of noise are learned
(Sarkka and Nummenmaa 2009, doi:10.1109/TAC.2008.2008348). Drift is tested by rivals that believe
in a jump at one of the last windows: the cumulative log Bayes factor of the best against the
belief without jump (Adams and MacKay 2007, arXiv:0710.3742).
"""

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tailcast.errors import InputError, UsageError
from tailcast.queueing.log_filter import Beliefs, FilterStep, update_beliefs
from tailcast.queueing.parameter_prior import NAMES, NumbersPrior
from tailcast.queueing.server import Floats, ServerLimits, ThreeNumbers
from tailcast.queueing.windows import Window

SCHEMA = "tailcast/tuner/1"


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
    overhead : float
        Client and network time in TTFT, in seconds.
    """

    walk: float = 0.005
    jump: float = 0.3
    n_rival: int = 10
    drift_log_bayes_factor: float = 6.0
    ttft_log_sd: float = 0.15
    itl_log_sd: float = 0.05
    noise_weight: float = 6.0
    noise_memory: float = 100.0
    overhead: float = 0.0

    def __post_init__(self) -> None:
        for field, value in asdict(self).items():
            if not (math.isfinite(value) and value >= 0):
                raise UsageError(f"tuner: {field} must not be negative, got {value!r}")
        if min(self.ttft_log_sd, self.itl_log_sd, self.noise_weight, self.jump) == 0:
            raise UsageError("tuner: levels of noise, their weight and the jump must be positive")


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
        "_cov",
        "_mean",
        "_noise_count",
        "_noise_sum",
        "_rival_evidence",
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
        # the main belief first, then its rivals from the youngest to the oldest
        self._mean = prior.log_mean[None].copy()
        self._cov = prior.log_cov[None].copy()
        self._rival_evidence = np.zeros(0)
        first = np.square([self.settings.ttft_log_sd, self.settings.itl_log_sd])
        self._noise_count = np.full(2, self.settings.noise_weight)
        self._noise_sum = self._noise_count * first

    @property
    def belief(self) -> NumbersPrior:
        """The present belief, ready to be a prior elsewhere."""
        source = f"tuner after {self.n_window} windows"
        return NumbersPrior(log_mean=self._mean[0], log_cov=self._cov[0], source=source)

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
        walk = settings.walk**2 * np.eye(3)
        mean, cov = self._with_new_rival()
        beliefs = Beliefs(mean=mean, cov=cov + walk)
        variance = self._noise_sum / self._noise_count
        step = update_beliefs(beliefs, window, self.limits, variance, settings.overhead)
        self._mean, self._cov = step.beliefs.mean, step.beliefs.cov
        gained = step.log_evidence[1:] - step.log_evidence[0]
        self._rival_evidence = self._rival_evidence + gained
        best = int(np.argmax(self._rival_evidence)) if gained.size else -1
        factor = float(self._rival_evidence[best]) if gained.size else -math.inf
        # one odd window is an outlier; a jump shows in at least two
        drift = best >= 1 and factor > settings.drift_log_bayes_factor
        chosen = best + 1 if drift else 0
        self._learn_noise(step, chosen)
        self.n_window += 1
        if drift:
            self.n_drift += 1
            self._mean, self._cov = self._mean[[chosen]], self._cov[[chosen]]
            self._rival_evidence = np.zeros(0)
        weights = np.where(step.weight[chosen] > 0, step.weight[chosen], math.nan)
        return TunerUpdate(
            drift=drift,
            log_bayes_factor=factor,
            ttft_weight=float(weights[0]),
            itl_weight=float(weights[1]),
            log_evidence=float(step.log_evidence[0]),
        )

    def _with_new_rival(self) -> tuple[Floats, Floats]:
        kept = min(self._rival_evidence.size, self.settings.n_rival - 1)
        if self.settings.n_rival < 1:
            return self._mean, self._cov
        jumped = self._cov[0] + self.settings.jump**2 * np.eye(3)
        mean = np.concatenate([self._mean[:1], self._mean[:1], self._mean[1 : kept + 1]])
        cov = np.concatenate([self._cov[:1], jumped[None], self._cov[1 : kept + 1]])
        self._rival_evidence = np.concatenate([[0.0], self._rival_evidence[:kept]])
        return mean, cov

    def _learn_noise(self, step: FilterStep, chosen: int) -> None:
        seen = step.weight[chosen, :2] > 0
        level = self._noise_sum / self._noise_count
        # the share of this window's variance that is level, not sampling and not waiting
        share = level / step.noise[chosen, :2]
        square = step.weight[chosen, :2] * step.residual[chosen, :2] ** 2
        square += step.fitted_variance[chosen, :2]
        found = level + share * (square - step.noise[chosen, :2])
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

    def to_json(self) -> str:
        """State of the tuner as JSON in SI units.

        Returns
        -------
        str
            Restored by `restore_tuner`, which then goes on exactly as this one would.
        """
        state: dict[str, Any] = {
            "schema": SCHEMA,
            "names": list(NAMES),
            "limits": asdict(self.limits),
            "settings": asdict(self.settings),
            "n_window": self.n_window,
            "n_drift": self.n_drift,
            "log_mean": self._mean.tolist(),
            "log_cov": self._cov.tolist(),
            "rival_log_bayes_factor": self._rival_evidence.tolist(),
            "noise_count": self._noise_count.tolist(),
            "noise_sum": self._noise_sum.tolist(),
        }
        return json.dumps(state, indent=2)


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
    except json.JSONDecodeError as error:
        raise InputError(f"{where} is not JSON: {error}") from None
    if not isinstance(state, dict) or state.get("schema") != SCHEMA:
        raise InputError(f"{where} is not a saved tuner ({SCHEMA})")
    try:
        mean = np.asarray(state["log_mean"], np.float64)
        cov = np.asarray(state["log_cov"], np.float64)
        prior = NumbersPrior(log_mean=mean[0], log_cov=cov[0])
        limits = ServerLimits(**state["limits"])
        tuner = Tuner(prior, limits, TunerSettings(**state["settings"]))
        tuner._mean, tuner._cov = mean, cov
        tuner._rival_evidence = np.asarray(state["rival_log_bayes_factor"], np.float64)
        tuner._noise_count = np.asarray(state["noise_count"], np.float64)
        tuner._noise_sum = np.asarray(state["noise_sum"], np.float64)
        tuner.n_window, tuner.n_drift = int(state["n_window"]), int(state["n_drift"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"{where} is not a whole tuner state: {error}") from None
    sizes = {tuner._mean.shape[0], tuner._cov.shape[0], tuner._rival_evidence.size + 1}
    if len(sizes) != 1 or cov.shape[1:] != (3, 3) or tuner._noise_sum.shape != (2,):
        raise InputError(f"{where} is not a whole tuner state: its parts do not fit together")
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
