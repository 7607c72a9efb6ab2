"""Small files of other tools, made from the same four requests."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from traces.trace_files import HEADER, NAMES, plain

UNIX = 1_795_957_752.0
MONOTONIC = 27_536.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One request as it happened: seconds from the start."""

    arrival: float
    send: float
    ttft: float
    gaps: tuple[float, ...]
    n_in: int
    failed: bool = False

    @property
    def n_out(self) -> int:
        """Tokens of the answer."""
        return 0 if self.failed else len(self.gaps) + 1

    @property
    def first(self) -> float:
        """Time of the first token."""
        return self.send + self.ttft

    @property
    def last(self) -> float:
        """Time of the last token."""
        return self.first + sum(self.gaps)

    @property
    def e2e(self) -> float:
        """Seconds from sending to the last token."""
        return self.last - self.send

    @property
    def tokens(self) -> list[float]:
        """Times of the tokens."""
        return [self.first, *(self.first + np.cumsum(self.gaps)).tolist()]


# 0.0777 and 81 occur once in each file that has them, so that tests can spoil them.
REQUESTS = (
    Served(arrival=0.0, send=0.001, ttft=0.05, gaps=(0.010, 0.011, 0.012, 0.013), n_in=40),
    Served(arrival=0.1, send=0.102, ttft=0.06, gaps=(0.02, 0.02, 0.02), n_in=81),
    Served(arrival=0.25, send=0.25, ttft=0.0777, gaps=(0.03, 0.031), n_in=7),
    Served(arrival=0.3, send=0.3, ttft=0.0, gaps=(), n_in=9, failed=True),
)
OK = REQUESTS[:3]


