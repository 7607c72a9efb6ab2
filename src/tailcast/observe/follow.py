"""Following live replicas: windows between scrapes, the tuner that learns from them, its state."""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tailcast.errors import InputError, UsageError
from tailcast.observe.live import LiveSource, Scrape
from tailcast.queueing.counters import CountedWindow, Counters, window_between
from tailcast.queueing.tuner import Tuner, TunerUpdate, restore_tuner
from tailcast.queueing.wva import WvaCycle, WvaTuner
from tailcast.whole_file import whole_file

# a window waits this many times its length for enough requests
_LONGEST = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowSettings:
    """How windows are cut.

    Parameters
    ----------
    window : float
        Seconds.
    least_requests : float
        First tokens that a window waits for.
    """

    window: float = 60.0
    least_requests: float = 10.0

    def __post_init__(self) -> None:
        if not self.window > 0 or not self.least_requests >= 1:
            raise UsageError("follow: a window needs a length and at least one request")


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedWindow:
    """One window of one replica, and what the tuner made of it.

    Parameters
    ----------
    replica : str
        Whose.
    time : float
        Its end, Unix time.
    counted : CountedWindow
        The window, or why it cannot be used.
    update : TunerUpdate or None
        None for a window that cannot be used.
    baseline : WvaCycle or None
        What WVA's filter did, where it is compared.
    cached_share : float
        Share of the prompt tokens found in the prefix cache; NaN where unknown.
    """

    replica: str
    time: float
    counted: CountedWindow
    update: TunerUpdate | None
    baseline: WvaCycle | None
    cached_share: float


@dataclass(slots=True)
class _Replica:
    """Where a replica's present window began, and its last scrape."""

    start: Scrape
    last: Scrape
    tokens_out: float = math.nan


@dataclass(slots=True, kw_only=True)
class Follower:
    """Feeds scrapes to a tuner, window by window.

    Parameters
    ----------
    tuner : Tuner
        Learns.
    settings : FollowSettings
        How windows are cut.
    baseline : WvaTuner, optional
        WVA's filter beside it.

    Attributes
    ----------
    n_unusable : int
        Windows that could not be used.
    n_restart : int
        Restarts of replicas that were seen.
    """

    tuner: Tuner
    settings: FollowSettings = field(default_factory=FollowSettings)
    baseline: WvaTuner | None = None
    n_unusable: int = field(default=0, init=False)
    n_restart: int = field(default=0, init=False)
    _replicas: dict[str, _Replica] = field(default_factory=dict, init=False)

    @property
    def since(self) -> float:
        """Latest scrape that was taken in, Unix time; -inf at first."""
        times = [replica.last.counters.time for replica in self._replicas.values()]
        return max(times, default=-math.inf)

    def poll(self, source: LiveSource, now: float) -> Iterator[FollowedWindow]:
        """Take in what is new.

        Parameters
        ----------
        source : LiveSource
            Of the scrapes.
        now : float
            Unix time.

        Yields
        ------
        FollowedWindow
            Windows that ended, in order of time, each right after the tuner's update.
        """
        longest = _LONGEST if self._replicas else 1.0
        since = max(self.since, now - longest * self.settings.window)
        for scrape in source.scrapes(since, now):
            yield from self.take(scrape)

    def take(self, scrape: Scrape) -> Iterator[FollowedWindow]:
        """Take in one scrape.

        Parameters
        ----------
        scrape : Scrape
            Later than those before of the same replica.

        Yields
        ------
        FollowedWindow
            The window that ends with it, if one does.
        """
        replica = self._replicas.get(scrape.replica)
        if replica is None:
            self._replicas[scrape.replica] = _Replica(start=scrape, last=scrape)
            return
        if scrape.counters.time <= replica.last.counters.time:
            return
        if scrape.counters.restarted_since(replica.last.counters):
            self.n_restart += 1
            replica.start = replica.last = scrape
            return
        gap = scrape.counters.time - replica.last.counters.time
        replica.last = scrape
        span = scrape.counters.time - replica.start.counters.time
        # after a hole in the scrapes the mean over it is that of another time
        if gap > max(2.0 * self.settings.window, 0.5 * _LONGEST * self.settings.window):
            replica.start = scrape
            return
        n_request = scrape.counters.first_tokens - replica.start.counters.first_tokens
        if span < self.settings.window * (1.0 - 1e-3):
            return
        if n_request < self.settings.least_requests and span < _LONGEST * self.settings.window:
            return
        yield self._close(scrape, replica)
        replica.start = scrape

    def _close(self, scrape: Scrape, replica: _Replica) -> FollowedWindow:
        before, after = replica.start.counters, scrape.counters
        counted = window_between(before, after, label=scrape.replica, tokens_out=replica.tokens_out)
        update, cycle = None, None
        if counted.window is None:
            self.n_unusable += 1
        else:
            replica.tokens_out = counted.window.tokens_out
            update = self.tuner.update(counted.window)
            both = math.isfinite(counted.window.ttft) and math.isfinite(counted.window.itl)
            if self.baseline is not None and both:
                cycle = self.baseline.update(counted.window)
        prompt = after.prompt_tokens - before.prompt_tokens
        cached = scrape.cached_tokens - replica.start.cached_tokens
        return FollowedWindow(
            replica=scrape.replica,
            time=after.time,
            counted=counted,
            update=update,
            baseline=cycle,
            cached_share=cached / prompt if prompt > 0 else math.nan,
        )

    def to_json(self) -> str:
        """State of the tuner, and where each replica's present window began.

        Returns
        -------
        str
            A tuner's state with one more entry, so that it is read wherever one is.
        """
        state: dict[str, Any] = json.loads(self.tuner.to_json())
        state["followed"] = {
            name: {
                "counters": asdict(replica.start.counters),
                **({"tokens_out": replica.tokens_out} if replica.tokens_out > 0 else {}),
            }
            for name, replica in self._replicas.items()
        }
        return json.dumps(state, indent=2, allow_nan=False)


def restore_follower(text: str, settings: FollowSettings, where: str = "tuner state") -> Follower:
    """Follower from a saved state: no request is counted twice.

    Parameters
    ----------
    text : str
        From `Follower.to_json` or `Tuner.to_json`.
    settings : FollowSettings
        How windows are cut.
    where : str
        Named in errors.

    Returns
    -------
    Follower
        Goes on where the saved one stopped.

    Raises
    ------
    InputError
        If the text is no such state.
    """
    follower = Follower(tuner=restore_tuner(text, where), settings=settings)
    try:
        for name, entry in json.loads(text).get("followed", {}).items():
            scrape = Scrape(replica=name, counters=Counters(**entry["counters"]))
            tokens_out = float(entry.get("tokens_out", math.nan))
            follower._replicas[name] = _Replica(start=scrape, last=scrape, tokens_out=tokens_out)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where}: what was followed is damaged: {error}") from None
    return follower


def save_state(follower: Follower, path: Path) -> None:
    """Write the state; the file appears whole or not at all.

    Parameters
    ----------
    follower : Follower
        To save.
    path : pathlib.Path
        Replaced.

    Raises
    ------
    UsageError
        If it cannot be written.
    """
    try:
        with whole_file(path) as temporary:
            temporary.write_text(follower.to_json() + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: the state cannot be written ({error.strerror})") from None
