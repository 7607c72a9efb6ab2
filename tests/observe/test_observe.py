"""What is recorded of a server whose step law is known."""

import math
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from observe.fake_server import Behaviour, running
from observe.runs import observed, table
from tailcast.errors import InputError, UsageError
from tailcast.observe.run import Progress, closed_loop, observe
from tailcast.observe.settings import ObserveSettings, ServerError
from tailcast.workload.mapping import workload_from_mapping
from tailcast.workload.materialise import materialise

TESTS = Path(__file__).resolve().parents[1]


def test_every_token_is_recorded_once_and_after_it_was_made() -> None:
    seen, server = observed(table(30))
    assert [record.status for record in seen.records] == ["ok"] * 30
    for record in seen.records:
        job = server.job(record.row)
        made = np.array(job.times) - job.times[0]
        got = np.array(record.token_times) - record.token_times[0]
        assert list(record.token_counts) == [1] * 6
        assert record.sent < record.headers <= record.token_times[0] < record.ended
        assert np.all(np.diff(got) >= 0)
        # the client may notice a token late, never early, but for a late first one
        assert np.all(got[1:] - made[1:] > -0.5)
        assert job.times[0] - seen.records[0].sent > 0


def test_the_servers_counts_and_words_are_kept() -> None:
    seen, server = observed(table(5))
    record = seen.records[2]
    assert (record.server_input_tokens, record.server_output_tokens) == (40, 6)
    assert (record.finish_reason, record.http_status) == ("length", 200)
    assert record.counted_by == "token_ids"
    assert record.request_id.startswith("tailcast-")
    assert record.request_id.endswith("-2")
    assert server.job(2).body["ignore_eos"]
    assert server.job(2).n_prompt == 40


def test_open_loop_sends_at_the_workloads_times_whatever_the_server_does() -> None:
    slow = Behaviour(per_step=0.08)
    seen, _ = observed(table(12, gap=0.03, outputs=4), slow)
    sent = np.array([record.sent for record in seen.records])
    assert np.all(sent >= np.arange(12) * 0.03)
    # had it waited for answers of at least 0.32 s each, the last would be at 3.5 s or later
    assert sent[-1] < 2.5
    assert max(record.lateness for record in seen.records) < 2.0


def test_closed_loop_keeps_its_concurrency() -> None:
    seen, server = observed(closed_loop(table(20, outputs=4), 4))
    open_at_start = [
        sum(other.sent < record.sent < other.ended for other in seen.records)
        for record in seen.records
    ]
    assert max(open_at_start) <= 3
    for record in seen.records[4:]:
        parent = next(other for other in seen.records if other.row == record.row - 4)
        assert record.sent >= parent.ended
    assert len(server.jobs) >= 20


def test_a_closed_loop_of_sessions_is_refused() -> None:
    chained = closed_loop(table(4), 2)
    with pytest.raises(InputError, match="sessions"):
        closed_loop(chained, 2)
    with pytest.raises(InputError, match="at least 1"):
        closed_loop(table(4), 0)


def test_think_time_passes_between_an_answer_and_the_next_request() -> None:
    seen, _ = observed(closed_loop(table(3, outputs=2), 1, think_time=0.1))
    for before, after in zip(seen.records, seen.records[1:], strict=False):
        assert after.sent >= before.ended + 0.1


def test_merged_tokens_are_counted_by_ids_by_usage_and_by_timings_alike() -> None:
    for refused in (frozenset[str](), frozenset({"return_token_ids"})):
        seen, _ = observed(table(4, outputs=7), Behaviour(merged=3, refused=refused))
        for record in seen.records:
            assert list(record.token_counts) == [3, 3, 1]
        assert {r.counted_by for r in seen.records} == {"usage" if refused else "token_ids"}


