"""The command replay, in both modes."""

import csv
import json
from pathlib import Path

import pytest

from cli.conftest import Run
from tailcast.traces.importers.reading import importer
from traces.tool_files import MAKERS
from traces.trace_files import HEADER, NAMES, UNIX, plain, row

SERVER = (
    "server: {model: llama-3.1-8b, accelerator: h100-sxm, max_num_seqs: 256, kv_blocks: 26312}\n"
)
TRACE_A = ((0, 1000, 20), (5000, 300, 40), (12000, 2500, 10), (12000, 64, 1), (60000, 800, 30))
TRACE_A_TIMES = ((24709, 169295), (27279, 310509), (40352, 107802), (40352, 41129), (29819, 234479))


def trace_a(folder: Path, *, header: str = HEADER + SERVER) -> Path:
    """The hand-made trace whose BLIS results are known, as BLIS's header and data files."""
    rows = [
        row(str(i), arrival_time_us=a, send_time_us=a, input_tokens=n, output_tokens=m)
        for i, (a, n, m) in enumerate((*TRACE_A, (200000, 16, 5)))
    ]
    (folder / "a.yaml").write_text(header)
    (folder / "a.csv").write_text("\n".join([",".join(NAMES), *rows]) + "\n")
    return folder / "a"


def times(path: Path) -> list[tuple[int, int]]:
    """TTFT and E2E in microseconds of an exported run."""
    with open(path, encoding="utf-8") as file:
        return [
            (
                int(line["first_chunk_time_us"]) - int(line["arrival_time_us"]),
                int(line["last_chunk_time_us"]) - int(line["arrival_time_us"]),
            )
            for line in csv.DictReader(file)
        ]


def test_mode_blis_gives_the_microseconds_of_blis(tailcast: Run, tmp_path: Path) -> None:
    code, out, err = tailcast(
        "replay", trace_a(tmp_path), "--mode", "blis", "--export", tmp_path / "b"
    )
    assert code == 0
    assert times(tmp_path / "b.csv") == [*TRACE_A_TIMES, (23106, 51792)]
    assert "blis-trained-physics in mode blis: one run, no interval" in out
    assert "26312 KV blocks" in out
    assert "simulated run is in" in err


