"""Workloads without latencies: arrivals, lengths, shared beginnings."""

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailcast.errors import InputError
from tailcast.traces.importers.imported import Imported, ReadOptions
from tailcast.traces.importers.prefix_chains import prefix_streams
from tailcast.traces.importers.reading import read_any
from tailcast.traces.trace_replay import trace_requests
from tailcast.traces.tracev2 import Trace
from traces.tool_files import arrivals_table, azure, burstgpt, lines, mooncake, servegen, written


def trace_of(found: Imported) -> Trace:
    """Trace of a result."""
    assert isinstance(found.content, Trace)
    return found.content


def test_azure_2023_is_sorted_and_whole_to_a_hundred_nanoseconds(tmp_path: Path) -> None:
    found = read_any(azure(tmp_path))
    trace = trace_of(found)
    assert trace["arrival_time"] == pytest.approx([0.0, 0.1, 4.314579], abs=1e-7)
    assert trace["input_tokens"].tolist() == [374, 81, 396]
    assert trace["status"].tolist() == ["ok", "error", "ok"]
    assert found.counts == {"read": 3, "without an answer (kept as errors, not replayed)": 1}
    assert "not in the order of their arrival" in " ".join(found.notes)
    assert trace.header.mode == "generated"


def test_azure_2024_has_zones_which_must_be_one(tmp_path: Path) -> None:
    rows = ["2024-05-10 23:59:59.5+00:00,10,5", "2024-05-11 00:00:00.009930+00:00,10,5"]
    head = "TIMESTAMP,ContextTokens,GeneratedTokens"
    path = written(tmp_path / "a.csv", "\n".join([head, *rows]) + "\n")
    assert trace_of(read_any(path))["arrival_time"][1] == pytest.approx(0.50993, abs=1e-7)
    written(path, "\n".join([head, rows[0], rows[1].replace("+00:00", "+02:00")]) + "\n")
    with pytest.raises(InputError, match=r"a\.csv:3: TIMESTAMP .*mixed time zones"):
        read_any(path)
    written(path, f"{head}\n{rows[0]}\nnoon,1,1\n")
    with pytest.raises(InputError, match=r"a\.csv:3: TIMESTAMP must be a date and time"):
        read_any(path)


def test_burstgpts_failures_and_elapsed_times_enter_no_latency(tmp_path: Path) -> None:
    trace = trace_of(read_any(burstgpt(tmp_path)))
    assert trace["status"].tolist() == ["ok", "error"]
    assert trace["client_id"].tolist() == ["Conversation log", "API log"]
    names = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Log Type"
    text = f"{names}\n0,s,1.5,GPT-4,100,10,Conversation log\n10,s,2,GPT-4,200,20,x\n"
    found = read_any(written(tmp_path / "v2.csv", text))
    trace = trace_of(found)
    assert trace["session_id"].tolist() == ["s", "s"]
    assert trace["last_chunk_time"].tolist() == [1.5, 12.0]
    assert np.isnan(trace["first_chunk_time"]).all()
    assert "of another service" in " ".join(found.notes)


def test_limit_and_window_take_a_part_and_count_the_rest(tmp_path: Path) -> None:
    path = arrivals_table(tmp_path)
    first = read_any(path, options=ReadOptions(limit=2))
    assert trace_of(first)["input_tokens"].tolist() == [40, 81]
    assert "only the first 2 requests" in " ".join(first.notes)
    window = read_any(path, options=ReadOptions(window=(0.05, 0.3)))
    assert trace_of(window)["input_tokens"].tolist() == [81, 7]
    assert trace_of(window)["arrival_time"] == pytest.approx([0.0, 0.15])
    assert window.counts["outside the window, left out"] == 1
    hashed = read_any(mooncake(tmp_path), options=ReadOptions(window=(0.05, 0.26)))
    assert len(trace_of(hashed)) == 2


