"""Windows are found in every file that holds rates, lengths and mean latencies."""

from pathlib import Path

import numpy as np
import pytest

from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment
from tailcast.errors import InputError, UsageError
from tailcast.inference.queue_sources import read_windows
from traces.tool_files import guidellm, guidellm_csv, guidellm_metrics

TABLE = "tokens_in,tokens_out,rate_rps,ttft_ms,itl_ms\n512,256,4,30,8\n1024,64,2,,7.5\n"


def test_a_table_of_windows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "windows.csv"
    path.write_text(TABLE)
    found = read_windows([path, path], 60.0)
    assert len(found.windows) == 4
    assert found.deployment is None
    assert found.limits is None
    assert found.windows[0].ttft == pytest.approx(0.03)
    assert np.isnan(found.windows[1].ttft)
    assert found.windows[1].label == "line 3"


def test_a_path_without_windows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_windows([tmp_path / "absent.csv"], 60.0)
    empty = tmp_path / "empty.csv"
    empty.write_text(TABLE.splitlines()[0] + "\n")
    with pytest.raises(InputError, match="no window"):
        read_windows([empty], 60.0)


def test_the_sweep_counts_what_it_leaves_out(shared_data: Path) -> None:
    found = read_windows([shared_data / "public" / "inferno-guidellm-llama31-8b"], 60.0)
    assert len(found.windows) == 112
    assert "112 of 160 runs" in found.notes[0]


def test_experiments_name_their_deployment_and_limits(shared_data: Path) -> None:
    train = shared_data / "experiments" / "train"
    with pytest.raises(UsageError, match="have different numbers"):
        read_windows([train], 60.0)
    wanted = Deployment(
        llm=llm("mistral-nemo"), accelerator=accelerator("h100-sxm"), tensor_parallel=1
    )
    found = read_windows([train], 60.0, wanted)
    assert found.deployment is not None
    assert found.deployment.llm.name == "mistral-nemo"
    assert found.limits is not None
    assert any("of another deployment" in note for note in found.notes)
    assert all(0.001 < window.itl < 0.1 for window in found.windows)


def test_a_trace_is_cut_into_windows(shared_data: Path) -> None:
    found = read_windows([shared_data / "cpu_engine_trace"], 60.0)
    assert len(found.windows) >= 2
    assert any("accelerator" in note for note in found.notes)
    halves = read_windows([shared_data / "cpu_engine_trace"], 30.0)
    assert len(halves.windows) > len(found.windows)


def test_a_short_trace_is_one_window(shared_data: Path) -> None:
    found = read_windows([shared_data / "cpu_engine_trace"], 1e6)
    assert len(found.windows) == 1
    assert any("taken as one window" in note for note in found.notes)


def test_other_tools_statistics_are_windows(tmp_path: Path) -> None:
    (window,) = read_windows([guidellm_metrics(tmp_path)], 60.0).windows
    assert (window.rate, window.tokens_in, window.tokens_out) == (8.0, 40.0, 4.0)
    assert window.ttft == pytest.approx(0.06)
    assert window.itl == pytest.approx((0.15 - 0.06) / 3)
    (spoilt,) = read_windows([guidellm_csv(tmp_path)], 60.0).windows
    assert spoilt.ttft == pytest.approx(0.06)  # the mean in that file lies below the minimum
    with pytest.raises(InputError, match="no window of"):
        read_windows([guidellm(tmp_path)], 60.0)  # three requests