def test_a_role_chunk_is_no_first_token() -> None:
    behaviour = Behaviour(role_at_once=True, per_step=0.05)
    seen, server = observed(table(3, gap=0.3, outputs=3), behaviour, endpoint="chat")
    for record in seen.records:
        assert record.n_tokens == 3
        assert record.ttft > 0.04
    assert "messages" in server.job(0).body


def test_chat_prompts_meet_their_length_by_two_probes() -> None:
    seen, server = observed(table(3, inputs=120), endpoint="chat")
    assert not seen.server.vocabulary.exact
    assert abs(server.job(1).n_prompt - 120) <= 1


def test_a_plain_server_gets_plain_requests_and_the_trace_says_so() -> None:
    fields = {"return_token_ids", "ignore_eos", "min_tokens", "continuous_usage_stats"}
    behaviour = Behaviour(
        identity="none", tokenizer=False, refused=frozenset(fields | {"token_prompt"})
    )
    seen, server = observed(table(3), behaviour)
    dialect = seen.server.dialect
    assert dialect.name == "plain"
    assert [dialect.token_prompts, dialect.ignore_eos, dialect.token_ids] == [False] * 3
    assert isinstance(server.job(1).body["prompt"], str)
    assert {record.counted_by for record in seen.records} == {"chunks"}
    assert len(seen.server.notes) >= len(fields)


def test_servers_are_recognised() -> None:
    for identity, version in (("vllm", "0.0.fake"), ("llamacpp", "b1-fake"), ("none", "")):
        seen, _ = observed(table(1), Behaviour(identity=identity))
        assert seen.server.dialect.name == ("plain" if identity == "none" else identity)
        assert seen.server.version == version


def test_a_server_in_dev_mode_tells_its_limits() -> None:
    seen, _ = observed(table(1), Behaviour(dev_mode=True, max_num_seqs=33))
    assert seen.server.facts == {"max_num_seqs": 33}


def test_shared_prefixes_hit_the_servers_cache() -> None:
    requests = table(6, gap=0.05, prefix_stream=[1] * 6, prefix_tokens=[32] * 6)
    seen, _ = observed(requests)
    assert [record.cached_tokens for record in seen.records] == [0, 32, 32, 32, 32, 32]


def test_a_second_run_does_not_hit_the_prompts_of_the_first() -> None:
    with running() as server:
        settings = ObserveSettings(url=server.url)
        for _ in range(2):
            seen = observe(settings, table(3, inputs=64))
            assert [record.cached_tokens for record in seen.records] == [0, 0, 0]
        again = ObserveSettings(url=server.url, prompt_seed=seen.settings.prompt_seed)
        assert all(r.cached_tokens > 0 for r in observe(again, table(3, inputs=64)).records)


def test_sessions_repeat_their_history_and_hit_the_cache() -> None:
    spec = {
        "rate": 20,
        "n_requests": 6,
        "input_tokens": 40,
        "output_tokens": 8,
        "session": {"turns": 3, "think_time": "20ms"},
    }
    requests = materialise(workload_from_mapping(spec, "test"), 0)
    seen, server = observed(requests)
    turns = {record.row: record for record in seen.records}
    for row, parent in enumerate(requests.parent.tolist()):
        if parent >= 0:
            history = server.job(parent).body["prompt"]
            assert server.job(row).body["prompt"][: len(history)] == history
            assert server.job(row).n_prompt == requests.input_tokens[row]
            assert turns[row].cached_tokens >= requests.input_tokens[parent] // 16 * 16


def test_counters_are_scraped_before_during_and_after() -> None:
    for old_names in (False, True):
        behaviour = Behaviour(old_names=old_names)
        seen, _ = observed(table(20, gap=0.03, outputs=10), behaviour, scrape_interval=0.1)
        gained = seen.scrapes.increases()
        assert gained["generation_tokens"] == 200
        assert gained["prefix_queries"] == 20 * 40
        assert len(seen.scrapes.pages) >= 4
        assert seen.scrapes.pages[-1].settings["kv_blocks"] == 777
        assert seen.scrapes.peaks()["running"] >= 1


