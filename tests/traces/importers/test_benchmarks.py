"""Traps of the benchmark tools' files."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tailcast.errors import InputError
from tailcast.traces.importers.imported import Imported
from tailcast.traces.importers.reading import read_any
from tailcast.traces.run_summary import RunSummary, Stage
from tailcast.traces.token_times import token_gaps
from tailcast.traces.trace_latencies import trace_latencies
from tailcast.traces.tracev2 import Trace
from traces.tool_files import (
    MONOTONIC,
    OK,
    aiperf_content,
    bench_content,
    bench_summary,
    each_content,
    genai_perf_content,
    genai_perf_csv,
    genai_records_content,
    guidellm_content,
    guidellm_metrics,
    lines,
    otlp_content,
    stage_content,
    written,
)


def runs_of(found: Imported) -> tuple[RunSummary, ...]:
    """Statistics of a result."""
    assert isinstance(found.content, tuple)
    return found.content


def stage_of(found: Imported) -> Stage:
    """The only stage of a result."""
    (run,) = runs_of(found)
    (stage,) = run.stages
    return stage


def said(found: Imported) -> str:
    """All notes."""
    return " | ".join(found.notes)


def trace_of(found: Imported) -> Trace:
    """Trace of a result."""
    assert isinstance(found.content, Trace)
    return found.content


# vllm bench serve


def test_a_first_gap_inside_itl_is_named_and_taken_out(tmp_path: Path) -> None:
    content = bench_content()
    content["itls"][1] = [content["ttfts"][1], *content["itls"][1]]
    found = read_any(written(tmp_path / "b.json", content))
    (fault,) = found.faults
    assert (fault.kind, fault.column, fault.severe) == ("first gap", "itls[1]", True)
    assert found.token_times is not None
    gaps = token_gaps(found.token_times)[1]
    assert gaps == pytest.approx([g for r in OK for g in r.gaps])


def test_ttft_over_e2e_is_named_with_its_row_and_enters_no_latency(tmp_path: Path) -> None:
    content = guidellm_content()
    timings = content["benchmarks"][0]["requests"]["successful"][1]["info"]["timings"]
    timings["first_token_iteration"] = timings["last_token_iteration"] + 0.5
    found = read_any(written(tmp_path / "g.json", content))
    (fault,) = found.faults
    assert str(fault) == "g.json [requests ttft[1]]: TTFT exceeds E2E by 500 ms"
    trace = trace_of(found)
    assert trace["status"].tolist() == ["ok", "error", "ok", "error"]
    assert trace["error_message"][1] == "times out of order"
    assert found.counts["times out of order (kept as errors)"] == 1


def test_merged_chunks_are_counted_into_the_widest_gaps(tmp_path: Path) -> None:
    gaps = [0.01] * 29 + [0.02] + [0.01] * 10
    content = bench_content(OK[:1])
    content |= {"itls": [gaps], "output_lens": [42], "latencies": [0.05 + sum(gaps)]}
    found = read_any(written(tmp_path / "b.json", content))
    assert "events with several tokens" in said(found)
    assert found.token_times is not None
    assert found.token_times.n_tokens[30] == 2
    assert token_gaps(found.token_times)[1] == pytest.approx(np.full(41, 0.01))


def test_chunks_that_are_no_tokens_are_refused_as_itl_but_not_as_tpot(tmp_path: Path) -> None:
    content = bench_content(OK)
    content["output_lens"] = [50, 40, 30]
    found = read_any(written(tmp_path / "b.json", content))
    assert found.token_times is None
    assert "gaps between events are refused as ITL" in said(found)
    (fault,) = found.faults
    assert str(fault) == "b.json [requests events[0]]: 5 events for 50 tokens (in 3 rows)"
    tpot = trace_latencies(trace_of(found)).tpot
    assert tpot == pytest.approx(
        [sum(r.gaps) / (n - 1) for r, n in zip(OK, (50, 40, 30), strict=True)]
    )


def test_a_wait_in_the_client_is_lateness_not_ttft(tmp_path: Path) -> None:
    content = bench_content()
    content["queue_times"] = [0.0, 0.5, 0.25, 0.0]
    found = read_any(written(tmp_path / "b.json", content))
    latencies = trace_latencies(trace_of(found))
    assert sorted(latencies.lateness) == pytest.approx([0, 0, 0.25, 0.5])
    assert sorted(latencies.ttft[latencies.counted]) == pytest.approx(sorted(r.ttft for r in OK))
    assert "waited up to 0.5 s in the client" in said(found)


def test_lists_of_different_lengths_are_refused(tmp_path: Path) -> None:
    content = bench_content()
    del content["ttfts"][2]
    with pytest.raises(InputError, match="ttfts has 3 entries, start_times has 4"):
        read_any(written(tmp_path / "b.json", content))


def test_a_summary_is_in_seconds_and_its_arrivals_are_the_tools(tmp_path: Path) -> None:
    found = read_any(written(tmp_path / "b.json", bench_summary(burstiness=0.25)))
    stage = stage_of(found)
    assert stage.value("ttft", "mean") == pytest.approx(np.mean([r.ttft for r in OK]))
    assert stage.value("itl", "p50") == pytest.approx(np.median([g for r in OK for g in r.gaps]))
    assert stage.value("e2e", "p99") == pytest.approx(np.quantile([r.e2e for r in OK], 0.99))
    assert stage.arrivals == {"process": "gamma", "cv": 2.0}
    assert (stage.rate, stage.n_requests, stage.duration) == (8.0, 3, 3 / 8)
    assert (stage.input_tokens.mean, stage.output_tokens.mean) == (128 / 3, 4.0)


def test_everything_at_once_is_a_closed_loop_of_all(tmp_path: Path) -> None:
    stage = stage_of(read_any(written(tmp_path / "b.json", bench_summary(request_rate="inf"))))
    assert (stage.concurrency, math.isnan(stage.rate)) == (3, True)
    capped = bench_summary(request_rate="inf", max_concurrency=2)
    assert stage_of(read_any(written(tmp_path / "b.json", capped))).concurrency == 2
    both = read_any(written(tmp_path / "b.json", bench_summary(max_concurrency=2)))
    assert "the limit is left out" in said(both)


def test_several_results_in_one_file_are_groups_or_runs(tmp_path: Path) -> None:
    later = bench_content()
    later["start_times"] = [t + 100 for t in later["start_times"]]
    trace = trace_of(read_any(lines(tmp_path / "b.json", [bench_content(), later])))
    assert trace["group"].tolist() == [0] * 4 + [1] * 4
    found = read_any(lines(tmp_path / "s.json", [bench_summary(), bench_summary()]))
    assert len(runs_of(found)) == 2
    with pytest.raises(InputError, match="split them"):
        read_any(lines(tmp_path / "m.json", [bench_content(), bench_summary()]))


def test_every_request_without_start_times_gives_exact_statistics(tmp_path: Path) -> None:
    content = bench_content()
    del content["start_times"]
    found = read_any(written(tmp_path / "b.json", content))
    stage = stage_of(found)
    assert stage.value("tpot", "mean") == pytest.approx(
        np.mean([sum(r.gaps) / len(r.gaps) for r in OK])
    )
    assert stage.output_tokens.values is not None
    assert stage.output_tokens.values.tolist() == [5, 4, 3]
    assert "no start times" in said(found)


def test_tpot_with_the_first_token_is_replaced_and_half_gaps_refused(tmp_path: Path) -> None:
    same: dict[str, Any] = {
        "total_output_tokens": 300,
        "mean_ttft_ms": 500.0,
        "mean_e2el_ms": 1490.0,
    }
    included = bench_summary(**same, mean_tpot_ms=14.9, mean_itl_ms=5.0)
    found = read_any(written(tmp_path / "b.json", included))
    stage = stage_of(found)
    assert stage.value("tpot", "mean") == pytest.approx(0.01)
    assert "includes the first token" in said(found)
    assert not any(o.metric == "itl" for o in stage.observed)
    assert [fault.kind for fault in found.faults] == ["doubled"]


def test_quantiles_out_of_order_are_named(tmp_path: Path) -> None:
    found = read_any(written(tmp_path / "b.json", bench_summary(p99_ttft_ms=1.0)))
    assert str(found.faults[0]).startswith("b.json [result ttft_ms]: p99 (1 ms) is below p50")


# inference-perf


def test_the_servers_count_beats_the_request_and_the_request_beats_the_text(tmp_path: Path) -> None:
    def read(change: Any) -> Imported:
        content = each_content(OK)
        for entry in content:
            change(entry)
        return read_any(written(tmp_path / "per_request_lifecycle_metrics.json", content))

    def untold(entry: Any) -> None:
        entry["info"]["response_metrics"]["server_usage"] = None

    def unasked(entry: Any) -> None:
        untold(entry)
        entry["request"] = "{}"

    assert trace_of(read(lambda _: None))["output_tokens"].tolist() == [5, 4, 3]
    asked = read(untold)
    assert trace_of(asked)["output_tokens"].tolist() == [5, 4, 3]
    assert "lengths are those asked for (ignore_eos)" in said(asked)
    client = read(unasked)
    assert trace_of(client)["output_tokens"].tolist() == [7, 6, 5]
    assert "re-tokenised text" in said(client)
    assert any("counted again from the text" in str(fault) for fault in client.faults)


def doubled(n: int, seed: int) -> list[float]:
    """Times of a client that logs two events a token, the second at once after the first."""
    rng = np.random.default_rng(seed)
    tokens = 0.05 + np.cumsum(rng.uniform(0.018, 0.022, n))
    return np.sort(np.append(tokens, tokens + 1e-5)).tolist()


def test_doubled_events_are_noticed_and_undone(tmp_path: Path) -> None:
    content = []
    for i in range(3):
        events = doubled(30, i)
        content.append(
            {
                "start_time": MONOTONIC + i,
                "end_time": MONOTONIC + i + events[-1],
                "request": json.dumps({"max_tokens": 30, "ignore_eos": True}),
                "info": {
                    "input_tokens": 40,
                    "output_tokens": 24,  # of the text, tokenised again
                    "output_token_times": [MONOTONIC + i + t for t in events],
                },
                "error": None,
            }
        )
    found = read_any(written(tmp_path / "per_request_lifecycle_metrics.json", content))
    assert "3 answers logged two events a token" in said(found)
    assert found.token_times is not None
    gaps = token_gaps(found.token_times)[1]
    assert len(gaps) == 3 * 29
    assert gaps.min() > 0.017  # negative control: half of the raw gaps are 10 us
    raw = np.diff(doubled(30, 0))
    assert np.median(raw) < 0.017
    # (e2e - ttft)/(n - 1) is twice the mean of the raw gaps
    tpot = trace_latencies(trace_of(found)).tpot
    assert tpot[0] == pytest.approx(2 * raw.mean(), rel=0.05)


def test_a_folder_has_stages_as_groups_by_their_sizes(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    late = [
        {**e, **{k: e[k] + 60 for k in ("start_time", "end_time")}} for e in each_content(OK[:2])
    ]
    for entry in late:
        answer = entry["info"]["response_metrics"]
        for key in ("chunk_times", "output_token_times"):
            answer[key] = [t + 60 for t in answer[key]]
    written(folder / "per_request_lifecycle_metrics.json", [*late, *each_content(OK)])
    for i, n in enumerate((3, 2)):
        report = stage_content(n)
        report["load_summary"]["count"] = n
        written(folder / f"stage_{i}_lifecycle_metrics.json", report)
    found = read_any(folder)
    assert trace_of(found)["group"].tolist() == [0, 0, 0, 1, 1]
    (folder / "stage_1_lifecycle_metrics.json").unlink()
    fault = next(f for f in read_any(folder).faults if f.kind == "count")
    assert "5 requests, but the stages had 3" in fault.message


def test_normalised_time_by_token_is_refused_and_stages_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    for i in (0, 1, 10):
        written(folder / f"stage_{i}_lifecycle_metrics.json", stage_content(rate=8.0 + i))
    found = read_any(folder)
    (run,) = runs_of(found)
    assert [stage.rate for stage in run.stages] == [8.0, 9.0, 18.0]
    assert run.stages[0].value("ttft", "p99.9") == 0.0899
    assert run.stages[0].value("itl", "p99") == 0.03
    assert "no TPOT; refused" in said(found)


def test_tpot_in_other_tokens_than_the_servers_is_refused(tmp_path: Path) -> None:
    report = stage_content()
    report["successes"]["output_tokens"] = {"total": 15, "mean": 5.0, "min": 4, "max": 6}
    found = read_any(written(tmp_path / "stage_0_lifecycle_metrics.json", report))
    stage = stage_of(found)
    assert "counted in re-tokenised text, 20% off; refused" in said(found)
    assert stage.value("tpot", "mean") == pytest.approx(0.06 / 4)
    assert math.isnan(stage.value("tpot", "p90"))


def test_late_sending_of_a_stage_is_a_note(tmp_path: Path) -> None:
    report = stage_content()
    report["load_summary"]["schedule_delay"]["p99"] = 0.3
    (fault,) = read_any(written(tmp_path / "stage_0_lifecycle_metrics.json", report)).faults
    assert (fault.kind, fault.severe) == ("late client", False)
    assert "over 300 ms late" in fault.message


# guidellm


def test_guidellms_tpot_and_itl_are_unlike_and_refused(tmp_path: Path) -> None:
    found = read_any(guidellm_metrics(tmp_path))
    stage = stage_of(found)
    assert {o.metric for o in stage.observed} == {"ttft", "e2e", "tpot"}
    # 37.5 ms is E2E by token and 30 ms a mean weighted by tokens; the contract's is of the means.
    assert stage.value("tpot", "mean") == pytest.approx((0.15 - 0.06) / 3)
    assert "includes the first token; refused" in said(found)
    assert "weighted by tokens" in said(found)
    assert stage.value("e2e", "p99") == pytest.approx(0.225)  # in seconds, TTFT in ms
    assert stage.value("ttft", "p99") == pytest.approx(0.090)
    assert (stage.rate, stage.n_failed) == (8.0, 1)


def test_the_older_layout_and_a_closed_loop_are_read(tmp_path: Path) -> None:
    request = {
        "prompt_tokens": 40,
        "output_tokens": 5,
        "start_time": 1_795_957_752.0,
        "end_time": 1_795_957_752.2,
        "first_token_time": 1_795_957_752.05,
        "last_token_time": 1_795_957_752.15,
    }
    later = {k: v + 1 if k.endswith("_time") else v for k, v in request.items()}
    content = {
        "benchmarks": [
            {
                "type_": "generative_benchmark",
                "args": {"strategy": {"type_": "synchronous"}},
                "requests": {"successful": [request, later], "incomplete": [], "errored": []},
            }
        ]
    }
    latencies = trace_latencies(trace_of(read_any(written(tmp_path / "g.json", content))))
    assert latencies.ttft == pytest.approx([0.05, 0.05], abs=1e-6)
    assert latencies.e2e == pytest.approx([0.15, 0.15], abs=1e-6)


def test_a_report_that_keeps_a_part_of_its_requests_says_so(tmp_path: Path) -> None:
    content = guidellm_content()
    content["benchmarks"][0]["metrics"]["request_totals"]["successful"] = 240
    (fault,) = read_any(written(tmp_path / "g.json", content)).faults
    assert "3 successful requests of 240" in fault.message
    assert not fault.severe


# aiperf and genai-perf


def test_units_are_the_files_own_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    records = aiperf_content(OK)
    records[0]["metrics"]["time_to_first_token"] = {"value": 50_000, "unit": "us"}
    latencies = trace_latencies(trace_of(read_any(lines(tmp_path / "p.jsonl", records))))
    assert latencies.ttft[0] == pytest.approx(0.05)
    records[0]["metrics"]["time_to_first_token"]["unit"] = "tokens"
    with pytest.raises(InputError, match=r"p\.jsonl:1 metrics time_to_first_token: unit 'tokens'"):
        read_any(lines(tmp_path / "p.jsonl", records))


def test_aiperfs_own_count_is_compared_with_the_servers(tmp_path: Path) -> None:
    found = read_any(lines(tmp_path / "p.jsonl", aiperf_content(OK)))
    assert "own count of the text is +25.0% off" in said(found)
    records = aiperf_content(OK)
    for record in records:
        record["metrics"].pop("usage_completion_tokens")
    assert "re-tokenised text" in said(read_any(lines(tmp_path / "p.jsonl", records)))


def test_warm_up_and_cancelled_records_are_told_apart(tmp_path: Path) -> None:
    records = aiperf_content()
    records[0]["metadata"]["benchmark_phase"] = "warmup"
    records[3]["metadata"]["was_cancelled"] = True
    found = read_any(lines(tmp_path / "p.jsonl", records))
    assert found.counts["records of the warm-up, left out"] == 1
    assert trace_of(found)["status"].tolist() == ["ok", "ok", "incomplete"]


def test_genai_perfs_itl_is_the_contracts_tpot(tmp_path: Path) -> None:
    found = read_any(written(tmp_path / "g.json", genai_perf_content()))
    stage = stage_of(found)
    assert stage.value("tpot", "mean") == pytest.approx(0.025)
    assert math.isnan(stage.value("itl", "mean"))
    assert "taken as TPOT" in said(found)
    assert "time to second token is no like quantity; refused" in said(found)
    assert (stage.concurrency, stage.n_requests) == (4, 240)
    assert runs_of(found)[0].server.model == "tiny"
    told = genai_perf_content(usage_completion_tokens={"unit": "tokens", "avg": 6.0})
    refused = read_any(written(tmp_path / "g.json", told))
    assert "17% off; refused" in said(refused)
    assert stage_of(refused).value("tpot", "mean") == pytest.approx(0.1 / 5)


def test_the_csv_has_its_units_in_names_and_its_thousands_with_commas(tmp_path: Path) -> None:
    stage = stage_of(read_any(genai_perf_csv(tmp_path)))
    assert stage.value("e2e", "mean") == pytest.approx(1.0777)
    assert stage.value("ttft", "p99") == pytest.approx(0.150)
    assert stage.value("tpot", "p50") == pytest.approx(0.250)
    assert (stage.rate, stage.rate_is_offered, stage.n_requests) == (8.0, False, 240)


def test_an_empty_role_chunk_is_no_first_token(tmp_path: Path) -> None:
    content = genai_records_content()
    found = read_any(written(tmp_path / "profile_export.json", content))
    assert trace_latencies(trace_of(found)).ttft == pytest.approx([r.ttft for r in OK], abs=1e-6)
    entry = content["experiments"][0]["requests"][0]
    entry["response_outputs"] = entry["response_outputs"][:-1]
    with pytest.raises(InputError, match="7 response_timestamps for 6 response_outputs"):
        read_any(written(tmp_path / "profile_export.json", content))


# OpenTelemetry


def test_spans_of_other_work_are_counted_and_left_out(tmp_path: Path) -> None:
    found = read_any(written(tmp_path / "s.json", otlp_content()))
    assert found.counts["spans that are no request, left out"] == 1
    assert trace_of(found).header.server.model == "tiny"
    other = otlp_content(())
    with pytest.raises(InputError, match="no span has gen_ai"):
        read_any(written(tmp_path / "s.json", other))


def test_latencies_in_nanoseconds_are_refused(tmp_path: Path) -> None:
    content = otlp_content()
    spans = content["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans[1]["attributes"][3]["value"]["doubleValue"] = 6e7
    with pytest.raises(InputError, match=r"spans\[1\]: TTFT 6e\+07 in a span of .*not in seconds"):
        read_any(written(tmp_path / "s.json", content))


def test_a_queue_longer_than_ttft_is_a_fault(tmp_path: Path) -> None:
    content = otlp_content()
    spans = content["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans[1]["attributes"][2]["value"]["doubleValue"] = 0.5
    (fault,) = read_any(lines(tmp_path / "s.jsonl", [content])).faults
    assert str(fault) == "s.jsonl [spans[1]]: 0.5 s in the queue, but TTFT 0.06 s"