def written(path: Path, content: object) -> Path:
    """File of a text, or of JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def bench_content(requests: tuple[Served, ...] = REQUESTS) -> dict[str, Any]:
    """Result of vllm bench serve with --save-detailed."""
    good = [r for r in requests if not r.failed]
    return {
        "date": "20261129-130912",
        "endpoint_type": "vllm",
        "backend": "vllm",
        "label": None,
        "model_id": "tiny",
        "tokenizer_id": "tiny",
        "num_prompts": len(requests),
        "request_rate": 8.0,
        "burstiness": 1.0,
        "max_concurrency": None,
        "duration": 0.5,
        "completed": len(good),
        "failed": len(requests) - len(good),
        "total_input_tokens": sum(r.n_in for r in good),
        "total_output_tokens": sum(r.n_out for r in good),
        "request_throughput": len(good) / 0.5,
        "input_lens": [r.n_in for r in requests],
        "output_lens": [r.n_out for r in requests],
        "ttfts": [r.ttft for r in requests],
        "itls": [list(r.gaps) for r in requests],
        "latencies": [0.0 if r.failed else r.e2e for r in requests],
        "start_times": [MONOTONIC + r.send for r in requests],
        "queue_times": [r.send - r.arrival for r in requests],
        "errors": ["refused" if r.failed else "" for r in requests],
        "generated_texts": ["" for _ in requests],
    }


def bench_summary(requests: tuple[Served, ...] = OK, **more: Any) -> dict[str, Any]:
    """Result of vllm bench serve without --save-detailed."""
    gone = {"input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times"}
    gone |= {"queue_times", "errors", "generated_texts"}
    content = {k: v for k, v in bench_content(requests).items() if k not in gone}
    good = [r for r in requests if not r.failed]
    values = {
        "ttft": [r.ttft for r in good],
        "tpot": [sum(r.gaps) / len(r.gaps) for r in good],
        "itl": [gap for r in good for gap in r.gaps],
        "e2el": [r.e2e for r in good],
    }
    for name, found in values.items():
        ms = np.array(found) * 1e3
        content[f"mean_{name}_ms"] = float(ms.mean())
        content[f"median_{name}_ms"] = float(np.median(ms))
        content[f"std_{name}_ms"] = float(ms.std())
        content[f"p99_{name}_ms"] = float(np.quantile(ms, 0.99))
    return {**content, **more}


def bench(folder: Path) -> Path:
    """Detailed JSON of vllm bench serve."""
    return written(folder / "bench.json", bench_content())


def bench_table(folder: Path) -> Path:
    """Table of vllm bench serve results."""
    rows = [bench_summary(request_rate=rate, label="run") for rate in (4.0, 8.0)]
    rows[1]["p99_ttft_ms"] = 77.7
    names = list(rows[0])
    lines = [",".join("" if r[n] is None else str(r[n]) for n in names) for r in rows]
    return written(folder / "runs.csv", "\n".join([",".join(names), *lines]) + "\n")


def each_content(requests: tuple[Served, ...] = REQUESTS) -> list[dict[str, Any]]:
    """Per-request report of inference-perf."""
    return [
        {
            "start_time": MONOTONIC + r.send,
            "end_time": MONOTONIC + r.last + 0.001,
            "request": json.dumps({"max_tokens": r.n_out, "ignore_eos": True, "prompt": "x"}),
            "response": "",
            "info": {
                "request_metrics": {"text": {"input_tokens": r.n_in}},
                "input_tokens": r.n_in,
                "response_metrics": {
                    "output_tokens": r.n_out + 2,
                    "server_usage": {"prompt_tokens": r.n_in, "completion_tokens": r.n_out},
                    "chunk_times": [MONOTONIC + t for t in r.tokens],
                    "output_token_times": [MONOTONIC + t for t in r.tokens],
                },
            },
            "error": {"error_type": "HTTP Error 500", "error_msg": "no"} if r.failed else None,
        }
        for r in requests
    ]


def stage_content(n: int = 3, rate: float = 8.0, ttft: float = 0.0777) -> dict[str, Any]:
    """Report of one stage of inference-perf."""
    statistics: dict[str, Any] = {"mean": ttft, "min": 0.05, "max": 0.09}
    statistics |= {"median": 0.06, "p90": 0.08, "p99": 0.089, "p99.9": 0.0899}
    lengths = {"mean": 4.0, "min": 3.0, "max": 5.0, "median": 4.0}
    return {
        "load_summary": {
            "count": n + 1,
            "schedule_delay": {"mean": 0.001, "p99": 0.002},
            "send_duration": 0.4,
            "requested_rate": rate,
            "achieved_rate": rate,
        },
        "successes": {
            "count": n,
            "latency": {
                "request_latency": {"mean": ttft + 0.06, "median": 0.12, "p90": 0.15, "p99": 0.2},
                "normalized_time_per_output_token": {"mean": 0.034},
                "time_per_output_token": {"mean": 0.02, "median": 0.019, "p90": 0.025},
                "time_to_first_token": statistics,
                "inter_token_latency": {"mean": 0.02, "median": 0.02, "p99": 0.03},
            },
            "prompt_len": {"mean": 42.67, "min": 7.0, "max": 81.0},
            "output_len": lengths,
        },
        "failures": {"count": 1, "request_latency": None},
    }


def inference_perf(folder: Path) -> Path:
    """Per-request report of inference-perf."""
    return written(folder / "per_request_lifecycle_metrics.json", each_content())


def guidellm_content(requests: tuple[Served, ...] = REQUESTS) -> dict[str, Any]:
    """JSON of guidellm, one benchmark."""

    def entry(r: Served) -> dict[str, Any]:
        return {
            "request_id": "x",
            "info": {
                "status": "errored" if r.failed else "completed",
                "error": "no" if r.failed else None,
                "timings": {
                    "targeted_start": UNIX + r.arrival,
                    "queued": UNIX + r.arrival - 0.01,
                    "resolve_start": UNIX + r.send,
                    "request_start": UNIX + r.send,
                    "first_token_iteration": None if r.failed else UNIX + r.first,
                    "last_token_iteration": None if r.failed else UNIX + r.last,
                    "request_iterations": r.n_out,
                    "token_iterations": r.n_out,
                    "request_end": UNIX + r.last + 0.001,
                    "resolve_end": UNIX + r.last + 0.001,
                },
            },
            "prompt_tokens": r.n_in,
            "output_tokens": r.n_out or None,
            "time_to_first_token_ms": None if r.failed else r.ttft * 1e3,
            "inter_token_latency_ms": None,
        }

    return {
        "metadata": {"version": 1, "guidellm_version": "0.8.1"},
        "args": {"model": "tiny"},
        "benchmarks": [
            {
                "type_": "generative_benchmark",
                "config": {"strategy": {"type_": "poisson", "rate": 8.0}},
                "duration": 0.5,
                "metrics": {
                    "request_totals": {"successful": 3, "errored": 1, "incomplete": 0, "total": 4}
                },
                "requests": {
                    "successful": [entry(r) for r in requests if not r.failed],
                    "errored": [entry(r) for r in requests if r.failed],
                    "incomplete": [],
                },
            }
        ],
    }


def guidellm(folder: Path) -> Path:
    """JSON of guidellm."""
    return written(folder / "benchmarks.json", guidellm_content())


def guidellm_metrics(folder: Path) -> Path:
    """JSON of guidellm that keeps no requests."""
    content = guidellm_content()

    def spread(mean: float) -> dict[str, Any]:
        percentiles = {"p001": mean / 2, "p50": mean, "p90": mean * 1.2, "p99": mean * 1.5}
        table = {"mean": mean, "median": mean, "std_dev": mean / 10, "min": mean / 2}
        return {"successful": {**table, "max": mean * 2, "percentiles": percentiles}}

    content["benchmarks"][0]["requests"] = {"successful": [], "errored": [], "incomplete": []}
    content["benchmarks"][0]["metrics"] |= {
        "time_to_first_token_ms": spread(60.0),
        "request_latency": spread(0.15),
        "inter_token_latency_ms": spread(30.0),
        "time_per_output_token_ms": spread(37.5),
        "prompt_token_count": spread(40.0),
        "output_token_count": spread(4.0),
    }
    return written(folder / "metrics.json", content)


def guidellm_csv(folder: Path) -> Path:
    """CSV of guidellm, with its three header rows."""
    listed = '"[50, 50, 50, 50, 51, 55, 70, 75, 76, 79, 80]"'
    columns: list[tuple[str, str, str, str]] = [
        ("Run Info", "Run ID", "", "r"),
        ("Benchmark", "Strategy", "", "poisson"),
        ("Timings", "Duration", "Sec", "30"),
        ("Request Counts", "Successful", "", "240"),
        ("Request Counts", "Incomplete", "", "2"),
        ("Request Counts", "Errored", "", "1"),
        ("Request Latency", "Successful Sec", "Mean", "0.18"),
        ("Request Latency", "Successful Sec", "Median", "0.17"),
        ("Time to First Token", "Successful ms", "Mean", "0.0777"),
        ("Time to First Token", "Successful ms", "Median", "60"),
        ("Time to First Token", "Successful ms", "Percentiles", listed),
        ("Time per Output Token", "Successful ms", "Mean", "36"),
        ("Inter Token Latency", "Successful ms", "Mean", "30"),
        ("Server Throughput", "Successful Requests/Sec", "Mean", "8.1"),
        ("Server Throughput", "Successful Concurrency", "Mean", "1.4"),
        ("Token Metrics", "Successful Input Tokens", "Mean", "40"),
        ("Token Metrics", "Successful Output Tokens", "Mean", "5"),
        ("Token Metrics", "Successful Output Tokens", "Std Dev", "1"),
    ]
    rows = [",".join(cells) for cells in zip(*columns, strict=True)]
    return written(folder / "benchmarks.csv", "\n".join(rows) + "\n")


def aiperf_content(requests: tuple[Served, ...] = REQUESTS) -> list[dict[str, Any]]:
    """Records of aiperf."""

    def metric(value: object, unit: str) -> dict[str, object]:
        return {"value": value, "unit": unit}

    records = []
    for i, r in enumerate(requests):
        metrics = {"error_isl": metric(r.n_in, "tokens")}
        if not r.failed:
            metrics = {
                "time_to_first_token": metric(r.ttft * 1e3, "ms"),
                "request_latency": metric(r.e2e * 1e9, "ns"),
                "inter_chunk_latency": metric([gap * 1e3 for gap in r.gaps], "ms"),
                "inter_token_latency": metric(sum(r.gaps) / len(r.gaps) * 1e3, "ms"),
                "input_sequence_length": metric(r.n_in, "tokens"),
                "output_sequence_length": metric(r.n_out + 1, "tokens"),
                "usage_prompt_tokens": metric(r.n_in, "tokens"),
                "usage_completion_tokens": metric(r.n_out, "tokens"),
            }
        records.append(
            {
                "metadata": {
                    "session_num": i,
                    "x_request_id": f"x{i}",
                    "conversation_id": f"c{i}",
                    "turn_index": 0,
                    "credit_issued_ns": round((UNIX + r.arrival) * 1e9),
                    "request_start_ns": round((UNIX + r.send) * 1e9),
                    "request_end_ns": round((UNIX + r.last) * 1e9),
                    "benchmark_phase": "profiling",
                    "was_cancelled": False,
                },
                "metrics": metrics,
                "error": {"code": 500, "type": "Error", "message": "no"} if r.failed else None,
            }
        )
    return records


def lines(path: Path, records: list[dict[str, Any]]) -> Path:
    """JSON Lines of records."""
    return written(path, "".join(json.dumps(record) + "\n" for record in records))


def aiperf(folder: Path) -> Path:
    """Records of aiperf."""
    return lines(folder / "profile_export.jsonl", aiperf_content())


def genai_perf_content(**more: Any) -> dict[str, Any]:
    """Summary of genai-perf or aiperf."""

    def block(mean: float, unit: str = "ms") -> dict[str, Any]:
        quantiles = {"p50": mean * 0.9, "p90": mean * 1.2, "p99": mean * 1.5}
        return {"unit": unit, "avg": mean, "min": mean / 2, "max": mean * 2, **quantiles}

    return {
        "request_throughput": {"unit": "requests/sec", "avg": 8.0},
        "request_count": {"unit": "requests", "avg": 240.0},
        "request_latency": block(177.7),
        "time_to_first_token": block(77.7),
        "time_to_second_token": block(20.0),
        "inter_token_latency": block(25.0),
        "output_sequence_length": block(5.0, "tokens"),
        "input_sequence_length": block(40.0, "tokens"),
        "input_config": {"model": ["tiny"], "perf_analyzer": {"stimulus": {"concurrency": 4}}},
        **more,
    }


def genai_perf(folder: Path) -> Path:
    """JSON summary of genai-perf."""
    return written(folder / "profile_export_genai_perf.json", genai_perf_content())


def genai_perf_csv(folder: Path) -> Path:
    """CSV summary of genai-perf."""
    text = (
        "Metric,avg,min,max,p99,p95,p90,p75,p50,p25\n"
        "Time To First Token (ms),77.7,38,160,150,120,100,90,70,60\n"
        'Request Latency (ms),"1,077.70",900,"1,500.00",1400,1300,1200,1100,1050,1000\n'
        "Inter Token Latency (ms),250.0,200,300,290,280,270,260,250,240\n"
        "Output Sequence Length (tokens),5.00,5,5,5,5,5,5,5,5\n"
        "Input Sequence Length (tokens),40.00,40,40,40,40,40,40,40,40\n"
        "\n"
        "Metric,Value\n"
        "Request Throughput (per sec),8.00\n"
        "Request Count (count),240\n"
    )
    return written(folder / "profile_export_genai_perf.csv", text)


def genai_records_content(requests: tuple[Served, ...] = OK) -> dict[str, Any]:
    """Export of Perf Analyzer: an empty role chunk first, usage last."""

    def chunk(**delta: str) -> dict[str, str]:
        return {"response": "data: " + json.dumps({"choices": [{"delta": delta}]}) + "\n\n"}

    entries = []
    for r in requests:
        usage = {"usage": {"prompt_tokens": r.n_in, "completion_tokens": r.n_out}, "choices": []}
        stamps = [r.send + 0.001, *r.tokens, r.last + 0.001]
        outputs = [chunk(role="assistant"), *(chunk(content="a") for _ in r.tokens)]
        outputs.append({"response": f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n"})
        entries.append(
            {
                "timestamp": round((UNIX + r.send) * 1e9),
                "response_timestamps": [round((UNIX + t) * 1e9) for t in stamps],
                "response_outputs": outputs,
            }
        )
    experiment = {"mode": "request_rate", "value": 8}
    return {
        "service_kind": "openai",
        "endpoint": "v1/chat/completions",
        "experiments": [{"experiment": experiment, "requests": entries}],
    }


def genai_records(folder: Path) -> Path:
    """Export of Perf Analyzer."""
    return written(folder / "profile_export.json", genai_records_content())


def llmservingsim(folder: Path) -> Path:
    """Requests of LLMServingSim's benchmark, with its settings beside."""
    meta = {
        "schema_version": 1,
        "model": "meta-llama/Llama-3.1-8B",
        "vllm_version": "0.19.0",
        "engine_kwargs": {"tensor_parallel_size": 1, "max_num_seqs": 128, "max_model_len": None},
        "kv_cache": {"num_gpu_blocks": 35913, "block_size": 16, "enable_prefix_caching": True},
        "hardware": {"device_name": "NVIDIA H100 80GB HBM3"},
    }
    written(folder / "meta.json", meta)
    records = [
        {
            "request_id": f"bench-{i}",
            "input_toks": r.n_in,
            "output_toks": r.n_out,
            "arrival_time": UNIX + r.arrival,
            "queued_ts": MONOTONIC + r.send,
            "scheduled_ts": MONOTONIC + r.send + 0.0001,
            "first_token_ts": MONOTONIC + r.first,
            "last_token_ts": MONOTONIC + r.last,
        }
        for i, r in enumerate(OK)
    ]
    return lines(folder / "requests.jsonl", records)