def test_mooncakes_blocks_become_prefixes_and_contents(tmp_path: Path) -> None:
    found = read_any(mooncake(tmp_path))
    trace = trace_of(found)
    # 1100 = 2 full blocks, 2100 = 4, 1600 = 3, 81 = 0; [0,1], [0,1,3,4], [0,6,7]: 3 of 9 seen
    assert "33.3% of the full ones were seen before, 100.0%" in " ".join(found.notes)
    total = trace["input_tokens"] + trace["prefix_length"]
    assert total.tolist() == [1100, 2100, 1600, 81]
    assert trace["prefix_group"].tolist() == ["prefix_0", "prefix_0", "prefix_0", ""]
    assert trace["prefix_length"].tolist() == [1024, 2048, 512, 0]
    requests = trace_requests(trace)
    assert requests.input_tokens.tolist() == [1100, 2100, 1600, 81]


def test_blocks_that_fit_no_size_are_a_fault_and_no_hashes_mean_unique_prompts(
    tmp_path: Path,
) -> None:
    row = {"timestamp": 0, "input_length": 1100, "output_length": 5}
    odd = read_any(lines(tmp_path / "t.jsonl", [{**row, "hash_ids": [1, 2, 3, 4, 5, 6, 7]}]))
    assert [fault.kind for fault in odd.faults] == ["count"]
    assert trace_of(odd)["prefix_group"].tolist() == [""]
    plain = read_any(lines(tmp_path / "t.jsonl", [row]))
    assert "prompts are taken as unique" in " ".join(plain.notes)


TREES = st.lists(st.lists(st.integers(0, 2), min_size=0, max_size=6), min_size=1, max_size=14)


def cumulative(paths: list[list[int]]) -> list[list[int]]:
    """Blocks whose identity holds for their place, as hashes of prefixes do."""
    known: dict[tuple[int, ...], int] = {}
    return [
        [known.setdefault(tuple(path[: i + 1]), len(known)) for i in range(len(path))]
        for path in paths
    ]


@given(TREES)
@settings(max_examples=150)
def test_streams_never_claim_a_hit_that_is_none(paths: list[list[int]]) -> None:
    blocks = cumulative(paths)
    found = prefix_streams(blocks)
    seen: set[int] = set()
    for row, path in enumerate(blocks):
        assert found.hits[row] == sum(block in seen for block in path)
        seen.update(path)
    assert np.all(found.hits_kept <= found.hits)
    # Equal streams mean equal tokens as far as both reach.
    for i, one in enumerate(blocks):
        for j, other in enumerate(blocks[:i]):
            if found.prefix_stream[i] < 0 or found.prefix_stream[i] != found.prefix_stream[j]:
                continue
            n = min(found.prefix_blocks[i], found.prefix_blocks[j])
            assert one[:n] == other[:n]
            if found.content_stream[i] >= 0 and found.content_stream[i] == found.content_stream[j]:
                n = min(len(one), len(other))
                assert one[:n] == other[:n]


@given(st.lists(st.lists(st.integers(0, 2), max_size=2), min_size=1, max_size=14))
def test_two_levels_of_branching_are_told_exactly(paths: list[list[int]]) -> None:
    found = prefix_streams(cumulative(paths))
    assert found.hits_kept.tolist() == found.hits.tolist()


@pytest.mark.statistical
def test_servegens_clients_have_their_rates_and_lengths(tmp_path: Path) -> None:
    """False alarm under 1e-4 (4 sd of a Poisson count of 5000); a control of half must fail."""
    pool = tmp_path / "pool"
    for client, rate in ((0, 2.0), (1, 0.777)):
        rows = [f"{t},{rate},1.0,Gamma,1.0,{1 / rate}" for t in range(0, 1800, 600)]
        written(pool / f"chunk-{client}-trace.csv", "\n".join(rows) + "\n")
        laws = {"input_tokens": "{40: 0.25, 80: 0.75}", "output_tokens": "{5: 1.0}"}
        written(pool / f"chunk-{client}-dataset.json", {"0": laws})
    trace = trace_of(read_any(pool, options=ReadOptions(window=(0.0, 1800.0), seed=3)))
    n = int((trace["client_id"] == "0").sum())
    assert abs(n - 3600) < 4 * 60
    assert not abs(n - 1800) < 4 * 60
    share = float((trace["input_tokens"] == 80).mean())
    assert abs(share - 0.75) < 4 * (0.75 * 0.25 / len(trace)) ** 0.5
    assert set(trace["output_tokens"].tolist()) == {5}


