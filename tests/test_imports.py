"""What is imported when: the package and its help are light, only a fit needs PyMC."""

import subprocess
import sys

import pytest

import tailcast

HEAVY = ("pymc", "pytensor", "arviz", "scipy.stats", "matplotlib")
QUESTION = [
    *("--model", "llama-3.1-8b", "--gpu", "h100", "--rate", "2"),
    *("--input-tokens", "60", "--output-tokens", "5"),
]
CHAIN = ["--rate", "1rps", "--input-tokens", "128", "--output-tokens", "512"]
COMMANDS = [
    ["--help"],
    ["--version"],
    ["fit", "--help"],
    ["predict", *QUESTION, "--draws", "2"],
    ["predict", *QUESTION, "--posterior", "roofline"],
    ["slo", *QUESTION, "--draws", "8", "--slo", "ttft.p99=3s"],
    ["evaluate", "EXPERIMENT", "--draws", "2"],
    ["queue", "solve", *CHAIN, "--numbers", "12ms,50us,500ns"],
    ["posterior", "list"],
    ["posterior", "show"],
    ["catalog", "models"],
]
EXPERIMENT = """\
deployment: {model: llama-3.1-8b, gpu: h100-sxm}
workload:
  kind: unique-prompts
  prompt_tokens: 64
  output_tokens: 4
  stages: [{rate_rps: 5, duration_s: 4}]
observed: [{stage: 0, latency_ms: {ttft: {mean: 20.0}}}]
"""


def loaded(code: str) -> set[str]:
    """Which of the heavy modules a process has loaded after this code."""
    tail = f"\nimport sys; print(*(m for m in {HEAVY} if m in sys.modules), file=sys.stderr)"
    ran = subprocess.run(
        [sys.executable, "-c", code + tail],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return set(ran.stderr.splitlines()[-1].split())


def test_the_package_is_light() -> None:
    assert loaded("import tailcast") == set()


def test_a_heavy_module_is_seen() -> None:
    assert loaded("import tailcast, scipy.stats") == {"scipy.stats"}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: "-".join(words[:2]))
def test_a_command_that_does_not_infer_loads_nothing_heavy(
    command: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("runs") / "experiment.yaml"
    file.write_text(EXPERIMENT)
    given = [str(file) if word == "EXPERIMENT" else word for word in command]
    run = f"""
from tailcast.cli.main import main
try:
    main({given!r})
except SystemExit as left:
    assert not left.code, left.code
"""
    assert loaded(run) == set()


def test_public_names_are_sorted_documented_and_there() -> None:
    assert tailcast.__all__ == sorted(set(tailcast.__all__))
    for name in tailcast.__all__:
        assert getattr(tailcast, name).__doc__
    with pytest.raises(AttributeError, match="has no attribute 'predit'"):
        tailcast.predit  # noqa: B018