def exposition(scale: float = 1.0, model: str = "tiny") -> str:
    """Scrape of vLLM; `scale` multiplies every count."""
    buckets = {0.04: 10, 0.06: 60, 0.1: 95, 0.25: 100}

    def family(name: str, total: float) -> str:
        label = f'engine="0",model_name="{model}"'
        rows = [f'{name}_bucket{{{label},le="{e}"}} {n * scale}' for e, n in buckets.items()]
        rows += [
            f'{name}_bucket{{{label},le="+Inf"}} {100 * scale}',
            f"{name}_sum{{{label}}} {total * scale}",
            f"{name}_count{{{label}}} {100 * scale}",
        ]
        return "\n".join([f"# TYPE {name} histogram", *rows]) + "\n"

    info = 'vllm:cache_config_info{block_size="16",num_gpu_blocks="4096",engine="0"} 1.0\n'
    lengths = "".join(
        f'vllm:{name}_bucket{{model_name="{model}",le="+Inf"}} {100 * scale}\n'
        f'vllm:{name}_sum{{model_name="{model}"}} {mean * 100 * scale}\n'
        for name, mean in (("request_prompt_tokens", 40), ("request_generation_tokens", 5))
    )
    return (
        info
        + family("vllm:time_to_first_token_seconds", 5.5)
        + family("vllm:time_per_output_token_seconds", 3.0)
        + family("vllm:e2e_request_latency_seconds", 17.5)
        + lengths
    )


