"""The commands trace show, check, convert and formats."""

import json
from pathlib import Path

import pytest

from cli.conftest import Run
from traces.tool_files import (
    MAKERS,
    bench,
    bench_content,
    bench_summary,
    exposition,
    guidellm_content,
    llmservingsim,
    step_log,
    written,
)
from traces.trace_files import HEADER, NAMES, plain

SERVED = ("--model", "llama-3.1-8b", "--gpu", "h100-sxm")


@pytest.mark.parametrize("name", list(MAKERS))
def test_every_format_is_shown_in_every_rendering(tailcast: Run, tmp_path: Path, name: str) -> None:
    path = MAKERS[name](tmp_path)
    code, out, err = tailcast("trace", "show", path)
    assert code == 0
    assert "nan" not in out.lower()
    assert out.splitlines()[0]
    if name not in {"tracev2"}:
        assert f"{name}; " in err
    for style in ("json", "csv", "markdown"):
        assert tailcast("trace", "show", path, "--format", style)[0] == 0
    _, out, _ = tailcast("trace", "show", path, "--format", "json")
    assert json.loads(out)["format"] == name


@pytest.mark.parametrize("name", list(MAKERS))
def test_no_format_has_faults_where_there_are_none(
    tailcast: Run, tmp_path: Path, name: str
) -> None:
    code, out, _ = tailcast("trace", "check", MAKERS[name](tmp_path))
    assert code == 0
    assert "no faults" in out or "0 faults" in out


def test_show_says_what_was_done_to_the_numbers(tailcast: Run, tmp_path: Path) -> None:
    _, out, err = tailcast("trace", "show", llmservingsim(tmp_path))
    assert "3 requests (3 ok)" in out
    assert "ttft ms" in out
    assert "note: TTFT counts from arrival" in err
    _, _, quiet = tailcast("-q", "trace", "show", llmservingsim(tmp_path))
    assert quiet == ""


def test_show_has_bounds_where_only_buckets_are_known(tailcast: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "m.prom", exposition())
    _, out, _ = tailcast("trace", "show", path, "--format", "csv")
    assert "metrics" not in out.splitlines()[0]
    assert "m,scrape,100,ttft,55,40..60,60..100,60..100,100..250" in out.splitlines()


def test_show_tells_how_much_steps_tell(tailcast: Run, tmp_path: Path) -> None:
    _, out, _ = tailcast("trace", "show", step_log(tmp_path))
    assert "4 steps in 1 segments" in out
    assert "effective number of steps" in out
    assert "mixed" in out


@pytest.mark.parametrize(
    ("name", "ending"),
    [("vllm-bench", ".svg"), ("vllm-steps", ".png"), ("prometheus", ".svg"), ("azure", ".png")],
)
def test_plots_are_drawn_and_the_same_each_time(
    tailcast: Run, tmp_path: Path, name: str, ending: str
) -> None:
    pytest.importorskip("matplotlib")
    path, plot = MAKERS[name](tmp_path), tmp_path / f"plot{ending}"
    assert tailcast("trace", "show", path, "--plot", plot)[0] == 0
    first = plot.read_bytes()
    assert len(first) > 5000
    assert tailcast("trace", "show", path, "--plot", plot)[0] == 0
    assert plot.read_bytes() == first


def test_a_plot_that_cannot_be_drawn_is_a_usage_error(tailcast: Run, tmp_path: Path) -> None:
    path = bench(tmp_path)
    code, _, err = tailcast("trace", "show", path, "--plot", tmp_path / "plot.doc")
    assert (code, "a plot ends in .svg" in err) == (2, True)
    code, _, err = tailcast("trace", "show", path, "--plot", tmp_path / "no" / "p.svg")
    assert (code, "cannot be written" in err) == (2, True)


# check: faults with row and column, exit 1


