"""Three numbers from what a person can name: durations, a tuner's state, or a deployment."""

from dataclasses import dataclass
from pathlib import Path

from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment
from tailcast.errors import InputError, UsageError
from tailcast.queueing.capacity import Discrepancy
from tailcast.queueing.field_units import parse_three_numbers
from tailcast.queueing.parameter_prior import hardware_prior
from tailcast.queueing.sensitivity import log_of_numbers
from tailcast.queueing.server import Floats, ServerLimits
from tailcast.queueing.tuner import Tuner, restore_tuner
from tailcast.streams import stream

N_DRAW = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNumbers:
    """What is known of the three numbers.

    Parameters
    ----------
    log_draws : ndarray, shape (n_draw, 3)
        Logs of alpha, beta and gamma in seconds; one row where they are exact.
    discrepancy : Discrepancy
        Between the chain and a measured mean, drawn alike.
    source : str
        Where they come from.
    """

    log_draws: Floats
    discrepancy: Discrepancy
    source: str

    @property
    def exact(self) -> bool:
        """Whether they are taken as known, so that there is no interval."""
        return bool(self.log_draws.shape[0] == 1)


def known_numbers(
    numbers: str | None, llm_name: str | None, gpu: str | None, tensor_parallel: int, seed: int
) -> KnownNumbers:
    """Three numbers from the first source that is named.

    Parameters
    ----------
    numbers : str, optional
        Durations ``alpha,beta,gamma``, or the file of a tuner's state.
    llm_name, gpu : str, optional
        Deployment for a prior from the datasheet.
    tensor_parallel : int
        Accelerators per replica.
    seed : int
        Of the draws.

    Returns
    -------
    KnownNumbers
        Exact for durations, draws otherwise.

    Raises
    ------
    UsageError
        If nothing, or half a deployment, is named.
    """
    generator = stream(seed, "three numbers")
    if numbers is not None:
        if "," in numbers:
            exact = log_of_numbers(parse_three_numbers(numbers))[None]
            return KnownNumbers(log_draws=exact, discrepancy=Discrepancy(), source=numbers)
        path = Path(numbers)
        try:
            tuner = restore_tuner(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read: {error}") from None
        draws, between = tuner.draws_as_measured(N_DRAW, generator, noise=True)
        source = f"{path.name} ({tuner.belief.source})"
        return KnownNumbers(log_draws=draws, discrepancy=between, source=source)
    if llm_name is None or gpu is None:
        raise UsageError("name the three numbers (--numbers) or a deployment (--model and --gpu)")
    deployment = Deployment(
        llm=llm(llm_name), accelerator=accelerator(gpu), tensor_parallel=tensor_parallel
    )
    prior = hardware_prior(deployment)
    blank = Tuner(prior, ServerLimits())
    draws, between = blank.draws_as_measured(N_DRAW, generator, noise=True)
    return KnownNumbers(log_draws=draws, discrepancy=between, source=prior.source)
