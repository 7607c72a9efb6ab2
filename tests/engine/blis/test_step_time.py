"""Step times of both backends against spec vectors measured on BLIS itself."""

import pytest

from engine.blis.deployments import deployment, llm
from tailcast.engine.blis.accelerators import blis_accelerator
from tailcast.engine.blis.coefficients import BlisCoefficients, coefficients_from_lists
from tailcast.engine.blis.latency_model import BatchEntry, BlisLatencyModel
from tailcast.engine.blis.step_time import MAX_INT64, truncated_us
from tailcast.errors import CapacityError, InputError, UsageError


def _decodes(n: int, context: int) -> list[BatchEntry]:
    return [BatchEntry(input_tokens=context, progress=context)] * n


BATCHES = {
    "P2048": [BatchEntry(input_tokens=2048, progress=0, new_tokens=2048)],
    "P512": [BatchEntry(input_tokens=4096, progress=1536, new_tokens=512)],
    "D1@800": _decodes(1, 800),
    "D32@800": _decodes(32, 800),
    "D128@800": _decodes(128, 800),
    "D64@4000": _decodes(64, 4000),
    "MIX": [BatchEntry(input_tokens=1000, progress=0, new_tokens=1000), *_decodes(40, 1500)],
}

# (trained physics, roofline) in microseconds on H100, in the order of BATCHES.
VECTORS = {
    ("llama-3.1-8b", 1): (
        (11737, 8113, 6895, 8924, 15206, 26620, 13852),
        (49409, 12819, 3076, 4050, 7066, 13068, 24984),
    ),
    ("llama-3.1-8b", 2): (
        (6688, 4695, 4026, 5113, 8477, 14035, 7715),
        (24704, 6409, 1538, 2025, 3533, 6534, 12492),
    ),
    ("llama-3.1-70b", 4): (
        (29836, 19989, 16657, 18004, 22174, 29145, 25984),
        (117321, 29914, 7431, 8041, 10935, 13680, 59986),
    ),
    ("qwen3-14b", 1): (
        (21274, 14522, 12237, 14739, 22486, 36824, 22307),
        (92635, 23889, 5798, 7016, 10789, 18290, 47025),
    ),
    ("scout-fp8", 2): (
        (27495, 25576, 24950, 26512, 31351, 39827, 29726),
        (22003, 5957, 1375, 6004, 8876, 13300, 11112),
    ),
    ("mistral-nemo", 1): (
        (18701, 12791, 10806, 13899, 23476, 41470, 21738),
        (82018, 21233, 5119, 6641, 11354, 20732, 41532),
    ),
}
CASES = [
    (name, tp, backend, batch, expected)
    for (name, tp), columns in VECTORS.items()
    for backend, values in zip(("trained-physics", "roofline"), columns, strict=True)
    for batch, expected in zip(BATCHES, values, strict=True)
]


@pytest.mark.parametrize(("name", "tp", "backend", "batch", "expected"), CASES)
def test_step_time_equals_blis_to_the_microsecond(
    name: str, tp: int, backend: str, batch: str, expected: int
) -> None:
    model = deployment(name, tp=tp, backend=backend)
    assert model.step_time_us(BATCHES[batch]) == expected


@pytest.mark.parametrize(
    ("name", "tp", "batch", "expected"),
    [
        ("llama-3.1-8b", 1, _decodes(256, 800), 23582),
        ("llama-3.1-70b", 4, _decodes(64, 800), 19394),
        ("mixtral", 2, _decodes(1, 800), 20076),
    ],
)
def test_more_decode_steps_equal_blis(
    name: str, tp: int, batch: list[BatchEntry], expected: int
) -> None:
    assert deployment(name, tp=tp).step_time_us(batch) == expected


def test_a_step_lasts_at_least_a_microsecond() -> None:
    idle = BlisLatencyModel(
        llm=llm("llama-3.1-8b"),
        accelerator=blis_accelerator("H100"),
        coefficients=BlisCoefficients(),
    )
    assert idle.step_time_us(_decodes(3, 100)) == 1
    assert deployment().step_time_us([]) == 1


