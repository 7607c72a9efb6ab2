"""Spaces: every combination, impossible ones counted with reasons, unknown axes refused."""

from pathlib import Path

import pytest

from search.studies import study_of
from tailcast.errors import InputError
from tailcast.search.space import Candidate, build_space


def test_every_combination_is_a_candidate_or_counted(tmp_path: Path) -> None:
    space = build_space(
        study_of(
            tmp_path,
            space='tensor_parallel = [1, 2, 3]\nreplicas = [1, 2]\nweights = ["bf16", "fp8"]',
        )
    )
    assert len(space.candidates) + space.n_invalid == 12
    assert space.n_invalid == 4
    (reason,) = space.invalid
    assert "cannot be split by tensor_parallel 3" in reason
    assert len({c.key for c in space.candidates}) == len(space.candidates)


def test_weights_that_do_not_fit_are_a_reason(tmp_path: Path) -> None:
    space = build_space(
        study_of(tmp_path, space='model = ["llama-3.1-8b", "llama-3.1-70b"]\ntensor_parallel = [1]')
    )
    assert len(space.candidates) == 1
    assert "leaves no memory for a KV cache" in next(iter(space.invalid))


@pytest.mark.parametrize(
    ("limit", "kept"), [("max_gpus = 2", {1, 2}), ("gpus = 4", {4}), ("", {1, 2, 4})]
)
def test_accelerators_may_be_limited(tmp_path: Path, limit: str, kept: set[int]) -> None:
    study = study_of(tmp_path, search=limit, space="tensor_parallel = [1, 2]\nreplicas = [1, 2]")
    assert {c.fleet.n_accelerators for c in build_space(study).candidates} == kept


def test_cost_is_accelerators_or_their_price(tmp_path: Path) -> None:
    def cost(**changes: str) -> list[float]:
        own = build_space(study_of(tmp_path, **changes)).candidates
        return sorted({c.cost for c in own})

    axes = "tensor_parallel = [1, 2]\nreplicas = [3]"
    assert cost(space=axes) == [3, 6]
    prices = f"{axes}\n[search.prices]\nh100-sxm = 2.5"
    assert cost(space=prices) == [7.5, 15]
    with pytest.raises(InputError, match="no price for h100-sxm-80gb"):
        cost(space=f"{axes}\n[search.prices]\na100-sxm-80gb = 1.0")


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ('routing = ["least_loaded"]', "routing is not simulated yet; replicas are given requests"),
        ('admission = ["none"]', "admission is not simulated yet"),
        ("max_num_seq = [1]", "no axis 'max_num_seq'; did you mean 'max_num_seqs'"),
        ("tensor_parallel = 2", "must be a list of values"),
        ("tensor_parallel = [2, 2]", "has a value twice"),
        ("tensor_parallel = []", "must be a list of values"),
        ("replicas = [0]", "replicas must be whole numbers from 1 on"),
        ("posterior = [3]", "posterior must be text"),
        ("tensor_parallel = [3]", "none of 1 combinations can exist"),
    ],
)
def test_a_malformed_space_is_refused(tmp_path: Path, space: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_space(study_of(tmp_path, space=space))


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ("drawz = 3", "unknown key 'drawz'; did you mean 'draws'"),
        ("zone = 2", "zone must lie in"),
        ("finalists = 0", "finalists must be at least 1"),
        ("runs = 1000000000", "runs must be at most 20000"),
        ("budget = 0", "budget must lie in"),
        ('goal = "chepest"', "no goal 'chepest'; did you mean 'cheapest'"),
        ('rank = "tttft.p99"', "no metric 'tttft'"),
        ('rank = "ttft.p99[chat]"', r"study.toml: ttft.p99\[chat\].*no request class 'chat'"),
    ],
)
def test_malformed_settings_are_refused(tmp_path: Path, search: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        study_of(tmp_path, search=search)


def test_one_deployment_under_two_names_is_one_candidate(tmp_path: Path) -> None:
    space = build_space(study_of(tmp_path, space='gpu = ["h100-sxm", "H100-SXM-80GB"]'))
    assert len(space.candidates) == 1
    assert space.invalid == {"is another combination under another name": 1}


@pytest.mark.parametrize("price", ["h100-sxm = 0", "h100-sxm = -2", "h100-sxm = inf", "H100 = 1"])
def test_prices_are_positive_and_given_once(tmp_path: Path, price: str) -> None:
    prices = f"[search.prices]\n{price}" + ("\nh100-sxm = 2" if price == "H100 = 1" else "")
    with pytest.raises(InputError, match=r"must be|has a price already"):
        study_of(tmp_path, search=prices)


def test_a_search_needs_objectives_and_a_space(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    from tailcast.search.settings import load_search_study

    path.write_text("[workload]\nrate=1\ninput_tokens=1\noutput_tokens=1\n[slo]\n[search]\n")
    with pytest.raises(InputError, match="no objective"):
        load_search_study(path)
    path.write_text(path.read_text().replace("[slo]", '[slo]\n"ttft.p99" = "1s"'))
    with pytest.raises(InputError, match=r"table \[search.space\] is missing"):
        load_search_study(path)
    path.write_text("[slo]\n[search]\n")
    with pytest.raises(InputError, match=r"table \[workload\] is missing"):
        load_search_study(path)


def test_a_long_run_pools_runs(tmp_path: Path) -> None:
    assert study_of(tmp_path).settings.runs == 1
    assert study_of(tmp_path, slo='horizon = "process"').settings.runs == 8


def test_a_candidate_says_what_it_is(tmp_path: Path) -> None:
    first: Candidate = build_space(study_of(tmp_path)).candidates[0]
    assert first.label == "tensor_parallel 1, max_num_seqs 32"
    assert first.posterior in first.key