def prometheus(folder: Path) -> Path:
    """Scrape of vLLM."""
    return written(folder / "metrics.prom", exposition())


def otlp_content(requests: tuple[Served, ...] = REQUESTS) -> dict[str, Any]:
    """Spans of vLLM in OTLP's JSON, and one span of other work."""

    def attribute(key: str, value: object) -> dict[str, Any]:
        kind = {"int": "intValue", "float": "doubleValue", "str": "stringValue"}
        name = kind[type(value).__name__]
        return {"key": key, "value": {name: str(value) if name == "intValue" else value}}

    def span(i: int, r: Served) -> dict[str, Any]:
        attributes = [
            attribute("gen_ai.usage.prompt_tokens", r.n_in),
            attribute("gen_ai.usage.completion_tokens", r.n_out),
            attribute("gen_ai.latency.time_in_queue", 0.002),
            attribute("gen_ai.latency.time_to_first_token", 0.03 if r.failed else r.ttft),
            attribute("gen_ai.latency.e2e", 0.04 if r.failed else r.e2e),
            attribute("gen_ai.request.id", f"cmpl-{i}"),
            attribute("gen_ai.response.model", "tiny"),
        ]
        return {
            "name": "llm_request",
            "startTimeUnixNano": str(round((UNIX + r.send) * 1e9)),
            "endTimeUnixNano": str(round((UNIX + r.last + 0.0405) * 1e9)),
            "attributes": attributes,
            "status": {"code": 2} if r.failed else {},
        }

    other = {"name": "tokenize", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    spans = [*(span(i, r) for i, r in enumerate(requests)), {**other, "attributes": []}]
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}


