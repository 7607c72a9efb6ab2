"""`tailcast slo`: exit code, formats, what only the study file can say, and pictures."""

import json
from pathlib import Path

import pytest

from cli.conftest import Run

FLAGS = ("--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--rate", "2", "--input-tokens", "200")
SHORT = ("--output-tokens", "20", "--draws", "12")
STUDY = """
[deployment]
model = "llama-3.1-8b"
gpu = "h100-sxm"
replicas = 2
[workload]
rate = 4
n_requests = 60
arrivals = "poisson"
classes = [
  {{ name = "chat", input_tokens = 200, output_tokens = 20 }},
  {{ name = "docs", input_tokens = 3000, output_tokens = 20 }},
]
[slo]
{slo}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study with two classes, one replica too few for some."""
    path = tmp_path / "study.toml"
    lines = ('"ttft.p99[chat]" = "20s"', '"goodput(ttft=20s)" = 0.9', "curves = []")
    path.write_text(STUDY.format(slo="\n".join(lines)))
    return path


@pytest.mark.usefixtures("prior_for_posterior")
def test_the_exit_code_is_the_verdict(tailcast: Run, study: Path) -> None:
    code, out, _ = tailcast("-q", "slo", study, "--draws", "12")
    assert code == 0
    assert "YES: P(miss) 0.0%" in out
    assert "ttft.p99[chat] <= 20.0 s" in out
    assert "P(next 60 miss)" in out
    assert "P(long run misses)" in out
    assert "2 replicas" in out
    code, out, _ = tailcast("-q", "slo", study, "--draws", "12", "--slo", "ttft.p50=1us")
    assert code == 1
    assert "NO: " in out


@pytest.mark.usefixtures("prior_for_posterior")
def test_json_holds_both_horizons_and_the_sources_of_spread(tailcast: Run, study: Path) -> None:
    code, out, _ = tailcast("-q", "slo", study, "--draws", "12", "--format", "json")
    content = json.loads(out)
    assert code == 0
    assert content["schema"] == "tailcast/slo/1"
    assert content["inputs"]["replicas"] == 2
    first = content["objectives"][0]
    assert first["group"] == "chat"
    assert set(first["log_variance"]) == {"coefficients", "discrepancy", "workload", "finite_run"}
    for name in ("p_miss_window", "p_miss_process", "p_miss_window_law_only"):
        assert set(content["joint"][name]) == {"p_miss", "mcse"}
    assert tailcast("-q", "slo", study, "--draws", "12", "--format", "json")[1] == out


@pytest.mark.usefixtures("prior_for_posterior")
def test_csv_is_plain_numbers(tailcast: Run, study: Path) -> None:
    _, out, _ = tailcast("-q", "slo", study, "--draws", "12", "--format", "csv")
    lines = out.strip().splitlines()
    assert lines[0].startswith("objective,target,p_miss_window")
    assert len(lines) == 4
    assert float(lines[1].split(",")[1]) == 20.0


@pytest.mark.slow
@pytest.mark.usefixtures("prior_for_posterior")
def test_a_picture_is_drawn_whole(tailcast: Run, tmp_path: Path) -> None:
    picture = tmp_path / "risk.svg"
    code, out, _ = tailcast(
        "-q", "slo", *FLAGS, *SHORT, "--slo", "ttft.p99=200ms", "--plot", picture
    )
    assert code in {0, 1}
    assert "Largest rate with P(miss)" in out
    assert picture.read_text().count("<svg") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["risk.svg"]


@pytest.mark.usefixtures("prior_for_posterior")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--slo", "ttft.p99=1s", "--plot", "risk.gif"), "a picture ends in .svg"),
        (("--slo", "ttft.p99[x]=1s"), "no request class 'x'"),
        (("--slo", "ttft.p99=1s", "--risk", "2"), "risk must lie between"),
        (("--slo", "goodput=0.9"), "goodput needs to know"),
        ((), "no objective given"),
    ],
)
def test_what_cannot_be_asked_is_a_usage_error(
    tailcast: Run, words: tuple[str, ...], message: str
) -> None:
    code, _, err = tailcast("-q", "slo", *FLAGS, *SHORT, *words)
    assert code == 2
    assert message in err


@pytest.mark.usefixtures("prior_for_posterior")
def test_predict_says_what_it_leaves_to_slo(tailcast: Run, study: Path) -> None:
    code, _, err = tailcast("predict", study, "--draws", "12")
    assert code == 2
    assert "predict looks at one replica, not 2; use tailcast slo" in err
    single = study.read_text().replace("replicas = 2\n", "")
    study.write_text(single)
    code, _, err = tailcast("predict", study, "--draws", "12")
    assert code == 0
    assert "ttft.p99[chat] <= 20.0 s is left out here; tailcast slo answers it" in err
