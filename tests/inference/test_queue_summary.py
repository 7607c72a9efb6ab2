"""A fit stored, read and put into words; draws of the prior stand in for a sampled posterior."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from queue_trees import N_CHAIN, N_DRAW, unsampled_fit
from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment
from tailcast.errors import InputError, UsageError
from tailcast.inference.queue_predict import known_from_fit
from tailcast.inference.queue_store import read_queue_fit, save_queue_fit
from tailcast.inference.queue_summary import mean_shape, summarise_fit
from tailcast.inference.queue_tree import queue_posterior
from tailcast.queueing.parameter_prior import numbers_prior
from tailcast.queueing.server import RequestShape, ServerLimits, three_numbers_ms
from tailcast.queueing.sizing import Targets
from tailcast.queueing.windows import Window
from tailcast.report.queue_fit import fit_json, fit_notes, fit_rows

PRIOR = numbers_prior(three_numbers_ms(6.7, 2e-2, 5.5e-5), source="a guess")
ONE = [Window(tokens_in=512, tokens_out=256, rate=4.0, ttft=0.03, itl=0.008)]
TWO = [*ONE, Window(tokens_in=2048, tokens_out=64, rate=2.0, itl=0.009)]


def tree_of(windows: list[Window]) -> xr.DataTree:
    return unsampled_fit(windows, PRIOR, ServerLimits(), seed=1)


def test_a_stored_fit_comes_back_the_same_and_in_the_same_bytes(tmp_path: Path) -> None:
    tree = tree_of(TWO)
    file = save_queue_fit(tree, tmp_path / "one" / "deep")
    again = save_queue_fit(tree, tmp_path / "two")
    assert file.read_bytes() == again.read_bytes()
    read = read_queue_fit(tmp_path / "two")
    assert read.attrs["schema"] == tree.attrs["schema"]
    assert "perf_counter_diff" not in read["sample_stats"].to_dataset()
    before, after = queue_posterior(tree), queue_posterior(read)
    assert after.draws.log_numbers == pytest.approx(before.draws.log_numbers, rel=1e-12)
    assert after.limits == before.limits
    assert read["posterior"]["alpha"].attrs["units"] == "s"


def test_what_is_no_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_queue_fit(tmp_path)
    (tmp_path / "posterior.nc").write_bytes(b"nothing")
    with pytest.raises(InputError, match="not a readable fit"):
        read_queue_fit(tmp_path)
    other = tmp_path / "other.nc"
    xr.DataTree.from_dict({"/posterior": xr.Dataset({"x": 1.0})}).to_netcdf(
        other, engine="h5netcdf"
    )
    with pytest.raises(InputError, match="not a fit of the three numbers"):
        read_queue_fit(other)
    with pytest.raises(UsageError, match="cannot be written"):
        save_queue_fit(tree_of(ONE), other / "below")


def test_one_shape_is_said_to_tell_only_a_sum() -> None:
    summary = summarise_fit(tree_of(ONE), Targets(ttft=0.06), seed=1)
    text = " ".join(summary.remarks)
    assert "one request shape (i512-o256)" in text
    assert text.count("Not told by these windows") == len(summary.unseen) == 3
    assert "Next, measure" in text
    two = summarise_fit(tree_of(TWO), Targets(), seed=1)
    assert "one request shape" not in " ".join(two.remarks)
    assert two.fitted["ttft"].n == 1
    assert two.fitted["itl"].n == 2


def test_targets_out_of_reach_are_named() -> None:
    summary = summarise_fit(tree_of(ONE), Targets(ttft=1e-4), seed=1)
    assert summary.advice is None
    assert "out of reach" in " ".join(summary.remarks)
    assert summary.capacity.p_infeasible == 1.0


def test_the_mean_shape_lies_between_the_windows() -> None:
    shape = mean_shape(tree_of(TWO))
    assert float(shape.tokens_in) == pytest.approx(np.sqrt(513 * 2049) - 1)
    assert float(shape.tokens_out) == pytest.approx(128.0)


def test_a_summary_is_put_into_rows_notes_and_json() -> None:
    deployment = Deployment(
        llm=llm("llama-3.1-8b"), accelerator=accelerator("h100-sxm"), tensor_parallel=1
    )
    summary = summarise_fit(
        tree_of(ONE),
        Targets(itl=0.02),
        shape=RequestShape(tokens_in=1024.0, tokens_out=128.0),
        deployment=deployment,
        seed=2,
    )
    header, rows = fit_rows(summary, 0.89)
    assert {len(row) for row in rows} == {len(header)}
    by_name = {row[0]: row for row in rows}
    assert by_name["alpha"][2].endswith("ms")
    assert "at 1024/128 tokens" in by_name["capacity of one"][1]
    assert by_name["share compute"][2].endswith("%")
    notes = fit_notes(summary, 0.89)
    assert notes[0].startswith("1 window of 1 shape; prior: a guess. Intervals: 89%")
    content = fit_json(summary, 0.89)
    alpha = content["numbers"]["alpha"]
    assert alpha["low"] < alpha["median"] < alpha["high"]
    assert alpha["unit"] == "s"
    assert content["capacity"]["tokens_in"] == 1024.0
    assert len(content["unseen"]) == 3
    assert (
        content["next_measurement"]["capacity_log_sd_after"]
        < (content["next_measurement"]["capacity_log_sd_before"])
    )


def test_a_fit_is_known_numbers_for_other_commands() -> None:
    shape = RequestShape(tokens_in=512.0, tokens_out=256.0)
    known = known_from_fit(tree_of(ONE), shape, seed=1, source="fit")
    assert not known.exact
    assert known.log_draws.shape == (N_CHAIN * N_DRAW, 3)
    assert np.shape(known.discrepancy.ttft_factor) == (N_CHAIN * N_DRAW,)
    assert known.source == "fit"


@pytest.mark.slow
def test_plots_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from tailcast.report.queue_fit_plots import plot_queue_fit

    made = plot_queue_fit(tree_of(ONE), tmp_path)
    assert [path.name for path in made] == ["prior_posterior.png", "pairs.png", "rank.png"]
    many = plot_queue_fit(tree_of([*TWO, *TWO, *TWO]), tmp_path)
    assert {"coverage.png", "windows.png"} <= {path.name for path in many}
    assert all(path.stat().st_size > 5000 for path in many)
