"""`tailcast predict` without a posterior: mode blis, fixed latency models, and the comparison."""

import json
from pathlib import Path

import pytest

from cli.conftest import Run

ASKED = ("--model", "qwen3-14b", "--gpu", "h100", "--rate", 12, "--input-tokens", 200)
ASKED_FULL = (*ASKED, "--output-tokens", 30)
STUDY = """
[deployment]
model = "qwen3-14b"
gpu = "h100"
[workload]
rate = 12
n_requests = 200
input_tokens = 200
output_tokens = 30
[slo]
ttft.p99 = "300ms"
[posterior]
"""


def values(out: str, field: str = "value") -> dict[tuple[str, str], float]:
    return {(r["metric"], r["statistic"]): r[field] for r in json.loads(out)["results"]}


def test_mode_blis_is_a_point_answer_and_says_so(tailcast: Run) -> None:
    code, out, _ = tailcast("predict", *ASKED_FULL, "--mode", "blis", "--slo", "ttft.p99=10ms")
    assert code == 0
    assert "point answer" in out
    assert "blis-trained-physics in mode blis: one run, no interval" in out
    assert "15909 KV blocks" in out
    assert "<= 10.0 ms" in out
    assert "interval" not in out.splitlines()[2]


def test_a_point_in_json_has_a_value_and_no_interval(tailcast: Run) -> None:
    flags = ("--mode", "blis", "--slo", "ttft.p99.9=1s", "--format", "json")
    code, out, _ = tailcast("predict", *ASKED_FULL, *flags)
    content = json.loads(out)
    assert code == 0
    assert content["schema"] == "tailcast/predict/1"
    assert (content["kind"], content["mode"]) == ("point", "blis")
    assert content["inputs"]["kv_blocks"] == 15909
    assert "no interval" in content["warnings"][0]
    for entry in content["results"]:
        assert not {"median", "low", "high", "p_miss"} & set(entry)
    held = [entry for entry in content["results"] if "held" in entry]
    assert [(e["statistic"], e["held"]) for e in held] == [("p99.9", True)]


def test_the_name_and_the_mode_choose_among_four_point_models(tailcast: Run) -> None:
    found = {}
    for name in ("blis-trained-physics", "roofline"):
        for mode in ("blis", "vllm"):
            flags = ("--posterior", name, "--mode", mode, "--format", "json")
            code, out, _ = tailcast("predict", *ASKED_FULL, *flags)
            assert code == 0
            found[name, mode] = values(out)["e2e", "p50"]
    assert len(set(found.values())) == 4
    own = tailcast("predict", *ASKED_FULL, "--posterior", "roofline", "--format", "json")[1]
    assert values(own)["e2e", "p50"] == found["roofline", "vllm"]
    own = tailcast("predict", *ASKED_FULL, "--mode", "blis", "--format", "json")[1]
    assert values(own)["e2e", "p50"] == found["blis-trained-physics", "blis"]


def test_blis_numbers_on_the_corrected_engine_beat_the_datasheet_openly(tailcast: Run) -> None:
    flags = ("--posterior", "blis-trained-physics", "--mode", "vllm")
    _, out, _ = tailcast("predict", *ASKED_FULL, *flags)
    assert "prefill_compute 0.152 beats the datasheet's peak: 6.6 times" in out


@pytest.mark.parametrize(
    ("table", "mode"),
    [
        ('mode = "blis"', "blis"),
        ('name = "blis-trained-physics"', "blis"),
        ('name = "blis-trained-physics"\nmode = "vllm"', "vllm"),
        ('name = "roofline"', "vllm"),
    ],
)
def test_a_study_file_can_say_it_too(tailcast: Run, tmp_path: Path, table: str, mode: str) -> None:
    (tmp_path / "study.toml").write_text(STUDY + table)
    code, out, _ = tailcast("predict", tmp_path / "study.toml", "--format", "json")
    assert code == 0
    assert json.loads(out)["mode"] == mode


@pytest.mark.usefixtures("prior_for_posterior")
def test_compare_sets_points_beside_the_interval(tailcast: Run) -> None:
    flags = ("--compare", "--draws", 8, "--seed", 3)
    code, out, _ = tailcast("predict", *ASKED_FULL, *flags, "--slo", "ttft.p99=300ms")
    header = out.splitlines()[2]
    assert code == 0
    for name in ("blis-trained-physics:blis", "blis-trained-physics:vllm", "roofline:vllm"):
        assert name in header
    assert "median" in header
    assert "89 % interval" in header
    assert "P(miss)" in header
    assert "beats the datasheet's peak" in out
    code, out, _ = tailcast("predict", *ASKED_FULL, *flags, "--format", "json")
    content = json.loads(out)
    first = content["results"][0]
    assert set(first["compared"]) == {c["label"] for c in content["compared"]}
    assert first["low"] <= first["median"] <= first["high"]
    alone = tailcast("predict", *ASKED_FULL, "--mode", "blis", "--seed", 3, "--format", "json")[1]
    for entry in content["results"]:
        key = (entry["metric"], entry["statistic"])
        assert entry["compared"]["blis-trained-physics:blis"] == values(alone)[key]


@pytest.mark.usefixtures("prior_for_posterior")
def test_compare_goes_on_where_blis_cannot(tailcast: Run) -> None:
    asked = [*ASKED_FULL, "--compare", "--draws", 4]
    asked[asked.index("h100")] = "h200"
    code, out, _ = tailcast("predict", *asked)
    assert code == 0
    assert "blis-trained-physics:blis: no answer: BLIS knows no accelerator" in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--mode", "bliss"), "'bliss' is not one of"),
        (("--mode", "blis", "--posterior", "physics"), "has priors"),
        (("--mode", "blis", "--posterior", "physics-h100-vllm015"), "mode blis runs BLIS's own"),
        (("--compare", "--mode", "blis"), "--compare runs both modes"),
        (("--compare", "--posterior", "roofline"), "--compare runs both modes"),
    ],
)
def test_impossible_questions_end_in_one_line(
    tailcast: Run, flags: tuple[str, ...], message: str
) -> None:
    code, out, err = tailcast("-q", "predict", *ASKED_FULL, *flags)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_a_study_with_an_unknown_mode_is_bad_input(tailcast: Run, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY + 'mode = "bliss"')
    code, _, err = tailcast("predict", tmp_path / "study.toml")
    assert code == 3
    assert "mode must be vllm or blis" in err
    (tmp_path / "study.toml").write_text(STUDY + 'mod = "blis"')
    code, _, err = tailcast("predict", tmp_path / "study.toml")
    assert code == 3
    assert "did you mean 'mode'?" in err


def test_a_point_answer_is_no_gate(tailcast: Run, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY + 'mode = "blis"')
    code, _, err = tailcast("slo", tmp_path / "study.toml")
    assert code == 2
    assert "without P(miss)" in err


def test_the_same_seed_gives_the_same_bytes(tailcast: Run) -> None:
    asked = ("predict", *ASKED_FULL, "--mode", "blis", "--format", "json")
    assert tailcast(*asked)[1] == tailcast(*asked)[1]
    assert tailcast(*asked)[1] != tailcast(*asked, "--seed", 1)[1]


def test_no_command_has_more_than_fifteen_options() -> None:
    import typer

    from tailcast.cli.predict import predict
    from tailcast.cli.replay import replay

    for command in (predict, replay):
        app = typer.Typer()
        app.command()(command)
        options = [p for p in typer.main.get_command(app).params if p.param_type_name == "option"]
        own = [p for p in options if not p.name.endswith("_completion")]
        assert len(own) <= 15
