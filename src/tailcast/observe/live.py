"""Counters of a live server: from its own metrics page, or from a Prometheus that scrapes it."""

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from tailcast.errors import InputError
from tailcast.observe.metrics import NAMES, pages_by_engine
from tailcast.observe.settings import ServerError, api_key, base_url, redacted
from tailcast.queueing.counters import Counters

TOKEN_VARIABLE = "TAILCAST_PROMETHEUS_TOKEN"
# what a window is made of, by the keys of NAMES
_KEYS = (
    "ttft_sum",
    "ttft_count",
    "gap_sum",
    "gap_count",
    "prompt_tokens",
    "generation_tokens",
    "output_sum",
    "output_count",
    "finished_requests",
    "waiting",
    "cached_tokens",
)
_NEEDED = ("ttft_sum", "ttft_count", "prompt_tokens")
_PATIENCE = 10.0
_REPLICA_LABELS = ("pod", "instance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """Counters of one replica at one instant.

    Parameters
    ----------
    replica : str
        Name of the replica.
    counters : Counters
        Totals; their time is Unix time.
    cached_tokens : float
        Prompt tokens found in the prefix cache so far; NaN where the server does not tell.
    """

    replica: str
    counters: Counters
    cached_tokens: float = math.nan


class LiveSource(Protocol):
    """Where scrapes come from."""

    def scrapes(self, since: float, now: float) -> list[Scrape]:
        """Scrapes of all replicas after one instant and not after another, in order of time."""


def counters_of(values: Mapping[str, float], instant: float) -> Counters | None:
    """Counters of a page's values.

    Parameters
    ----------
    values : mapping of str to float
        By the keys of `NAMES`.
    instant : float
        Seconds.

    Returns
    -------
    Counters or None
        None where the page is not that of an engine that times first tokens.
    """
    if any(key not in values for key in _NEEDED):
        return None
    finished = values.get("output_count", values.get("finished_requests", 0.0))
    # tokens of finished requests; else all tokens so far, right in a steady state
    output = values.get("output_sum", values.get("generation_tokens", 0.0))
    return Counters(
        time=instant,
        first_tokens=values["ttft_count"],
        ttft_sum=values["ttft_sum"],
        prompt_tokens=values["prompt_tokens"],
        gaps=values.get("gap_count", 0.0),
        gap_sum=values.get("gap_sum", 0.0),
        finished=finished,
        output_tokens=output,
        waiting=values.get("waiting", 0.0),
    )


class PageSource:
    """The metrics page of one server; each engine on it is a replica.

    Parameters
    ----------
    url : str
        Address, with or without ``/metrics``.
    clock : callable
        Unix time.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.time) -> None:
        address = base_url(url)
        self.url = address if address.endswith("/metrics") else f"{address}/metrics"
        self._clock = clock

    def scrapes(self, since: float, now: float) -> list[Scrape]:
        """One look at the page, whatever the time asked for.

        Parameters
        ----------
        since, now : float
            Ignored: a page holds no past.

        Returns
        -------
        list of Scrape
            One an engine.

        Raises
        ------
        ServerError
            If there is no page, or it is no vLLM's.
        """
        before = self._clock()
        text = fetch(self.url)
        instant = 0.5 * (before + self._clock())
        host = urlsplit(self.url).netloc
        found = []
        for engine, page in pages_by_engine(text).items():
            counters = counters_of(page.values, instant)
            if counters is not None:
                cached = page.values.get("cached_tokens", page.values.get("prefix_hits", math.nan))
                name = f"{host}/{engine}" if engine not in {"", "0"} else host
                found.append(Scrape(replica=name, counters=counters, cached_tokens=cached))
        if not found:
            raise ServerError(
                f"{self.url}: no vllm:time_to_first_token_seconds on this page; is it a vLLM?"
            )
        return found