def test_a_server_without_metrics_is_observed_all_the_same() -> None:
    seen, _ = observed(table(2), Behaviour(identity="none"))
    assert seen.scrapes.pages == []
    assert seen.scrapes.n_failed >= 2
    assert [record.status for record in seen.records] == ["ok", "ok"]


def test_idle_connections_are_used_again_but_not_after_the_servers_keep_alive() -> None:
    from tailcast.observe.link import _IDLE_SECONDS

    assert _IDLE_SECONDS < 5
    with running() as server:
        before = server.n_connections
        observe(ObserveSettings(url=server.url), table(10, gap=0.1, outputs=1))
        assert server.n_connections - before <= 4


def test_warm_up_requests_are_sent_and_not_recorded() -> None:
    seen, server = observed(table(2), warm_up=3)
    assert len(seen.records) == 2
    assert sum(job.n_prompt == 32 for job in server.jobs) == 3


def test_progress_counts_everything() -> None:
    seen: list[Progress] = []
    with running(Behaviour(per_step=0.05)) as server:
        settings = ObserveSettings(url=server.url)
        observe(settings, table(3, gap=0.6, outputs=20), progress=seen.append)
    assert seen
    assert seen[-1].n_request == 3
    assert all(now.n_sent >= now.n_open for now in seen)


def test_what_cannot_work_is_said_at_once() -> None:
    with pytest.raises(InputError, match="no request"):
        observe(ObserveSettings(url="localhost:1"), table(0))
    with pytest.raises(ServerError, match="no answer"):
        observe(ObserveSettings(url="127.0.0.1:9"), table(1))
    with running() as server:
        with pytest.raises(UsageError, match="does not serve 'other'"):
            observe(ObserveSettings(url=server.url, llm="other"), table(1))
        with pytest.raises(InputError, match="max_model_len"):
            observe(ObserveSettings(url=server.url), table(1, inputs=5000))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"url": "ftp://x"}, "no http address"),
        ({"url": "http://me:secret@host"}, "user name or password"),
        ({"url": "h", "endpoint": "chats"}, "did you mean 'chat'"),
        ({"url": "h", "dialect": "vlm"}, "did you mean 'vllm'"),
        ({"url": "h", "timeout": 0.0}, "timeout must be positive"),
        ({"url": "h", "prompt_seed": -1}, "prompt_seed must not be negative"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as raised:
        ObserveSettings(**settings)  # type: ignore[arg-type]
    assert "secret" not in str(raised.value)


def test_https_is_read_as_http_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl on the path to make a certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", str(key), "-out", str(certificate)),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with running(Behaviour(tls=tls)) as server:
        settings = ObserveSettings(url=server.url)
        with pytest.raises(ServerError, match="CERTIFICATE_VERIFY_FAILED"):
            observe(settings, table(1))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        seen = observe(settings, table(8))
    assert [(record.status, record.n_tokens) for record in seen.records] == [("ok", 6)] * 8


@pytest.fixture
def paced_server() -> Iterator[str]:
    """Address of a fake server in a process of its own, 30 ms a step."""
    process = subprocess.Popen(
        [sys.executable, "-m", "observe.fake_server", "--per-step", "0.03"],
        cwd=TESTS,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    process.kill()
    process.wait()
    process.stdout.close()


def test_two_hundred_streams_lose_and_double_no_token(paced_server: str) -> None:
    requests = table(200, gap=0.005, inputs=30, outputs=60)
    seen = observe(ObserveSettings(url=paced_server, scrape_interval=0.3), requests)
    assert len(seen.records) == 200
    assert {record.status for record in seen.records} == {"ok"}
    assert {record.n_tokens for record in seen.records} == {60}
    assert all(math.isfinite(value) for value in (seen.lateness.send_p50, seen.lateness.read_p99))
    assert seen.lateness.send_p50 <= seen.lateness.send_p99 <= seen.lateness.send_max
    assert seen.scrapes.peaks()["running"] > 100