def test_servegen_is_drawn_by_its_seed_and_counts_clients_without_lengths(tmp_path: Path) -> None:
    pool = servegen(tmp_path)
    one, same = (trace_of(read_any(pool, options=ReadOptions(seed=1))) for _ in range(2))
    assert one["arrival_time"].tolist() == same["arrival_time"].tolist()
    other = trace_of(read_any(pool, options=ReadOptions(seed=2)))
    assert one["arrival_time"].tolist() != other["arrival_time"].tolist()
    (pool / "chunk-1-dataset.json").unlink()
    less = read_any(pool, options=ReadOptions(seed=1))
    mine = one["arrival_time"][one["client_id"] == "0"]
    kept = trace_of(less)["arrival_time"]
    np.testing.assert_allclose(np.diff(kept), np.diff(mine))  # dropping a client moves no other
    assert less.counts["requests of clients without lengths, left out"] == round(0.777 * 600)
    with pytest.raises(InputError, match="no request in the window"):
        read_any(pool, options=ReadOptions(window=(5000.0, 6000.0)))
    written(
        pool / "chunk-1-dataset.json", {"0": {"input_tokens": "open('x')", "output_tokens": ""}}
    )
    with pytest.raises(InputError, match="input_tokens is no histogram"):
        read_any(pool)


def test_real_workloads_are_read(shared_data: Path, tmp_path: Path) -> None:
    public = shared_data / "public"
    code = read_any(public / "workload-azure-llm-2023" / "code.csv.gz")
    trace = trace_of(code)
    assert len(trace) == 8819
    assert np.median(trace["input_tokens"]) == 1469
    gaps = np.diff(trace["arrival_time"])
    assert gaps.std() / gaps.mean() == pytest.approx(13.2, abs=0.1)
    pytest.importorskip("pyarrow")
    found = read_any(public / "workload-mooncake-fast25" / "synthetic.parquet")
    total = trace_of(found)["input_tokens"] + trace_of(found)["prefix_length"]
    assert (len(total), round(total.mean())) == (3993, 15325)
    assert "65.9% of the full ones were seen before, 99.7%" in " ".join(found.notes)


@pytest.mark.statistical
def test_a_real_pool_of_servegen_has_its_measured_rate(shared_data: Path, tmp_path: Path) -> None:
    """The shared copy is one table; its steadiest client is written as ServeGen has it.

    False alarm 6e-5: four standard deviations of a renewal count.
    """
    folder = shared_data / "public" / "workload-servegen"
    with gzip.open(folder / "client_rates.csv.gz", "rt") as file:
        rows = [r for r in csv.DictReader(file) if (r["pool"], r["client"]) == ("m-small", "5")]
    text = [f"{r['t']},{r['rate']},{r['cv']},{r['dist']},{r['p1']},{r['p2']}" for r in rows[:12]]
    written(tmp_path / "chunk-5-trace.csv", "\n".join(text) + "\n")
    laws = {"input_tokens": "{13: 0.5, 14: 0.5}", "output_tokens": "{100: 1.0}"}
    (tmp_path / "chunk-5-dataset.json").write_text(json.dumps({"0": laws}))
    trace = trace_of(read_any(tmp_path, options=ReadOptions(window=(0.0, 60.0))))
    rate, cv = float(rows[0]["rate"]), float(rows[0]["cv"])
    assert abs(len(trace) - 60 * rate) < 4 * cv * (60 * rate) ** 0.5
