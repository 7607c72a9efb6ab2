"""Looking at ``/metrics`` before, during and after a run."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tailcast.observe.connection import Connection
from tailcast.observe.metrics import COUNTERS, GAUGES, Page, read_page


@dataclass(slots=True)
class Scrapes:
    """Pages of one run.

    Parameters
    ----------
    times : list of float
        Seconds from the start of the run; the first page may be before it.
    pages : list of Page
        One a time.
    first, last : str
        Text of the first and the last page.
    n_failed : int
        Looks that got no page.
    """

    times: list[float] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)
    first: str = ""
    last: str = ""
    n_failed: int = 0

    def add(self, time: float, text: str) -> None:
        """Take in one page.

        Parameters
        ----------
        time : float
            When it was asked for.
        text : str
            The page; empty where there was none, which is counted.
        """
        if not text:
            self.n_failed += 1
            return
        self.first = self.first or text
        self.last = text
        self.times.append(time)
        self.pages.append(read_page(text))

    @property
    def n_restarts(self) -> int:
        """How often a counter fell, as it does when the server starts again."""
        count = 0
        for before, after in zip(self.pages, self.pages[1:], strict=False):
            count += any(
                after.values.get(name, math.inf) < before.values[name]
                for name in COUNTERS
                if name in before.values
            )
        return count

    def increases(self) -> Mapping[str, float]:
        """Increase of every counter over the run.

        Returns
        -------
        mapping of str to float
            By the keys of `NAMES`; a counter that fell counts from zero again.
        """
        total: dict[str, float] = {}
        for before, after in zip(self.pages, self.pages[1:], strict=False):
            for name in COUNTERS:
                if name in before.values and name in after.values:
                    step = after.values[name] - before.values[name]
                    gained = step if step >= 0 else after.values[name]
                    total[name] = total.get(name, 0.0) + gained
        return total

    def peaks(self) -> Mapping[str, float]:
        """Largest value of every gauge that was seen.

        Returns
        -------
        mapping of str to float
            By the keys of `NAMES`.
        """
        return {
            name: max(page.values[name] for page in self.pages if name in page.values)
            for name in GAUGES
            if any(name in page.values for page in self.pages)
        }


async def scrape(connection: Connection, scrapes: Scrapes) -> None:
    """Look once.

    Parameters
    ----------
    connection : Connection
        To the server.
    scrapes : Scrapes
        Grows by one page.
    """
    time = connection.clock()
    scrapes.add(time, await connection.text("/metrics", seconds=5.0))


async def scrape_forever(connection: Connection, scrapes: Scrapes, interval: float) -> None:
    """Look again and again until cancelled.

    Parameters
    ----------
    connection : Connection
        To the server.
    scrapes : Scrapes
        Grows.
    interval : float
        Seconds between looks.
    """
    while True:
        await asyncio.sleep(interval)
        await scrape(connection, scrapes)