def otlp(folder: Path) -> Path:
    """Spans in OTLP's JSON."""
    return written(folder / "spans.json", otlp_content())


def step_line(
    i: int, prefills: int, tokens: int, decodes: int, ms: float, prefix: str | None = None
) -> str:
    """One line of vLLM's log of iterations."""
    start = f"INFO 11-29 13:09:{i % 60:02d} [loggers.py:257] " if prefix is None else prefix
    return (
        f"{start}Engine 000: Iteration({i}): {prefills} context requests, {tokens} context tokens, "
        f"{decodes} generation requests, {decodes} generation tokens, iteration elapsed time: "
        f"{ms:.2f} ms, GPU KV cache usage: {i / 10:.1f}%"
    )


STEPS = ((1, 59, 0, 41.02), (0, 0, 1, 14.86), (1, 81, 1, 77.7), (0, 0, 2, 15.5))


def step_log(folder: Path) -> Path:
    """vLLM's log with lines of iterations among others."""
    start = "INFO 11-29 13:09:00 [api_server.py:1] Starting vLLM\n"
    rows = [step_line(i, *step) for i, step in enumerate(STEPS, start=1)]
    return written(folder / "vllm.log", start + "\n".join(rows) + "\n")


def step_csv(folder: Path) -> Path:
    """Steps in this project's CSV."""
    header = "log_time_us,iteration,context_requests,context_tokens,generation_requests,"
    header += "generation_tokens,elapsed_ms,kv_usage_pct\n"
    rows = [f"{i * 1000},{i},{p},{n},{d},{d},{ms},0.5" for i, (p, n, d, ms) in enumerate(STEPS)]
    return written(folder / "steps.csv", header + "\n".join(rows) + "\n")


