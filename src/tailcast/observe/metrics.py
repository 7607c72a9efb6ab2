"""Prometheus pages: parsing, and the names that engines of different versions give to one thing."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class MetricName:
    """One name that a quantity has had.

    Parameters
    ----------
    name : str
        Name on the page; counters may or may not end in ``_total``.
    engine : str
        ``vllm`` or ``llamacpp``.
    versions : str
        Where this name is found.
    """

    name: str
    engine: str
    versions: str


# Newest name first: a page that has both (vLLM kept old names for two releases) is read by the new.
NAMES: Mapping[str, tuple[MetricName, ...]] = {
    "running": (
        MetricName("vllm:num_requests_running", "vllm", "all"),
        MetricName("llamacpp:requests_processing", "llamacpp", "all"),
    ),
    "waiting": (
        MetricName("vllm:num_requests_waiting", "vllm", "all"),
        MetricName("llamacpp:requests_deferred", "llamacpp", "all"),
    ),
    "kv_usage": (
        MetricName("vllm:kv_cache_usage_perc", "vllm", "0.9.2 and later"),
        MetricName("vllm:gpu_cache_usage_perc", "vllm", "up to 0.11"),
        MetricName("llamacpp:kv_cache_usage_ratio", "llamacpp", "until 2025"),
    ),
    "prefix_queries": (
        MetricName("vllm:prefix_cache_queries", "vllm", "0.9.2 and later"),
        MetricName("vllm:gpu_prefix_cache_queries", "vllm", "0.7 to 0.11"),
    ),
    "prefix_hits": (
        MetricName("vllm:prefix_cache_hits", "vllm", "0.9.2 and later"),
        MetricName("vllm:gpu_prefix_cache_hits", "vllm", "0.7 to 0.11"),
    ),
    "preemptions": (MetricName("vllm:num_preemptions", "vllm", "all"),),
    "prompt_tokens": (
        MetricName("vllm:prompt_tokens", "vllm", "all"),
        MetricName("llamacpp:prompt_tokens", "llamacpp", "all"),
    ),
    "cached_tokens": (
        MetricName("vllm:prompt_tokens_cached", "vllm", "0.16 and later"),
        MetricName("llamacpp:prompt_tokens_cached", "llamacpp", "2026"),
    ),
    "generation_tokens": (
        MetricName("vllm:generation_tokens", "vllm", "all"),
        MetricName("llamacpp:tokens_predicted", "llamacpp", "all"),
    ),
    "finished_requests": (MetricName("vllm:request_success", "vllm", "all"),),
    "ttft_sum": (MetricName("vllm:time_to_first_token_seconds_sum", "vllm", "all"),),
    "ttft_count": (MetricName("vllm:time_to_first_token_seconds_count", "vllm", "all"),),
    "queue_sum": (MetricName("vllm:request_queue_time_seconds_sum", "vllm", "0.6.5 and later"),),
    "queue_count": (
        MetricName("vllm:request_queue_time_seconds_count", "vllm", "0.6.5 and later"),
    ),
    "output_sum": (MetricName("vllm:request_generation_tokens_sum", "vllm", "all"),),
    "output_count": (MetricName("vllm:request_generation_tokens_count", "vllm", "all"),),
    "gap_sum": (
        MetricName("vllm:inter_token_latency_seconds_sum", "vllm", "0.11 and later"),
        MetricName("vllm:time_per_output_token_seconds_sum", "vllm", "up to 0.12"),
    ),
    "gap_count": (
        MetricName("vllm:inter_token_latency_seconds_count", "vllm", "0.11 and later"),
        MetricName("vllm:time_per_output_token_seconds_count", "vllm", "up to 0.12"),
    ),
}
GAUGES = ("running", "waiting", "kv_usage")
COUNTERS = tuple(name for name in NAMES if name not in GAUGES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One scrape.

    Parameters
    ----------
    values : mapping of str to float
        By the keys of `NAMES`; several label sets (engines, reasons) are added up, but KV usage is
        averaged. Only what the page has.
    found : mapping of str to str
        The page's own name of each.
    settings : mapping
        Engine settings that the page tells, by vLLM's flag names.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    found: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


def read_page(text: str) -> Page:
    """Read a Prometheus text page.

    Parameters
    ----------
    text : str
        The page; lines that are not samples are skipped.

    Returns
    -------
    Page
        Empty for an empty page.

    Examples
    --------
    >>> read_page('vllm:num_requests_running{engine="0"} 3.0').values
    {'running': 3.0}
    """
    samples: dict[str, list[float]] = {}
    settings: dict[str, Any] = {}
    for line in text.splitlines():
        match = None if line.startswith("#") else _LINE.fullmatch(line)
        if match is None:
            continue
        name, labels, value = match[1], match[2] or "", _number(match[3])
        if name.startswith("vllm:cache_config_info"):
            settings.update(_settings(dict(_LABEL.findall(labels))))
        elif not math.isnan(value):
            samples.setdefault(name.removesuffix("_total"), []).append(value)
    values: dict[str, float] = {}
    found: dict[str, str] = {}
    for key, names in NAMES.items():
        name = next((each.name for each in names if each.name in samples), None)
        if name is not None:
            total = sum(samples[name])
            values[key] = total / len(samples[name]) if key == "kv_usage" else total
            found[key] = name
    return Page(values=values, found=found, settings=settings)


def pages_by_engine(text: str) -> dict[str, Page]:
    """Pages of the engines that share one address, as with data parallelism.

    Parameters
    ----------
    text : str
        The page.

    Returns
    -------
    dict of str to Page
        By the label ``engine`` of vLLM; one page with an empty name where there is none.
    """
    lines: dict[str, list[str]] = {}
    for line in text.splitlines():
        match = None if line.startswith("#") else _LINE.fullmatch(line)
        if match is not None:
            engine = dict(_LABEL.findall(match[2] or "")).get("engine", "")
            lines.setdefault(engine, []).append(line)
    shared = lines.pop("", []) if len(lines) > 1 else []
    return {engine: read_page("\n".join([*own, *shared])) for engine, own in lines.items()}


def kept_lines(text: str) -> str:
    """The part of a page worth keeping: engine families, without creation times.

    Parameters
    ----------
    text : str
        The page.

    Returns
    -------
    str
        Its lines about vllm: and llamacpp: metrics.
    """
    kept = [
        line
        for line in text.splitlines()
        if line.removeprefix("# HELP ").removeprefix("# TYPE ").startswith(("vllm:", "llamacpp:"))
        and "_created" not in line.split("{")[0]
    ]
    return "\n".join(kept) + "\n" if kept else ""


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _settings(labels: Mapping[str, str]) -> dict[str, Any]:
    """Settings from the labels of ``vllm:cache_config_info``."""
    found: dict[str, Any] = {}
    for label, key in (("block_size", "block_size"), ("num_gpu_blocks", "kv_blocks")):
        if labels.get(label, "").isdigit():
            found[key] = int(labels[label])
    share = _number(labels.get("gpu_memory_utilization", ""))
    if math.isfinite(share):
        found["gpu_memory_utilization"] = share
    caching = labels.get("enable_prefix_caching", "").lower()
    if caching in {"true", "false"}:
        found["prefix_caching"] = caching == "true"
    if labels.get("cache_dtype", "") not in {"", "auto"}:
        found["kv_dtype"] = labels["cache_dtype"]
    return found