class PrometheusSource:
    """A Prometheus server; each scraped engine is a replica.

    Its raw samples are read by instant queries with a range selector, so that every counter comes
    with the instant of its scrape, and no rate is extrapolated.

    Parameters
    ----------
    url : str
        Address.
    selector : str
        Further label matchers, for example ``namespace="prod",model_name="llama"``.
    """

    def __init__(self, url: str, selector: str = "") -> None:
        self.url = base_url(url)
        names = sorted({name.name for key in _KEYS for name in NAMES[key] if name.engine == "vllm"})
        matchers = [f'__name__=~"({"|".join(names)})(_total)?"']
        if selector.strip(" {},"):
            matchers.append(selector.strip(" {},"))
        self._matchers = "{" + ",".join(matchers) + "}"

    def scrapes(self, since: float, now: float) -> list[Scrape]:
        """Scrapes that Prometheus holds.

        Parameters
        ----------
        since, now : float
            Unix time; after the first and not after the second.

        Returns
        -------
        list of Scrape
            In order of time.

        Raises
        ------
        ServerError
            If Prometheus does not answer or refuses the query.
        """
        span = max(1, math.ceil(1e3 * (now - since)))
        query = f"{self._matchers}[{span}ms]"
        answer = query_prometheus(self.url, "query", {"query": query, "time": f"{now:.3f}"})
        values: dict[tuple[str, float], dict[str, float]] = {}
        for series in answer.get("result", []):
            labels = series.get("metric", {})
            name = str(labels.get("__name__", "")).removesuffix("_total")
            replica = _replica_name(labels)
            for instant, text in series.get("values", []):
                if since < float(instant) <= now:
                    place = values.setdefault((replica, float(instant)), {})
                    place[name] = place.get(name, 0.0) + float(text)
        found = []
        for (replica, instant), by_name in sorted(values.items(), key=lambda item: item[0][::-1]):
            by_key = _by_key(by_name)
            counters = counters_of(by_key, instant)
            if counters is not None:
                cached = by_key.get("cached_tokens", math.nan)
                found.append(Scrape(replica=replica, counters=counters, cached_tokens=cached))
        return found


def _by_key(by_name: Mapping[str, float]) -> dict[str, float]:
    found = {}
    for key in _KEYS:
        name = next((each.name for each in NAMES[key] if each.name in by_name), None)
        if name is not None:
            found[key] = by_name[name]
    return found


def _replica_name(labels: Mapping[str, str]) -> str:
    name = next((labels[label] for label in _REPLICA_LABELS if labels.get(label)), "replica")
    engine = labels.get("engine", "")
    return f"{name}/{engine}" if engine not in {"", "0"} else name


def query_prometheus(url: str, path: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """Ask the HTTP API of a Prometheus.

    Parameters
    ----------
    url : str
        Address of the server.
    path : str
        ``query`` or ``query_range``.
    fields : mapping of str to str
        Form fields.

    Returns
    -------
    dict
        The ``data`` of the answer.

    Raises
    ------
    ServerError
        If it does not answer, or not with success.
    """
    text = fetch(f"{url}/api/v1/{path}", urlencode(fields).encode())
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or answer.get("status") != "success":
        reason = answer.get("error", "") if isinstance(answer, dict) else "the answer is no JSON"
        raise ServerError(f"{url}: Prometheus refuses the query: {reason}")
    data = answer.get("data")
    return data if isinstance(data, dict) else {}


def live_source(url: str, selector: str = "") -> LiveSource:
    """Prometheus or the metrics page of a server, whichever answers at an address.

    Parameters
    ----------
    url : str
        Address; one that ends in ``/metrics`` is a page.
    selector : str
        Label matchers, for Prometheus.

    Returns
    -------
    LiveSource
        Not asked yet but for what it is.

    Raises
    ------
    ServerError
        If nobody answers.
    InputError
        If a selector is given for a page.
    """
    address = base_url(url)
    if not address.endswith("/metrics"):
        try:
            query_prometheus(address, "query", {"query": "vector(1)"})
        except ServerError as error:
            if "HTTP" not in str(error) and "JSON" not in str(error):
                raise
        else:
            return PrometheusSource(address, selector)
    if selector:
        raise InputError(f"{address}: a selector needs a Prometheus; this is a server's own page")
    return PageSource(address)


def fetch(url: str, body: bytes | None = None) -> str:
    """Body of a GET, or of a POST of form fields.

    The token is read from the environment: TAILCAST_PROMETHEUS_TOKEN, else the API key.

    Parameters
    ----------
    url : str
        Address.
    body : bytes, optional
        Form fields.

    Returns
    -------
    str
        Text.

    Raises
    ------
    ServerError
        If there is no answer, or no success.
    """
    token = os.environ.get(TOKEN_VARIABLE) or api_key()
    request = Request(url, data=body)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urlopen(request, timeout=_PATIENCE) as answer:
            content: bytes = answer.read()
    except HTTPError as error:
        reason = _refusal(error)
        raise ServerError(redacted(f"{url}: HTTP {error.code} {reason}".strip(), token)) from None
    except (URLError, OSError, ValueError) as error:
        cause = error.reason if isinstance(error, URLError) else error
        raise ServerError(redacted(f"{url}: no answer: {cause}", token)) from None
    return content.decode(errors="replace")


def _refusal(error: HTTPError) -> str:
    try:
        answer = json.loads(error.read())
    except (ValueError, OSError):
        return ""
    return str(answer.get("error", "")) if isinstance(answer, dict) else ""
