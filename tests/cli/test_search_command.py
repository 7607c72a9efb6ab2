"""`tailcast search` and `tailcast measure`: answers, exit codes, results that are kept."""

import json
from pathlib import Path

import pytest

from cli.conftest import Run
from search.studies import write_study

SPACE = "tensor_parallel = [1, 2, 3]\nmax_num_seqs = [64]"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two candidates, both of which hold a loose target."""
    return write_study(tmp_path, target="2s", space=SPACE)


@pytest.mark.usefixtures("prior_for_posterior")
def test_the_answer_comes_first_and_runs_are_kept(tailcast: Run, study: Path) -> None:
    code, out, err = tailcast("search", study)
    assert code == 0, err
    assert "CHOSEN: llama-3.1-8b (bf16) on 1 x h100-sxm-80gb" in out
    assert "1 combinations cannot exist:" in out
    assert "cannot be split by tensor_parallel 3" in out
    assert "2 candidates, 1 combinations cannot exist" in err
    assert study.with_suffix(".results.sqlite").is_file()
    code, again, err = tailcast("search", study)
    assert again == out
    assert "are there already" in err
    assert " of this batch" not in err


@pytest.mark.usefixtures("prior_for_posterior")
def test_json_says_how_it_was_found(tailcast: Run, study: Path) -> None:
    code, out, _ = tailcast("-q", "search", study, "--format", "json")
    content = json.loads(out)
    assert code == 0
    assert content["schema"] == "tailcast/search/1"
    assert content["chosen"]["passed"] is True
    assert content["chosen"]["accelerators"] == 1
    assert content["candidates"]["n"] == 2
    assert sum(content["candidates"]["invalid"].values()) == 1
    assert content["race"]["runs"] <= content["race"]["exhaustive_runs"]
    assert content["chosen"]["mode"] == "cold"


@pytest.mark.slow
@pytest.mark.usefixtures("prior_for_posterior")
def test_nothing_that_holds_is_exit_one(tailcast: Run, tmp_path: Path) -> None:
    study = write_study(tmp_path, target="1ms", space=SPACE)
    code, out, _ = tailcast("-q", "search", study)
    assert code == 1
    assert "nothing met the objectives" in out
    assert "a lone request is too slow already" in out


@pytest.mark.slow
@pytest.mark.usefixtures("prior_for_posterior")
def test_measure_ranks_runs(tailcast: Run, study: Path) -> None:
    code, out, _ = tailcast("-q", "measure", study)
    assert code == 0
    assert "P(settles)" in out.splitlines()[0]
    assert "at 20 req/s" in out
    code, out, _ = tailcast("-q", "measure", study, "--format", "json")
    content = json.loads(out)
    assert content["schema"] == "tailcast/measure/1"
    assert content["runs"][0]["p_settle"] >= content["runs"][-1]["p_settle"]


@pytest.mark.usefixtures("prior_for_posterior")
@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"space": 'routing = ["random"]'}, 3, "routing is not simulated yet"),
        ({"space": "tensor_parallel = [3]"}, 3, "none of 1 combinations can exist"),
        ({"search": "drawz = 1"}, 3, "did you mean 'draws'"),
        ({"objective": "tttft.p99"}, 3, "did you mean 'ttft'"),
    ],
)
def test_a_study_that_cannot_be_searched_is_refused(
    tailcast: Run, tmp_path: Path, changes: dict[str, str], code: int, message: str
) -> None:
    found, _, err = tailcast("-q", "search", write_study(tmp_path, **changes))
    assert found == code
    assert message in err