def azure(folder: Path) -> Path:
    """Azure's trace of 2023, not in order."""
    rows = [
        "2023-11-16 18:15:46.6805900,374,44",
        "2023-11-16 18:15:50.9951690,396,109",
        "2023-11-16 18:15:46.7805900,81,0",
    ]
    return written(
        folder / "conv.csv", "\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n"
    )


def burstgpt(folder: Path) -> Path:
    """BurstGPT with a failure."""
    names = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
    rows = ["5,ChatGPT,472,18,490,Conversation log", "45,ChatGPT,81,0,81,API log"]
    return written(folder / "BurstGPT_1.csv", "\n".join([names, *rows]) + "\n")


def arrivals_table(folder: Path) -> Path:
    """Arrivals and lengths."""
    text = "arrival_ms,n_in,n_out\n0,40,5\n100,81,4\n250,7,3\n"
    return written(folder / "workload.csv", text)


def mooncake(folder: Path) -> Path:
    """Mooncake's trace: two prompts of one conversation and a third that shares its start."""
    records = [
        {"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]},
        {"timestamp": 77.7, "input_length": 2100, "output_length": 4, "hash_ids": [0, 1, 3, 4, 5]},
        {"timestamp": 250, "input_length": 1600, "output_length": 3, "hash_ids": [0, 6, 7, 8]},
        {"timestamp": 300, "input_length": 81, "output_length": 3, "hash_ids": [9]},
    ]
    return lines(folder / "trace.jsonl", records)


def servegen(folder: Path) -> Path:
    """Pool of two of ServeGen's clients."""
    pool = folder / "m-small"
    for client, rate in ((0, 2.0), (1, 0.777)):
        rows = [f"{t},{rate},1.0,Gamma,1.0,{1 / rate}" for t in range(0, 1800, 600)]
        written(pool / f"chunk-{client}-trace.csv", "\n".join(rows) + "\n")
        laws = {"input_tokens": "{40: 0.5, 81: 0.5}", "output_tokens": "{5: 1.0}"}
        written(pool / f"chunk-{client}-dataset.json", {"0": laws})
    return pool


def own_trace(folder: Path) -> Path:
    """TraceV2."""
    rows = [plain("a", 0), plain("b", 81_000)]
    written(folder / "own" / "header.yaml", HEADER)
    written(folder / "own" / "requests.csv", "\n".join([",".join(NAMES), *rows]) + "\n")
    return folder / "own"


def experiment(folder: Path) -> Path:
    """Experiment."""
    text = (
        "id: x\n"
        "deployment: {model: llama-3.1-8b, gpu: h100-sxm}\n"
        "workload:\n"
        "  prompt_tokens: 40\n"
        "  output_tokens: 5\n"
        "  stages: [{rate_rps: 8, duration_s: 30}]\n"
        "observed: [{stage: 0, requests: 240, latency_ms: {ttft: {mean: 77.7}}}]\n"
    )
    return written(folder / "run.yaml", text)


MAKERS: Mapping[str, Callable[[Path], Path]] = {
    "tracev2": own_trace,
    "experiment": experiment,
    "vllm-bench": bench,
    "vllm-bench-table": bench_table,
    "inference-perf": inference_perf,
    "guidellm": guidellm,
    "guidellm-csv": guidellm_csv,
    "aiperf": aiperf,
    "genai-perf": genai_perf,
    "genai-perf-records": genai_records,
    "llmservingsim": llmservingsim,
    "prometheus": prometheus,
    "otlp": otlp,
    "vllm-steps": step_log,
    "steps-csv": step_csv,
    "azure": azure,
    "burstgpt": burstgpt,
    "mooncake": mooncake,
    "servegen": servegen,
    "arrivals-csv": arrivals_table,
}
