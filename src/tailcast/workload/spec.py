"""What a workload is: request classes under an arrival process or a fixed concurrency."""

import math
from dataclasses import dataclass

from tailcast.errors import InputError
from tailcast.workload.arrivals import Arrivals, Stage
from tailcast.workload.lengths import Constant, Empirical, LengthLaw

DEFAULT_REQUESTS = 2000
_MAX_REQUESTS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPrefix:
    """System prompts in front of every prompt.

    Parameters
    ----------
    tokens : int
        Length of each; it comes on top of `input_tokens`.
    groups : int
        Number of different system prompts.
    """

    tokens: int
    groups: int = 1

    def __post_init__(self) -> None:
        _at_least("prefix tokens", self.tokens, 0)
        _at_least("prefix groups", self.groups, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedPrompts:
    """A fixed set of prompts sent over and over.

    Parameters
    ----------
    distinct : int
        Number of different prompts; system prompts are dealt to them in equal runs.
    order : str
        ``cycled`` (one shuffled list, over and over) or ``random`` (drawn with replacement).
    """

    distinct: int
    order: str = "cycled"

    def __post_init__(self) -> None:
        _at_least("distinct prompts", self.distinct, 1)
        if self.distinct > _MAX_REQUESTS:
            raise InputError(f"distinct prompts must be at most {_MAX_REQUESTS}")
        if self.order not in {"cycled", "random"}:
            raise InputError(f"order of prompts must be cycled or random, got {self.order!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Multi-turn chat: the next turn is sent some time after the answer has arrived.

    Parameters
    ----------
    turns : LengthLaw
        Number of requests of a session.
    think_time : float
        Mean seconds between an answer and the next turn.
    think_law : str
        ``exponential`` or ``constant``.
    history : bool
        Whether each prompt repeats all earlier prompts and answers of the session.
    """

    turns: LengthLaw
    think_time: float = 0.0
    think_law: str = "exponential"
    history: bool = True

    def __post_init__(self) -> None:
        _not_negative("think_time", self.think_time)
        if self.think_law not in {"exponential", "constant"}:
            raise InputError(f"think_law must be exponential or constant, got {self.think_law!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """Closed loop: each user sends the next request when the last one is answered.

    Requests are dealt to the users in turn beforehand, so concurrency falls off at the very end.

    Parameters
    ----------
    users : int
        Requests in flight.
    think_time : float
        Seconds between an answer and the user's next request.
    ramp : float
        Seconds over which the users start, evenly spread.
    """

    users: int
    think_time: float = 0.0
    ramp: float = 0.0

    def __post_init__(self) -> None:
        _at_least("concurrency users", self.users, 1)
        _not_negative("concurrency think_time", self.think_time)
        _not_negative("concurrency ramp", self.ramp)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestClass:
    """Requests of one kind.

    Parameters
    ----------
    input_tokens : LengthLaw
        The request's own part of the prompt; shared prefix and history come on top.
    output_tokens : LengthLaw
        Tokens to generate.
    name : str
        Name in tables, and of the random streams of this class.
    weight : float
        Relative frequency among the starts.
    prefix : SharedPrefix, optional
        System prompts; one is picked at random for every start.
    repeat : RepeatedPrompts, optional
        Fixed set of prompts.
    session : Session, optional
        Several turns for a start.
    paired_lengths : bool
        Draw input and output length from the same row; both laws must be empirical, equally long.
    priority : int
        The lower value is served first by a priority scheduler.
    timeout : float
        Seconds after which the client leaves; inf for never.
    """

    input_tokens: LengthLaw
    output_tokens: LengthLaw
    name: str = "all"
    weight: float = 1.0
    prefix: SharedPrefix | None = None
    repeat: RepeatedPrompts | None = None
    session: Session | None = None
    paired_lengths: bool = False
    priority: int = 0
    timeout: float = math.inf

    def __post_init__(self) -> None:
        if not (self.weight > 0 and math.isfinite(self.weight)):
            raise InputError(f"class {self.name!r}: weight must be positive, got {self.weight!r}")
        if not self.timeout > 0:
            raise InputError(f"class {self.name!r}: timeout must be positive, got {self.timeout!r}")
        if self.repeat is not None and self.session is not None:
            raise InputError(f"class {self.name!r}: repeated prompts cannot be sessions too")
        if self.repeat and self.prefix and self.prefix.groups > self.repeat.distinct:
            raise InputError(
                f"class {self.name!r}: {self.prefix.groups} prefix groups for only "
                f"{self.repeat.distinct} distinct prompts"
            )
        if self.paired_lengths:
            self._check_pairs()

    def _check_pairs(self) -> None:
        pair = (self.input_tokens, self.output_tokens)
        if not (isinstance(pair[0], Empirical) and isinstance(pair[1], Empirical)):
            raise InputError(f"class {self.name!r}: paired lengths must both be empirical")
        if len(pair[0].values) != len(pair[1].values):
            raise InputError(f"class {self.name!r}: paired lengths differ in number")
        if self.repeat is not None:
            raise InputError(f"class {self.name!r}: repeated prompts cannot have paired lengths")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Everything that decides which requests arrive, but for the seed.

    Parameters
    ----------
    classes : tuple of RequestClass
        At least one; names differ.
    stages : tuple of Stage
        Rates over time, back to back; empty with a `concurrency`.
    arrivals : Arrivals, optional
        Law of the gaps; Poisson where absent, which `notes` then says.
    concurrency : Concurrency, optional
        Closed loop in place of `stages`.
    n_requests : int, optional
        Exact number of requests, for a stage without a duration or a closed loop.
    name : str
        For tables.
    """

    classes: tuple[RequestClass, ...]
    stages: tuple[Stage, ...] = ()
    arrivals: Arrivals | None = None
    concurrency: Concurrency | None = None
    n_requests: int | None = None
    name: str = "workload"

    def __post_init__(self) -> None:
        if not self.classes:
            raise InputError(f"{self.name}: a workload needs at least one request class")
        names = [kind.name for kind in self.classes]
        if len(set(names)) < len(names):
            raise InputError(f"{self.name}: two request classes have the same name")
        if bool(self.stages) == (self.concurrency is not None):
            raise InputError(f"{self.name}: give either a rate (or stages) or a concurrency")
        if self.n_requests is not None:
            _at_least("n_requests", self.n_requests, 1)
            if self.n_requests > _MAX_REQUESTS:
                raise InputError(f"n_requests must be at most {_MAX_REQUESTS}")
        if self.concurrency is not None and self.arrivals is not None:
            raise InputError(f"{self.name}: arrivals have no meaning with a fixed concurrency")
        open_ended = [stage for stage in self.stages if stage.duration is None]
        if open_ended and len(self.stages) > 1:
            raise InputError(f"{self.name}: every one of several stages needs a duration")
        if self.n_requests is not None and self.stages and not open_ended:
            raise InputError(f"{self.name}: give durations or n_requests, not both")

    @property
    def process(self) -> Arrivals:
        """Law of the gaps in force."""
        return self.arrivals or Arrivals()

    @property
    def count(self) -> int | None:
        """Number of requests in force; None where durations decide."""
        if self.stages and self.stages[0].duration is not None:
            return None
        return self.n_requests or DEFAULT_REQUESTS

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed because nobody said it; one sentence each."""
        notes = []
        if self.stages and self.arrivals is None:
            notes.append("Arrivals are assumed Poisson; say arrivals = ... if they are burstier.")
        if self.count is not None and self.n_requests is None:
            notes.append(f"No n_requests or duration given: {DEFAULT_REQUESTS} requests are sent.")
        if self.stages and any(_many_turns(kind) for kind in self.classes):
            notes.append("The rate counts session starts, not the turns that follow.")
        return tuple(notes)

    @property
    def group_names(self) -> tuple[str, ...]:
        """Name of each value of the column `group`: stage, class, or both."""
        stages = [f"stage {i}" for i in range(len(self.stages))] if len(self.stages) > 1 else []
        kinds = [kind.name for kind in self.classes] if len(self.classes) > 1 else []
        if stages and kinds:
            return tuple(f"{stage}, {kind}" for stage in stages for kind in kinds)
        return tuple(stages or kinds or ["all"])


def _many_turns(kind: RequestClass) -> bool:
    return kind.session is not None and kind.session.turns != Constant(value=1)


def _at_least(name: str, value: float, least: int) -> None:
    if not (value >= least and value == int(value)):
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")


def _not_negative(name: str, value: float) -> None:
    if not (value >= 0 and math.isfinite(value)):
        raise InputError(f"{name} must be finite and not negative (s), got {value!r}")
