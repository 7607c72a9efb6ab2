"""When the client is to blame."""

from array import array

from tailcast.observe.lateness import client_lateness
from tailcast.observe.record import RequestRecord


def _records(late: float, ttft: float = 0.1, n: int = 200) -> list[RequestRecord]:
    return [
        RequestRecord(
            row=i,
            due=float(i),
            sent=i + late,
            token_times=array("d", [i + late + ttft, i + late + ttft + 0.03]),
        )
        for i in range(n)
    ]


def test_a_client_in_time_is_no_bottleneck() -> None:
    late = client_lateness(_records(0.001), [0.001] * 100, cpu_share=0.3)
    assert not late.bottleneck
    assert abs(late.send_p99 - 0.001) < 1e-9


def test_late_sending_is_judged_against_ttft() -> None:
    assert client_lateness(_records(0.05), [0.0]).bottleneck
    assert not client_lateness(_records(0.05, ttft=1.0), [0.0]).bottleneck


def test_late_reading_is_judged_against_gaps() -> None:
    assert client_lateness(_records(0.0), [0.02] * 100).bottleneck
    assert not client_lateness(_records(0.0), [0.004] * 100).bottleneck


def test_a_busy_client_and_missing_files_are_named() -> None:
    late = client_lateness(_records(0.0), [0.0], cpu_share=0.97, out_of_files=3)
    assert len(late.reasons) == 2
    assert "ulimit" in late.reasons[1]


def test_opening_connections_is_no_lateness() -> None:
    record = RequestRecord(row=0, due=1.0, sent=1.25, connect=0.25)
    assert record.lateness == 0.0


def test_nothing_sent_gives_no_figures() -> None:
    late = client_lateness([], [])
    assert late.send_p50 != late.send_p50
    assert not late.bottleneck