def test_ttft_over_e2e_and_counts_that_disagree_are_named(tailcast: Run, tmp_path: Path) -> None:
    content = guidellm_content()
    timings = content["benchmarks"][0]["requests"]["successful"][2]["info"]["timings"]
    timings["last_token_iteration"] = timings["first_token_iteration"] - 0.01
    code, out, _ = tailcast("trace", "check", written(tmp_path / "g.json", content))
    assert code == 1
    assert "fault  g.json [requests ttft[2]]: TTFT exceeds E2E by 10 ms" in out
    content = bench_content()
    content["output_lens"] = [50, 40, 30, 0]
    code, out, _ = tailcast("trace", "check", written(tmp_path / "b.json", content))
    assert code == 1
    assert "[requests events[0]]: 5 events for 50 tokens (in 3 rows)" in out


def test_a_first_gap_inside_itl_is_named(tailcast: Run, tmp_path: Path) -> None:
    content = bench_content()
    content["itls"][1] = [content["ttfts"][1], *content["itls"][1]]
    path = written(tmp_path / "b.json", content)
    code, out, _ = tailcast("trace", "check", path, "--format", "json")
    (fault,) = json.loads(out)["faults"]
    assert code == 1
    assert (fault["kind"], fault["column"]) == ("first gap", "itls[1]")


def test_mixed_clocks_and_what_cannot_be_read_are_faults(tailcast: Run, tmp_path: Path) -> None:
    content = bench_content()
    content["start_times"][1] += 1.79e9
    code, out, _ = tailcast("trace", "check", written(tmp_path / "b.json", content))
    assert code == 1
    assert "requests arrival[1] 1.79003e+09 s: mixed clocks" in out
    text = json.dumps(bench_content())
    code, out, _ = tailcast("trace", "check", written(tmp_path / "cut.json", text[:-200]))
    assert code == 1
    assert "fault  cut.json: not valid JSON" in out
    code, out, _ = tailcast("trace", "check", written(tmp_path / "empty.json", ""))
    assert (code, "fault  empty.json: empty file" in out) == (1, True)
    _, out, _ = tailcast("trace", "check", tmp_path / "empty.json", "--format", "csv")
    assert out.splitlines()[1] == "yes,unreadable,empty.json,,,1,empty file"


def test_quantiles_out_of_order_are_a_fault(tailcast: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "s.json", bench_summary(p99_ttft_ms=1.0))
    code, out, _ = tailcast("trace", "check", path)
    assert code == 1
    assert "p99 (1 ms) is below p50" in out


def test_a_trace_of_ones_own_is_checked_as_before(tailcast: Run, tmp_path: Path) -> None:
    rows = [plain("a", 0), plain("a", 90_000)]
    written(tmp_path / "t" / "header.yaml", HEADER)
    written(tmp_path / "t" / "requests.csv", "\n".join([",".join(NAMES), *rows]) + "\n")
    code, out, _ = tailcast("trace", "check", tmp_path / "t")
    assert code == 1
    assert "requests.csv:3 [request_id]: request_id 'a' is there twice" in out


def test_an_unknown_or_absent_file_is_no_fault_but_bad_input(tailcast: Run, tmp_path: Path) -> None:
    code, out, err = tailcast("trace", "check", written(tmp_path / "a.txt", "hello\n"))
    assert (code, out) == (3, "")
    assert "known: tracev2, experiment" in err
    assert tailcast("trace", "check", tmp_path / "none")[0] == 3


# convert


def test_a_converted_trace_is_shown_and_replayed(tailcast: Run, tmp_path: Path) -> None:
    out = tmp_path / "trace"
    code, stdout, err = tailcast("trace", "convert", bench(tmp_path), "-o", out, *SERVED)
    assert (code, stdout) == (0, "")
    assert f"(vllm-bench) is in {out}" in err
    assert tailcast("trace", "check", out)[0] == 0
    code, stdout, _ = tailcast("trace", "show", out, "--format", "json")
    assert json.loads(stdout)["n_request"] == 4
    code, stdout, err = tailcast("replay", out, "--latency-model", "roofline", "--format", "json")
    assert code == 0
    found = {(r["metric"], r["statistic"]): r for r in json.loads(stdout)["results"]}
    assert found["ttft", "mean"]["observed"] == pytest.approx(0.0625666, abs=1e-6)


