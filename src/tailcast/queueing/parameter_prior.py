"""What is believed of the three numbers before a measurement, from LLM and accelerator."""

from dataclasses import dataclass

import numpy as np

from tailcast.deployment import Deployment
from tailcast.errors import UsageError
from tailcast.queueing.sensitivity import log_of_numbers, numbers_of_log
from tailcast.queueing.server import Floats, ThreeNumbers

NAMES = ("alpha", "beta", "gamma")

# shares of the datasheet that the joint V2 fit of the public Llama-3.1-8B sweep reaches on an H100
WEIGHT_READ_SHARE = 0.72
COMPUTE_SHARE = 0.81
KV_READ_SHARE = 0.71
# sd of the logs: on the accelerator that the shares come from, and elsewhere
_KNOWN_LOG_SD = (0.10, 0.15, 0.25)
_UNKNOWN_LOG_SD = (0.30, 0.40, 0.50)
_KNOWN_ARCHITECTURE = "hopper"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumbersPrior:
    """Normal belief of the logs of alpha, beta and gamma (seconds).

    Parameters
    ----------
    log_mean : ndarray, shape (3,)
        Means.
    log_cov : ndarray, shape (3, 3)
        Covariance.
    source : str
        Where it comes from.
    """

    log_mean: Floats
    log_cov: Floats
    source: str = ""

    def __post_init__(self) -> None:
        if self.log_mean.shape != (3,) or self.log_cov.shape != (3, 3):
            raise UsageError("prior of the three numbers needs three means and a 3x3 covariance")
        if not np.all(np.isfinite(self.log_mean)) or not np.all(np.isfinite(self.log_cov)):
            raise UsageError("prior of the three numbers must be finite")
        if np.linalg.eigvalsh(self.log_cov)[0] <= 0:
            raise UsageError("covariance of the three numbers must be positive definite")

    @property
    def numbers(self) -> ThreeNumbers:
        """Medians, in seconds."""
        return numbers_of_log(self.log_mean)

    @property
    def log_sd(self) -> Floats:
        """Standard deviations of the logs, shape (3,)."""
        return np.sqrt(np.diag(self.log_cov))

    def draws(self, n_draw: int, generator: np.random.Generator) -> Floats:
        """Draws of the logs.

        Parameters
        ----------
        n_draw : int
            How many.
        generator : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray, shape (n_draw, 3)
            Logs of seconds.
        """
        factor = np.linalg.cholesky(self.log_cov)
        return self.log_mean + generator.standard_normal((n_draw, 3)) @ factor.T


def numbers_prior(
    numbers: ThreeNumbers, log_sd: tuple[float, float, float] = _UNKNOWN_LOG_SD, source: str = ""
) -> NumbersPrior:
    """Independent belief around three numbers.

    Parameters
    ----------
    numbers : ThreeNumbers
        Medians, scalars greater than zero.
    log_sd : tuple of float
        Standard deviations of the logs of alpha, beta and gamma.
    source : str
        Where it comes from.

    Returns
    -------
    NumbersPrior
        Without correlation.
    """
    if min(numbers.alpha, numbers.beta, numbers.gamma) <= 0:
        raise UsageError(f"prior needs three numbers greater than zero, got {numbers}")
    return NumbersPrior(
        log_mean=log_of_numbers(numbers), log_cov=np.diag(np.square(log_sd)), source=source
    )


def numbers_at_peak(deployment: Deployment) -> ThreeNumbers:
    """Three numbers of a deployment that reaches every peak of its datasheet.

    Parameters
    ----------
    deployment : Deployment
        LLM, accelerator and parallelism.

    Returns
    -------
    ThreeNumbers
        Seconds to read the weights once, to compute a token with all active parameters
        (embeddings and lm_head counted), and to read the KV cache of a token.
    """
    llm, bandwidth = deployment.served_llm, deployment.accelerator.memory_bandwidth
    # a mixture of experts reads the active experts at one token, almost all of them at many
    active_share = float(np.sqrt(llm.active_parameters / llm.total_parameters))
    all_active = 2.0 * llm.active_parameters / llm.matmul_flops_per_token
    kv_bytes = deployment.kv_bytes_per_token_per_accelerator
    kv_bytes += deployment.window_kv_bytes_per_token_per_accelerator
    return ThreeNumbers(
        alpha=deployment.weight_bytes_per_accelerator * active_share / bandwidth,
        beta=deployment.matmul_seconds_per_token * all_active,
        gamma=kv_bytes / bandwidth,
    )


def hardware_prior(deployment: Deployment) -> NumbersPrior:
    r"""Belief about a deployment that nobody has measured.

    .. math:: \alpha = \frac{\text{weight bytes}}{0.72\,BW},\quad
        \beta = \frac{2 P}{0.81\,\text{FLOP/s}},\quad \gamma = \frac{\text{KV bytes}}{0.71\,BW}

    Parameters
    ----------
    deployment : Deployment
        LLM, accelerator and parallelism.

    Returns
    -------
    NumbersPrior
        Tight on Hopper with one accelerator, where the shares were measured; wide elsewhere.
    """
    llm, accelerator = deployment.served_llm, deployment.accelerator
    peak = numbers_at_peak(deployment)
    known = accelerator.architecture == _KNOWN_ARCHITECTURE
    plain = deployment.n_accelerators == 1 and not llm.is_moe and not llm.is_mla
    log_sd = _KNOWN_LOG_SD if known and plain else _UNKNOWN_LOG_SD
    numbers = ThreeNumbers(
        alpha=peak.alpha / WEIGHT_READ_SHARE,
        beta=peak.beta / COMPUTE_SHARE,
        gamma=peak.gamma / KV_READ_SHARE,
    )
    source = f"datasheet: {llm.name} on {deployment.n_accelerators} x {accelerator.name}"
    return numbers_prior(numbers, log_sd, source)