def test_zero_output_requests_never_decode_but_count_as_requests() -> None:
    model = deployment()
    idle = BatchEntry(input_tokens=100, progress=100, output_tokens=0)
    with_idle = model.step_time_us([*_decodes(1, 800), idle])
    assert 0 <= with_idle - model.step_time_us(_decodes(1, 800)) <= 5  # per_request alone


def test_a_chunk_is_charged_against_the_whole_prompt() -> None:
    early = BatchEntry(input_tokens=4096, progress=0, new_tokens=512)
    late = BatchEntry(input_tokens=4096, progress=3584, new_tokens=512)
    assert deployment().step_time_us([early]) == deployment().step_time_us([late])
    roofline = deployment(backend="roofline")
    assert roofline.step_time_us([early]) < roofline.step_time_us([late])


def test_head_dim_is_ignored_in_step_time() -> None:
    plain = deployment("mistral-nemo").llm
    assert plain.head_dim == 128
    assert plain.hidden // plain.n_heads == 160
    assert deployment("mistral-nemo").step_model.physics.head_dim == 160


def test_short_coefficient_lists_take_the_larger_of_compute_and_traffic() -> None:
    beta = [1.0, 1.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 3.0]
    times = {}
    for length in (8, 9, 10, 11):
        coefficients = coefficients_from_lists([0, 0, 0], beta[:length])
        model = BlisLatencyModel(
            llm=llm("llama-3.1-8b"),
            accelerator=blis_accelerator("H100"),
            coefficients=coefficients,
        )
        times[length] = [model.step_time_us(BATCHES[b]) for b in ("P2048", "D32@800")]
        assert model.step_model.physics.expert_dispatch == (3.0 if length == 11 else 0.5)
    compute_us = times[9][0]
    assert times[8][0] == compute_us  # a long prompt is bound by compute
    read_us = times[8][1]
    assert times[9][1] == read_us  # decodes are bound by KV traffic
    assert times[10][1] >= 2 * read_us
    assert times[11] == times[10]


def test_data_parallel_experts_are_dispatched() -> None:
    def time(dp: int, communication: str = "allgather_reducescatter") -> int:
        model = BlisLatencyModel(
            llm=llm("mixtral"),
            accelerator=blis_accelerator("H100"),
            data_parallel=dp,
            expert_communication=communication,
        )
        return model.step_time_us(BATCHES["P2048"])

    assert time(2, "pplx") > time(2)  # all-to-all moves every expert's copy
    assert time(4) < time(1)


def test_overheads_are_truncated() -> None:
    model = deployment()
    assert (model.ingest_us(10), model.finish_us, model.stream_us) == (15563, 777, 45)
    roofline = BlisLatencyModel(
        llm=llm("llama-3.1-8b"),
        accelerator=blis_accelerator("H100"),
        backend="roofline",
        coefficients=BlisCoefficients(ingest=10.9, ingest_per_token=0.5, finish=9.0, stream=1.9),
    )
    assert (roofline.ingest_us(3), roofline.finish_us, roofline.stream_us) == (12, 0, 1)


def test_what_is_not_a_duration_becomes_the_largest_one() -> None:
    assert truncated_us(float("nan")) == MAX_INT64
    assert truncated_us(1e30) == MAX_INT64
    assert truncated_us(2.9999) == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"tensor_parallel": 3}, CapacityError),
        ({"tensor_parallel": 16}, CapacityError),
        ({"data_parallel": 2}, CapacityError),
        ({"tensor_parallel": 0}, UsageError),
        ({"backend": "rooflin"}, UsageError),
        ({"expert_communication": "smoke"}, UsageError),
    ],
)
def test_impossible_deployments_are_refused(
    arguments: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        BlisLatencyModel(
            llm=llm("llama-3.1-8b"),
            accelerator=blis_accelerator("H100"),
            **arguments,  # type: ignore[arg-type]
        )


@pytest.mark.parametrize(
    ("alpha", "beta"),
    [([1.0, 1.0], [1.0] * 7), ([1.0] * 3, [1.0] * 6), ([1.0] * 3, [-1.0] * 7)],
)
def test_impossible_coefficients_are_refused(alpha: list[float], beta: list[float]) -> None:
    with pytest.raises(InputError):
        coefficients_from_lists(alpha, beta)