@pytest.mark.parametrize("name", ["azure", "burstgpt", "mooncake", "servegen", "arrivals-csv"])
def test_a_workload_is_replayed(tailcast: Run, tmp_path: Path, name: str) -> None:
    out = tmp_path / "trace"
    path = MAKERS[name](tmp_path)
    flags = ("--window", "0s..60s") if name == "servegen" else ()
    assert tailcast("trace", "convert", path, "-o", out, *flags)[0] == 0
    code, stdout, _ = tailcast("replay", out, *SERVED, "--latency-model", "roofline")
    assert code == 0
    assert "requests completed" in stdout


def test_an_experiment_is_written_by_flags(tailcast: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "m.prom", exposition())
    target = tmp_path / "x.yaml"
    code, _, err = tailcast("trace", "convert", path, "-o", target, "--to", "experiment", *SERVED)
    assert (code, "give --rate" in err) == (2, True)
    flags = ("--to", "experiment", "--rate", 8, "-tp", 2)
    assert tailcast("trace", "convert", path, "-o", target, *flags, *SERVED)[0] == 0
    code, out, _ = tailcast("trace", "show", target)
    assert code == 0
    assert "8/s" in out


def test_flags_that_mean_nothing_end_in_one_line(tailcast: Run, tmp_path: Path) -> None:
    path = bench(tmp_path)
    for flags, code, message in (
        (("--clock", "queued"), 2, "clock means nothing for vllm-bench"),
        (("--from", "nothing"), 2, "no format 'nothing'"),
        (("--from", "otlp"), 3, "no span has gen_ai"),
        (("--window", "5s"), 2, "has no two ends"),
        (("--window", "5s..2s"), 2, "must run forwards"),
        (("--to", "steps"), 2, "cannot become steps"),
    ):
        found, out, err = tailcast("trace", "convert", path, "-o", tmp_path / "o", *flags)
        assert (found, out) == (code, ""), flags
        assert message in err
        assert len(err.strip().splitlines()) == 1 or "cannot become" in err
        assert not (tmp_path / "o").exists()


def test_formats_are_listed(tailcast: Run) -> None:
    _, out, _ = tailcast("trace", "formats", "--format", "json")
    assert [entry["name"] for entry in json.loads(out)["formats"]] == list(MAKERS)
    assert "vllm-steps" in tailcast("trace", "formats")[1]


def test_real_files_are_shown(tailcast: Run, shared_data: Path) -> None:
    public = shared_data / "public"
    requests = public / "llmservingsim-bench" / "requests_RTXPRO6000__Llama-3.1-8B.csv.gz"
    _, out, _ = tailcast("trace", "show", requests, "--clock", "queued", "--format", "json")
    spreads = {s["quantity"]: s for s in json.loads(out)["spreads"]}
    # The tool's own summary of this run: mean TTFT 7097 ms, TPOT 32.5, E2E 28201.
    assert spreads["ttft"]["mean"] == pytest.approx(7.097, abs=5e-4)
    assert spreads["tpot"]["mean"] == pytest.approx(0.0325, abs=5e-5)
    assert spreads["e2e"]["mean"] == pytest.approx(28.201, abs=5e-4)
    code, out, _ = tailcast(
        "trace", "check", public / "doks-vllm-h200-rates" / "rate_sweeps.csv.gz"
    )
    assert (code, out.strip()) == (0, "no faults")
    code, out, _ = tailcast("trace", "show", shared_data / "cpu_engine_trace" / "quiet")
    assert "300 requests (300 ok)" in out
