"""Study files: tables are read, unknown keys refused with a hint."""

from pathlib import Path

import pytest

from tailcast.errors import InputError, UsageError
from tailcast.study import load_study, replicas_of, slo_terms

BASE = """
[deployment]
model = "llama-3.1-8b"
gpu = "h100-sxm"
{deployment}
[workload]
rate = 3
input_tokens = 100
output_tokens = 10
[slo]
{slo}
"""


def study(folder: Path, slo: str = "", deployment: str = "") -> Path:
    """A study file."""
    path = folder / "study.toml"
    path.write_text(BASE.format(slo=slo, deployment=deployment))
    return path


def test_objectives_of_every_spelling_are_read(tmp_path: Path) -> None:
    lines = """
"ttft.p99" = "300ms"
tpot.mean = "50ms"
"ttft.p90[all]" = "1s"
"goodput(e2e=2s)" = 0.9
risk = 0.1
horizon = "process"
curves = ["rate", "target"]
"""
    found = load_study(study(tmp_path, lines))
    assert [str(o) for o in found.objectives] == [
        "ttft.p99 <= 300 ms",
        "tpot.mean <= 50.0 ms",
        "ttft.p90[all] <= 1.00 s",
        "goodput(e2e <= 2.00 s) >= 90.0%",
    ]
    assert (found.risk, found.horizon, found.curves) == (0.1, "process", ("rate", "target"))


def test_goodput_may_be_a_table(tmp_path: Path) -> None:
    table = '[slo.goodput]\nshare = 0.95\nttft = "300ms"'
    (share,) = load_study(study(tmp_path, table)).objectives
    assert share.per_request == (("ttft", 0.3),)
    (rate,) = load_study(study(tmp_path, table.replace("share = 0.95", "rate = 3"))).objectives
    assert (rate.stat, rate.target) == ("rate", 3.0)


def test_defaults_are_a_window_one_replica_and_five_percent(tmp_path: Path) -> None:
    found = load_study(study(tmp_path))
    assert (found.risk, found.horizon, found.replicas) == (0.05, "window", 1)
    assert found.objectives == ()


@pytest.mark.parametrize(
    ("slo", "message"),
    [
        ("risk = 2", "risk must lie between 0 and 1"),
        ('horizon = "windw"', "no horizon 'windw'; did you mean 'window'"),
        ('curves = ["rates"]', "curves must be a list of rate, target, replicas"),
        ('"ttft.p99" = 300', "must be a duration in quotes"),
        ('"tttft.p99" = "3s"', "no metric 'tttft'; did you mean 'ttft'"),
        ("[slo.goodput]\nttft = '1s'", "give either share = 0.95 or rate"),
        ("goodput = 0.9", "goodput needs to know what a good request holds"),
    ],
)
def test_a_malformed_slo_table_is_refused(tmp_path: Path, slo: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_study(study(tmp_path, slo))


def test_replicas_stand_beside_the_deployment(tmp_path: Path) -> None:
    assert load_study(study(tmp_path, deployment="replicas = 3")).replicas == 3
    assert replicas_of({"model": "x"}, "here") == ({"model": "x"}, 1)
    for wrong in ("0", "1.5", "true"):
        with pytest.raises(InputError, match="replicas must be"):
            load_study(study(tmp_path, deployment=f"replicas = {wrong}"))


def test_an_unknown_table_is_refused(tmp_path: Path) -> None:
    path = study(tmp_path)
    path.write_text(path.read_text() + "[serch]\n")
    with pytest.raises(InputError, match=r"unknown table \[serch\]; did you mean 'search'"):
        load_study(path)


def test_terms_alone_complain_as_usage() -> None:
    with pytest.raises(UsageError, match="no statistic"):
        slo_terms({"ttft.max": "1s"}, "here")
