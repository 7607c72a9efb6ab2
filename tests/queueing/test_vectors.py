"""The vector check: every shared case passes, a wrong one fails, an odd one is skipped."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tailcast.errors import InputError
from tailcast.queueing.vectors import CaseOutcome, check_vectors

SIZE = {
    "id": "size",
    "kind": "slo_throughput",
    "variant": "V2",
    "inputs": {
        "alpha": 8.0,
        "beta": 0.033,
        "gamma": 0.000333,
        "tokens_in": 256,
        "tokens_out": 1024,
        "max_queue": 128,
        "target_ttft_ms": 60.0,
        "target_itl_ms": 20.0,
        "max_batch": 2,
    },
    "expected": {"throughput_rps": 0.014588269, "feasible": True},
    "rel_tol": 0.0005,
}
SOLVE = {
    "id": "solve",
    "kind": "analyze",
    "variant": "V2",
    "inputs": {
        "alpha": 12,
        "beta": 0.05,
        "gamma": 0.0005,
        "tokens_in": 128,
        "tokens_out": 512,
        "max_queue": 128,
        "max_batch": 48,
        "rate_rps": 3.0,
    },
    "expected": {"ttft_ms": 67.61475992986703, "itl_ms": 20.118889858983053},
    "rel_tol": 1.0e-6,
}


def outcomes(folder: Path, *cases: Mapping[str, object]) -> list[CaseOutcome]:
    path = folder / "vectors.yaml"
    path.write_text(yaml.safe_dump({"cases": [dict(case) for case in cases]}))
    return list(check_vectors(path).outcomes)


def case(base: Mapping[str, object], **changes: object) -> dict[str, object]:
    return {**base, **changes}


def test_every_shared_vector_passes(shared_data: Path) -> None:
    report = check_vectors(shared_data / "three_numbers_vectors.yaml")
    assert [o for o in report.outcomes if o.status != "passed"] == []
    assert report.summary == f"{len(report.outcomes)} passed, 0 failed, 0 skipped"


def test_typed_cases_pass_without_any_file_of_others(tmp_path: Path) -> None:
    found = outcomes(
        tmp_path,
        SIZE,
        SOLVE,
        {
            "id": "chain",
            "kind": "birth_death",
            "variant": "any",
            "inputs": {"service_rates": [2.0, 4.0, 6.0], "arrival": 1.0, "capacity": 4},
            "expected": {"mean_in_system": 0.5010526315789474, "wait": 0.002109704641350185},
            "rel_tol": 1e-9,
        },
        {
            "id": "bisect",
            "kind": "bisection",
            "variant": "any",
            "inputs": {"function": "3x^2 + 1", "lo": 0, "hi": 5, "target": 13},
            "expected": {"indicator": 0, "error": False, "x": 2.0},
            "rel_tol": 1e-5,
        },
        {
            "id": "guess",
            "kind": "initial_guess",
            "variant": "alpha=0.9*ITL",
            "inputs": {"ttft_ms": 80.48, "itl_ms": 15.911, "tokens_in": 1123, "tokens_out": 487},
            "expected": {"alpha": 14.3199, "gamma": 0.001121659067885774},
            "rel_tol": 1e-6,
        },
        {
            "id": "refused",
            "kind": "invalid_input",
            "variant": "V0,V1,V2",
            "inputs": {"max_queue": -3},
            "expected": {"error": True},
            "rel_tol": 0,
        },
        {
            "id": "refused in V1",
            "kind": "invalid_input",
            "variant": "V1",
            "inputs": {"rate_rps": "1.5*max_rate"},
            "expected": {"error": True},
            "rel_tol": 0,
        },
        {
            "id": "legal in V2",
            "kind": "valid_input",
            "variant": "V2",
            "inputs": {"rate_rps": "1.5*max_rate"},
            "expected": {"error": False},
            "rel_tol": 0,
        },
        {
            "id": "overload in V1",
            "kind": "analyze",
            "variant": "V1",
            "inputs": {**SOLVE["inputs"], "rate_rps": 99.0},  # type: ignore[dict-item]
            "expected": {"error": True},
            "rel_tol": 0,
        },
    )
    assert [(o.name, o.status, o.detail) for o in found if o.status != "passed"] == []


def test_a_wrong_number_fails_and_says_by_how_much(tmp_path: Path) -> None:
    (found,) = outcomes(tmp_path, case(SOLVE, expected={"ttft_ms": 68.0, "itl_ms": 20.118889859}))
    assert found.status == "failed"
    assert found.detail.startswith("ttft_ms: got 67.61")
    assert "itl_ms" not in found.detail


def test_a_wrong_feasibility_fails(tmp_path: Path) -> None:
    (found,) = outcomes(tmp_path, case(SIZE, expected={"throughput_rps": 0, "feasible": False}))
    assert found.status == "failed"
    assert "feasible: got True, expected False" in found.detail


def test_the_tolerance_is_the_cases_own(tmp_path: Path) -> None:
    near = {"ttft_ms": 67.62}
    loose = case(SOLVE, id="loose", expected=near, rel_tol=1e-3)
    strict = case(SOLVE, id="strict", expected=near, rel_tol=1e-6)
    assert [o.status for o in outcomes(tmp_path, loose, strict)] == ["passed", "failed"]


def test_versions_that_disagree_fail_and_are_named(tmp_path: Path) -> None:
    (found,) = outcomes(
        tmp_path,
        {
            "id": "both",
            "kind": "invalid_input",
            "variant": "V1,V2",
            "inputs": {"rate_rps": "1.1*max_rate"},
            "expected": {"error": True},
            "rel_tol": 0,
        },
    )
    assert found.status == "failed"
    assert "V1 refuses, V2 accepts" in found.detail


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "slo_thruput"}, "did you mean 'slo_throughput'"),
        ({"variant": "V9"}, "V9"),
        ({"expected": {"p99_ms": 3.0}}, "p99_ms cannot be compared"),
    ],
)
def test_what_is_not_known_here_is_skipped_with_a_reason(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    (found,) = outcomes(tmp_path, case(SIZE, **change))
    assert found.status == "skipped"
    assert reason in found.detail


def test_a_data_set_that_is_not_here_is_skipped(tmp_path: Path) -> None:
    (found,) = outcomes(
        tmp_path,
        {
            "id": "loss",
            "kind": "fit_loss",
            "variant": "V1",
            "inputs": {
                "dataset": "nowhere/to-be-found",
                "workload": "i64-o64",
                "points": 7,
                "alpha": 6.7,
                "beta": 0.02,
                "gamma": 1e-5,
            },
            "expected": {"loss": 0.1},
        },
    )
    assert found.status == "skipped"
    assert "is not here" in found.detail


@pytest.mark.parametrize(
    "text",
    [
        "cases: 3",
        "[]",
        "{}",
        "cases: []",
        "cases: [7]",
        "cases: [{kind: analyze, inputs: {a: 1}, expected: {b: 1}}]",
        "cases: [{id: x, inputs: {a: 1}, expected: {b: 1}}]",
        "cases: [{id: x, kind: analyze, inputs: [], expected: {b: 1}}]",
        "cases: [{id: x, kind: analyze, inputs: {a: 1}}]",
        "cases: [{id: x, kind: analyze, inputs: {a: 1}, expected: {b: 1}, rel_tol: -1}]",
        "cases: [{id: x, kind: analyze, inputs: {a: 1}, expected: {itl_ms: 1}}]",
        "cases: [{id: x, kind: primitives, inputs: {n: many}, expected: {chunks: 1}}]",
        "cases: [{id: x, kind: a, inputs: {a: 1}, expected: {b: 1}},"
        " {id: x, kind: a, inputs: {a: 1}, expected: {b: 1}}]",
        "cases: [",
        "\x00",
    ],
)
def test_a_malformed_file_is_an_input_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"bad\.yaml"):
        check_vectors(path)


def test_a_missing_or_binary_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        check_vectors(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a text file"):
        check_vectors(tmp_path / "binary.yaml")
