"""What is known of one replica, from any source: numbers, tuner, fit, posterior, datasheet."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment, EngineSettings
from tailcast.errors import UsageError
from tailcast.queueing.capacity import Discrepancy, capacity_draws
from tailcast.queueing.known_numbers import N_DRAW, KnownNumbers, known_numbers
from tailcast.queueing.parameter_prior import NumbersPrior, numbers_prior
from tailcast.queueing.server import Floats, RequestShape, ServerLimits, ThreeNumbers
from tailcast.queueing.sizing import Targets
from tailcast.streams import stream
from tailcast.units import parse_duration

_SPREAD = re.compile(r"(.+?)(?:±|\+-|\+/-)\s*([0-9]*\.?[0-9]+)\s*%\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the three numbers come from; the first that is given counts.

    Parameters
    ----------
    numbers : str, optional
        Durations (``6.7ms,20us,55ns``, each with ``+-10%`` where uncertain), a tuner's state, or
        a fit's netCDF file.
    llm_name, gpu : str, optional
        Deployment.
    tensor_parallel : int
        Accelerators per replica.
    posterior : str, optional
        Engine posterior that is mapped to three numbers; without it, the datasheet's prior.
    """

    numbers: str | None = None
    llm_name: str | None = None
    gpu: str | None = None
    tensor_parallel: int = 1
    posterior: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownReplica:
    """Draws of a replica's three numbers, its limits, and remarks.

    Parameters
    ----------
    known : KnownNumbers
        Draws, discrepancy, source.
    limits : ServerLimits
        With the batch cap that the KV cache allows, where a deployment is named.
    notes : tuple of str
        One sentence each.
    """

    known: KnownNumbers
    limits: ServerLimits
    notes: tuple[str, ...] = ()


def known_replica(
    source: Source, shape: RequestShape, limits: ServerLimits, targets: Targets, *, seed: int
) -> KnownReplica:
    """Draws of a replica from the first source that is named.

    Parameters
    ----------
    source : Source
        Where from.
    shape : RequestShape
        Mean tokens, scalars.
    limits : ServerLimits
        As configured.
    targets : Targets
        On means; a posterior is compared with the chain near the capacity that they leave.
    seed : int
        Of the draws.

    Returns
    -------
    KnownReplica
        Ready for `capacity_draws`.

    Raises
    ------
    UsageError
        If nothing usable is named.
    InputError
        If a file cannot be read.
    """
    numbers = source.numbers
    if numbers is not None and source.posterior is not None:
        raise UsageError("give --numbers or --posterior, not both")
    if numbers is not None and is_fit(numbers):
        return _from_fit(Path(numbers), shape, limits, seed)
    if numbers is not None and "%" in numbers:
        prior = uncertain_numbers(numbers)
        draws = prior.draws(N_DRAW, stream(seed, "three numbers"))
        known = KnownNumbers(log_draws=draws, discrepancy=Discrepancy(), source=numbers)
        return KnownReplica(known=known, limits=limits)
    if numbers is None and (source.llm_name is None or source.gpu is None):
        raise UsageError("name the three numbers (--numbers) or a deployment (--model and --gpu)")
    if numbers is None:
        deployment = named_deployment(source, limits)
        capped, notes = capped_by_cache(deployment, shape, limits)
        if source.posterior is not None:
            return _from_posterior(
                source.posterior, deployment, shape, capped, targets, notes, seed
            )
        limits = capped
    else:
        notes = ()
    known = known_numbers(numbers, source.llm_name, source.gpu, source.tensor_parallel, seed)
    return KnownReplica(known=known, limits=limits, notes=notes)


def is_fit(numbers: str) -> bool:
    """Whether ``--numbers`` names a fit of the three numbers.

    Parameters
    ----------
    numbers : str
        As given.

    Returns
    -------
    bool
        True for a folder or a netCDF file.
    """
    path = Path(numbers)
    return "," not in numbers and (path.is_dir() or path.suffix == ".nc")


def uncertain_numbers(text: str) -> NumbersPrior:
    """Belief of a text such as ``6.7ms+-10%,20us+-15%,55ns+-25%``.

    Parameters
    ----------
    text : str
        Medians of alpha, beta and gamma with the standard deviations of their logs.

    Returns
    -------
    NumbersPrior
        Without correlation.

    Raises
    ------
    UsageError
        If there are not three durations, or one has no spread.
    """
    parts = text.split(",")
    found = [_SPREAD.fullmatch(part) for part in parts]
    if len(parts) != 3 or not all(found):
        raise UsageError(
            f"three numbers {text!r}: with spreads they are written 6.7ms+-10%,20us+-15%,55ns+-25%"
        )
    medians = [parse_duration(match[1]) for match in found if match]
    spreads = [float(match[2]) / 100.0 for match in found if match]
    if not all(0 < spread <= 3 for spread in spreads):
        raise UsageError(f"three numbers {text!r}: spreads must lie between 0 and 300 %")
    numbers = ThreeNumbers(alpha=medians[0], beta=medians[1], gamma=medians[2])
    return numbers_prior(numbers, (spreads[0], spreads[1], spreads[2]), text)