@pytest.mark.parametrize(
    "flags",
    [
        ("--mode", "blis"),
        ("--mode", "blis", "--latency-model", "roofline"),
        ("--mode", "vllm", "--latency-model", "blis-trained-physics"),
        ("--latency-model", "roofline"),
        ("--posterior", "roofline"),
    ],
)
def test_replaying_an_export_gives_the_same_bytes(
    tailcast: Run, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    assert tailcast("replay", trace_a(tmp_path), *flags, "--export", first)[0] == 0
    assert tailcast("replay", first, *flags, "--export", again)[0] == 0
    for ending in (".yaml", ".csv"):
        assert first.with_suffix(ending).read_bytes() == again.with_suffix(ending).read_bytes()


@pytest.mark.usefixtures("prior_for_posterior")
def test_a_posterior_gives_intervals_and_the_first_draw_to_export(
    tailcast: Run, tmp_path: Path
) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    flags = ("--draws", 8, "--format", "json", "--export")
    code, out, _ = tailcast("replay", trace_a(tmp_path), *flags, first)
    content = json.loads(out)
    assert code == 0
    assert content["schema"] == "tailcast/replay/1"
    assert content["ci_prob"] == 0.89
    assert all(r["low"] <= r["median"] <= r["high"] for r in content["results"] if r["median"])
    assert "first draw" in content["warnings"][-1]
    _, repeated, _ = tailcast("replay", first, *flags, again)
    results = [
        {k: v for k, v in r.items() if k != "observed"} for r in json.loads(repeated)["results"]
    ]
    assert results == content["results"]
    assert first.with_suffix(".csv").read_bytes() == again.with_suffix(".csv").read_bytes()


def test_recorded_latencies_stand_beside(tailcast: Run, tmp_path: Path) -> None:
    rows = [plain("a", 0, clock=UNIX), plain("b", 90_000, clock=UNIX), row("c", input_tokens=5)]
    (tmp_path / "header.yaml").write_text(HEADER + SERVER)
    (tmp_path / "requests.csv").write_text("\n".join([",".join(NAMES), *rows]) + "\n")
    code, out, _ = tailcast("replay", tmp_path, "--latency-model", "roofline", "--format", "json")
    content = json.loads(out)
    assert code == 0
    assert content["left_out"] == 1
    found = {(r["metric"], r["statistic"]): r for r in content["results"]}
    assert found["ttft", "mean"]["observed"] == pytest.approx(0.05)
    assert found["e2e", "p99"]["observed"] == pytest.approx(0.09)
    assert "observed" not in found["itl", "mean"]
    _, table, _ = tailcast("replay", tmp_path, "--latency-model", "roofline")
    assert "recorded" in table.splitlines()[2]
    assert "1 rows left out" in table


def test_flags_say_what_the_header_lacks_or_instead_of_it(tailcast: Run, tmp_path: Path) -> None:
    trace = trace_a(tmp_path, header=HEADER)
    code, _, err = tailcast("replay", trace, "--mode", "blis")
    assert code == 2
    assert "no server.model; give --model" in err
    flags = ("--mode", "blis", "--format", "json", "--model", "llama-3.1-8b")
    code, _, err = tailcast("replay", trace, *flags)
    assert code == 2
    assert "no server.accelerator; give --gpu" in err
    code, out, _ = tailcast("replay", trace, *flags, "--gpu", "H100")
    inputs = json.loads(out)["inputs"]
    assert code == 0
    assert (inputs["engine"]["max_num_seqs"], inputs["kv_blocks"]) == (256, 26312)  # BLIS's own
    told = trace_a(tmp_path)
    code, out, _ = tailcast("replay", told, *flags, "--gpu", "h100", "-tp", 2)
    assert json.loads(out)["inputs"]["kv_blocks"] == 125278  # not the header's: another TP
    code, out, _ = tailcast("replay", told, "--latency-model", "roofline", "--format", "json")
    assert json.loads(out)["inputs"]["engine"]["max_num_batched_tokens"] == 8192  # vLLM's


def test_a_horizon_cuts_and_blis_own_one_is_named(tailcast: Run, tmp_path: Path) -> None:
    long = [
        row(str(i), arrival_time_us=i * 1000, input_tokens=100, output_tokens=200) for i in range(3)
    ]
    (tmp_path / "l.yaml").write_text(HEADER + SERVER)
    (tmp_path / "l.csv").write_text("\n".join([",".join(NAMES), *long]) + "\n")
    _, out, _ = tailcast("replay", tmp_path / "l.csv", "--mode", "blis")
    assert "3 of 3 requests completed" in out
    assert "blis replay would stop at 0.004 s" in out
    code, out, _ = tailcast("replay", tmp_path / "l", "--mode", "blis", "--horizon", "4000us")
    assert code == 0
    assert "0 of 3 requests completed" in out
    assert "n/a" in out


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--posterior", "x", "--latency-model", "roofline"), 2, "either --posterior or"),
        (("--mode", "blis", "--posterior", "physics-h100"), 2, "mode blis runs BLIS's own"),
        (("--latency-model", "physics"), 2, "has priors"),
        (("--latency-model", "rofline"), 2, "did you mean 'roofline'"),
        (("--mode", "blis", "--sessions", "closed-loop"), 2, "recorded times"),
        (("--mode", "blis", "--horizon", "60"), 2, "unit"),
        (("--mode", "blis", "--gpu", "h200"), 2, "BLIS knows no accelerator"),
        (("--mode", "blis", "--export", "/nowhere/at/all"), 2, "make it first"),
        (("--posterior", "nothing"), 2, "no posterior 'nothing'"),
    ],
)
def test_impossible_questions_end_in_one_line(
    tailcast: Run, tmp_path: Path, flags: tuple[str, ...], code: int, message: str
) -> None:
    found, out, err = tailcast("replay", trace_a(tmp_path), *flags)
    assert (found, out) == (code, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_a_trace_that_is_not_there_or_broken_is_bad_input(tailcast: Run, tmp_path: Path) -> None:
    code, _, err = tailcast("replay", tmp_path / "none", "--mode", "blis")
    assert code == 3
    assert "no such file" in err
    (tmp_path / "a.yaml").write_text("trace_version: 9\n")
    (tmp_path / "a.csv").write_text("request_id\n")
    assert tailcast("replay", tmp_path / "a", "--mode", "blis")[0] == 3


def test_output_and_csv(tailcast: Run, tmp_path: Path) -> None:
    answer = tmp_path / "answer.csv"
    flags = ("--mode", "blis", "--format", "csv", "-o", answer)
    code, out, err = tailcast("replay", trace_a(tmp_path), *flags)
    assert (code, out) == (0, "")
    assert answer.read_text().startswith("metric,stat,point answer\nttft,mean,30.9 ms\n")
    assert "no interval" in err


@pytest.mark.parametrize("flags", [("--latency-model", "roofline"), ("--draws", 3)])
def test_failed_requests_load_the_server_and_do_not_count(
    tailcast: Run, tmp_path: Path, prior_for_posterior: None, flags: tuple[object, ...]
) -> None:
    """The one that failed is alone in having a huge prompt: its E2E is in no statistic."""
    huge = {"input_tokens": 3900, "output_tokens": 90}
    answers: dict[str, float] = {}
    for status in ("ok", "timeout"):
        folder = tmp_path / status
        folder.mkdir()
        rows = [plain(str(k), 400_000 * k) for k in range(3)]
        rows.append(plain("3", 1_200_000, status=status, **huge))
        (folder / "header.yaml").write_text(HEADER + SERVER)
        (folder / "requests.csv").write_text("\n".join([",".join(NAMES), *rows]) + "\n")
        code, out, err = tailcast("replay", folder, *flags, "--format", "json")
        assert code == 0, err
        found = json.loads(out)
        (own,) = [r for r in found["results"] if (r["metric"], r["statistic"]) == ("e2e", "mean")]
        answers[status] = own.get("median", own.get("value"))
        assert any("count in no statistic" in w for w in found["warnings"]) == (status != "ok")
    assert answers["timeout"] < answers["ok"] / 1.5


@pytest.mark.parametrize("name", list(MAKERS))
def test_every_format_with_requests_is_replayed(tailcast: Run, tmp_path: Path, name: str) -> None:
    path = MAKERS[name](tmp_path)
    flags = ("--latency-model", "roofline", "--model", "llama-3.1-8b", "--gpu", "h100-sxm")
    code, out, err = tailcast("replay", path, *flags)
    if importer(name).gives in {"summary", "steps"}:
        assert (code, out) == (3, "")
        assert "no requests that can be sent" in err
    else:
        assert code == 0, err
        assert "one run, no interval" in out
        assert f"{name}; " in err or name == "tracev2"
    code, _, err = tailcast("replay", path, *flags, "--from", name)
    assert code == (3 if "no requests" in err else 0)
