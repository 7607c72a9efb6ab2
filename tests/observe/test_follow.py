"""Windows of live replicas, the tuner behind them, its state and its own metrics."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from observe.fake_vllm_metrics import serve
from observe.prometheus_server import prometheus, prometheus_binary
from tailcast.errors import InputError, UsageError
from tailcast.observe.exposition import MetricsPage, parse_listen
from tailcast.observe.follow import (
    Follower,
    FollowSettings,
    restore_follower,
    save_state,
)
from tailcast.observe.live import (
    PageSource,
    PrometheusSource,
    Scrape,
    counters_of,
    live_source,
)
from tailcast.observe.metrics import pages_by_engine, read_page
from tailcast.observe.settings import ServerError
from tailcast.queueing.counters import Counters
from tailcast.queueing.parameter_prior import numbers_prior
from tailcast.queueing.server import ServerLimits, ThreeNumbers, three_numbers_ms
from tailcast.queueing.tuner import Tuner
from tailcast.report.tune import exposition

TRUTH = ThreeNumbers(alpha=6.678e-4, beta=2.008e-6, gamma=5.516e-9)


def follower(window: float = 60.0) -> Follower:
    prior = numbers_prior(three_numbers_ms(6.0, 0.025, 5e-5), (0.3, 0.4, 0.5))
    return Follower(tuner=Tuner(prior, ServerLimits()), settings=FollowSettings(window=window))


def steady(time: float, *, replica: str = "a", rate: float = 2.0, base: float = 0.0) -> Scrape:
    """Counters of a steady replica: 40 ms, 9 ms, 1024 prompt and 200 output tokens."""
    n = base + rate * time
    return Scrape(
        replica=replica,
        counters=Counters(
            time=time,
            first_tokens=n,
            ttft_sum=0.04 * n,
            prompt_tokens=1024 * n,
            gaps=199 * n,
            gap_sum=199 * 0.009 * n,
            finished=n,
            output_tokens=200 * n,
        ),
    )


class Recorded:
    """A source that plays scrapes back."""

    def __init__(self, scrapes: list[Scrape]) -> None:
        self._scrapes = scrapes

    def scrapes(self, since: float, now: float) -> list[Scrape]:
        return [s for s in self._scrapes if since < s.counters.time <= now]


def test_windows_do_not_overlap_whatever_the_looks() -> None:
    scrapes = [steady(15.0 * k) for k in range(1, 42)]
    often, once = follower(), follower()
    windows = [w for k in range(1, 42) for w in often.poll(Recorded(scrapes), 15.0 * k)]
    assert [w.time for w in windows] == [15.0 + 60.0 * k for k in range(1, 11)]
    assert sum(w.counted.n_request for w in windows) == 2 * 600
    for scrape in scrapes:
        list(once.take(scrape))
    assert once.to_json() == often.to_json()


def test_each_replica_has_windows_of_its_own() -> None:
    one = follower()
    scrapes = [steady(15.0 * k, replica=name) for k in range(1, 10) for name in ("a", "b")]
    windows = [w for scrape in scrapes for w in one.take(scrape)]
    assert [w.replica for w in windows] == ["a", "b", "a", "b"]
    assert one.tuner.n_window == 4


def test_a_window_waits_for_enough_requests() -> None:
    one = follower()
    windows = [w for k in range(1, 42) for w in one.take(steady(15.0 * k, rate=0.1))]
    assert [w.counted.n_request for w in windows] == pytest.approx([10.5] * len(windows), abs=1.0)
    assert len(windows) == 5


def test_a_restart_begins_a_new_window_and_a_hole_too() -> None:
    one = follower()
    list(one.take(steady(15.0, base=1000.0)))
    assert list(one.take(steady(90.0))) == []  # counters fell
    assert one.n_restart == 1
    assert len(list(one.take(steady(150.0)))) == 1
    assert list(one.take(steady(900.0))) == []  # nobody looked for long
    assert len(list(one.take(steady(960.0)))) == 1


def test_cached_prompts_are_told() -> None:
    one = follower()
    list(one.take(replace(steady(15.0), cached_tokens=0.0)))
    (window,) = one.take(replace(steady(75.0), cached_tokens=60 * 1024.0))
    assert window.cached_share == pytest.approx(0.5)


def test_a_saved_follower_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    whole, path = follower(), tmp_path / "state.json"
    part = follower()
    for k in range(1, 12):
        list(whole.take(steady(15.0 * k)))
        list(part.take(steady(15.0 * k)))
    save_state(part, path)
    assert [p.name for p in tmp_path.iterdir()] == ["state.json"]
    again = restore_follower(path.read_text(), FollowSettings())
    for k in range(12, 30):
        list(whole.take(steady(15.0 * k)))
        list(again.take(steady(15.0 * k)))
    assert again.tuner.n_window == whole.tuner.n_window
    assert again.tuner.belief.log_mean == pytest.approx(whole.tuner.belief.log_mean, abs=1e-9)


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    state = json.loads(follower().to_json())
    state["followed"] = {"a": {"counters": {"time": 1.0}}}
    with pytest.raises(InputError, match="followed"):
        restore_follower(json.dumps(state), FollowSettings())
    with pytest.raises(UsageError, match="state"):
        save_state(follower(), tmp_path / "nowhere" / "state.json")


def test_engines_on_one_page_are_replicas_and_shared_lines_belong_to_each() -> None:
    text = (
        'vllm:num_requests_running{engine="0"} 3\n'
        'vllm:num_requests_running{engine="1"} 4\n'
        "vllm:num_preemptions_total 5\n"
    )
    pages = pages_by_engine(text)
    assert pages["0"].values == {"running": 3, "preemptions": 5}
    assert pages["1"].values == {"running": 4, "preemptions": 5}
    assert list(pages_by_engine("vllm:num_requests_running 3\n")) == [""]


def test_a_page_without_first_tokens_has_no_counters() -> None:
    assert counters_of(read_page("vllm:num_requests_running 3\n").values, 0.0) is None


@pytest.fixture
def fake_page() -> Iterator[int]:
    server = serve(TRUTH)
    yield int(server.server_address[1])
    server.shutdown()
    server.server_close()


def test_a_servers_own_page_is_found_and_followed(fake_page: int) -> None:
    source = live_source(f"127.0.0.1:{fake_page}")
    assert isinstance(source, PageSource)
    (scrape,) = source.scrapes(-math.inf, 0.0)
    assert scrape.replica == f"127.0.0.1:{fake_page}"
    with pytest.raises(InputError, match="selector"):
        live_source(f"127.0.0.1:{fake_page}", 'pod="a"')


def test_nobody_and_somebody_else_are_refused(fake_page: int) -> None:
    with pytest.raises(ServerError, match="no answer"):
        live_source("127.0.0.1:9")
    with MetricsPage("127.0.0.1", 0) as page:
        page.show("python_info 1\n")
        with pytest.raises(ServerError, match="vLLM"):
            PageSource(f"127.0.0.1:{page.port}").scrapes(0.0, 1.0)
    with pytest.raises(ServerError, match="HTTP 501"):
        PrometheusSource(f"127.0.0.1:{fake_page}").scrapes(0.0, 1.0)


def test_the_tuners_own_page_reads_as_prometheus_text() -> None:
    one = follower()
    last = None
    for k in range(1, 12):
        for last in one.take(steady(15.0 * k)):  # noqa: B007
            pass
    with MetricsPage("127.0.0.1", 0) as page:
        page.show(exposition(one, last, 3, 0.89))
        with urlopen(f"http://127.0.0.1:{page.port}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            text = answer.read().decode()
        with pytest.raises(HTTPError):
            urlopen(f"http://127.0.0.1:{page.port}/other")
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    low, middle, high = (
        float(samples[f'tailcast_alpha_seconds{{stat="{stat}"}}'])
        for stat in ("low", "median", "high")
    )
    assert low < middle < high
    assert samples["tailcast_windows_total"] == "2"
    assert samples["tailcast_poll_failures_total"] == "3"
    helped = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert {name.split("{")[0] for name in samples} == helped


def test_listen_takes_a_port_or_host_and_port() -> None:
    assert parse_listen("9108") == ("127.0.0.1", 9108)
    assert parse_listen("0.0.0.0:9108") == ("0.0.0.0", 9108)
    assert parse_listen("[::1]:9108") == ("::1", 9108)
    with pytest.raises(UsageError, match="listen"):
        parse_listen("localhost")


@pytest.fixture(scope="session")
def prometheus_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prometheus_binary(tmp_path_factory.getbasetemp().parent / "prometheus")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_tune_finds_the_truth_behind_a_real_prometheus(
    prometheus_program: Path, tmp_path: Path
) -> None:
    """Two replicas with known numbers; counters without noise, so the interval must hold them."""
    import subprocess
    import sys

    servers = [serve(TRUTH), serve(TRUTH)]
    targets = {f"pod-{k}": int(s.server_address[1]) for k, s in enumerate(servers)}
    state = tmp_path / "state.json"
    words = [
        *(sys.executable, "-c", "from tailcast.cli.main import main; main()", "tune"),
        *("--numbers", "0.8ms+-30%,1.7us+-40%,7ns+-50%", "--window", "2s"),
        *("--windows", "30", "--state", str(state), "--format", "json"),
    ]
    with prometheus(tmp_path, prometheus_program, targets) as url:
        run = subprocess.run(
            [*words, "--prometheus", url, "--selector", 'job="vllm"'],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    for server in servers:
        server.shutdown()
        server.server_close()
    assert run.returncode == 0, run.stderr
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert {line["replica"] for line in lines} == {"pod-0", "pod-1"}
    last = lines[-1]["estimates"]
    for name in ("alpha", "beta", "gamma"):
        truth = getattr(TRUTH, name)
        assert last[name]["low"] < truth < last[name]["high"], (name, last[name])
        assert last[name]["high"] < 3.0 * last[name]["low"]
    assert restore_follower(state.read_text(), FollowSettings()).tuner.n_window == 30