def named_deployment(source: Source, limits: ServerLimits) -> Deployment:
    """Deployment of a source, with the engine limits of the chain.

    Parameters
    ----------
    source : Source
        With LLM and accelerator.
    limits : ServerLimits
        Batch cap and token budget.

    Returns
    -------
    Deployment
        Checked.

    Raises
    ------
    UsageError
        If LLM or accelerator is missing.
    """
    if source.llm_name is None or source.gpu is None:
        raise UsageError("name a deployment: --model and --gpu")
    return Deployment(
        llm=llm(source.llm_name),
        accelerator=accelerator(source.gpu),
        tensor_parallel=source.tensor_parallel,
        engine=EngineSettings(
            max_num_seqs=limits.max_batch,
            max_num_batched_tokens=max(limits.max_batched_tokens, limits.max_batch),
        ),
    )


def capped_by_cache(
    deployment: Deployment, shape: RequestShape, limits: ServerLimits
) -> tuple[ServerLimits, tuple[str, ...]]:
    """Limits of a replica whose KV cache may hold fewer requests than the batch cap.

    Parameters
    ----------
    deployment : Deployment
        For its KV blocks.
    shape : RequestShape
        Mean tokens; a request holds its prompt and half its output on average.
    limits : ServerLimits
        As configured.

    Returns
    -------
    limits : ServerLimits
        With the smaller cap.
    notes : tuple of str
        What was done.
    """
    held = float(shape.tokens_in) + 0.5 * float(shape.tokens_out)
    fits = int(deployment.kv_block_count * deployment.engine.block_size / max(held, 1.0))
    if fits >= limits.max_batch:
        return limits, ()
    capped = ServerLimits(
        max_batch=max(1, fits),
        max_queue=limits.max_queue,
        max_batched_tokens=limits.max_batched_tokens,
    )
    return capped, (f"the KV cache holds about {fits} requests, fewer than max-num-seqs",)


def _from_fit(path: Path, shape: RequestShape, limits: ServerLimits, seed: int) -> KnownReplica:
    from tailcast.inference.queue_predict import known_from_fit
    from tailcast.inference.queue_store import read_queue_fit
    from tailcast.inference.queue_tree import queue_posterior

    tree = read_queue_fit(path)
    fitted = queue_posterior(tree).limits
    notes: tuple[str, ...] = ()
    if fitted != limits:
        notes = (
            f"limits are the fit's: {fitted.max_batch} sequences, "
            f"{fitted.max_batched_tokens} tokens a step",
        )
    known = known_from_fit(tree, shape, seed=seed, source=f"fit {path.name}")
    return KnownReplica(known=known, limits=fitted, notes=notes)


def _from_posterior(
    name: str,
    deployment: Deployment,
    shape: RequestShape,
    limits: ServerLimits,
    targets: Targets,
    notes: tuple[str, ...],
    seed: int,
) -> KnownReplica:
    """Three numbers of the posterior's step law; the engine says how far off the chain is."""
    from tailcast.crosscheck.calibrate import chain_error
    from tailcast.crosscheck.law import mapped_numbers
    from tailcast.engine.deployment_limits import deployment_limits
    from tailcast.posteriors import load_posterior
    from tailcast.prediction import predictive_law

    own, law = predictive_law(load_posterior(name), deployment, n_draw=N_DRAW, seed=seed)
    mapped = mapped_numbers(law, shape)
    told = list(notes)
    if mapped.clipped > 0.01:
        told.append(
            f"in {mapped.clipped:.0%} of the draws a decode token is cheaper than a prompt token; "
            "the three numbers charge decodes too much there"
        )
    between = Discrepancy(overhead=mapped.overhead, ttft_factor=np.exp(own.ttft))
    engine = deployment_limits(deployment)
    generator = stream(seed, "chain error")
    ttft = itl = np.zeros(1)
    for turn in range(2):
        rate = _working_rate(mapped.log_draws, shape, limits, targets, between)
        found = chain_error(
            law, mapped.log_draws, mapped.overhead, shape, limits, engine, rate, seed=seed + turn
        )
        ttft, itl = found.ttft, found.itl
        pick = generator.integers(0, ttft.size, N_DRAW)
        between = Discrepancy(
            overhead=mapped.overhead,
            ttft_factor=np.exp(own.ttft + ttft[pick]),
            itl_factor=np.exp(itl[pick]),
        )
    told.append(
        f"engine over chain near the capacity: TTFT x{np.exp(np.median(ttft)):.2f}, "
        f"ITL x{np.exp(np.median(itl)):.2f} (median of {ttft.size} runs), taken into account"
    )
    known = KnownNumbers(
        log_draws=mapped.log_draws, discrepancy=between, source=f"posterior {name}"
    )
    return KnownReplica(known=known, limits=limits, notes=tuple(told))


def _working_rate(
    log_numbers: Floats,
    shape: RequestShape,
    limits: ServerLimits,
    targets: Targets,
    between: Discrepancy,
) -> float:
    """Median capacity, or half the stability boundary where most draws miss the targets alone."""
    rates = capacity_draws(log_numbers, shape, limits, targets, between).rate
    middle = float(np.median(rates))
    if middle > 0:
        return middle
    return 0.5 * float(np.median(capacity_draws(log_numbers, shape, limits, Targets()).rate))
