"""A stored posterior read as plain arrays is the one that a DataTree holds."""

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from tailcast.artifacts import DEFAULT_POSTERIOR, artifact_folder
from tailcast.errors import InputError
from tailcast.inference.stored_population import stored_population
from tailcast.inference.tree import population_of
from tailcast.latency_model import load_latency_model
from tailcast.posteriors import FILE, read_arrays, read_tree


def test_plain_arrays_give_the_population_of_the_tree() -> None:
    path = artifact_folder("posteriors", DEFAULT_POSTERIOR) / FILE
    model = load_latency_model("physics")
    plain = stored_population(read_arrays(path, "posterior"), model)
    tree = population_of(read_tree(path), model)
    for field in fields(plain):
        np.testing.assert_equal(getattr(plain, field.name), getattr(tree, field.name))
    assert plain.n_draw > 100


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such file"), (b"", "not a readable"), (b"\x89HDF\r\n\x1a\n", "not a readable")],
)
def test_a_file_that_is_no_posterior_is_refused(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / FILE
    if content is not None:
        path.write_bytes(content)
    for read in (lambda: read_arrays(path, "posterior"), lambda: read_tree(path)):
        with pytest.raises(InputError, match=message):
            read()


def test_a_missing_group_or_variable_is_named() -> None:
    path = artifact_folder("posteriors", DEFAULT_POSTERIOR) / FILE
    with pytest.raises(InputError, match="no group 'nothing'"):
        read_arrays(path, "nothing")
    arrays = dict(read_arrays(path, "posterior"))
    del arrays["location"]
    with pytest.raises(InputError, match="no variable 'location'"):
        stored_population(arrays, load_latency_model("physics"))


@pytest.mark.parametrize("name", ["noise", "accelerator", "deployment"])
def test_a_variable_without_its_names_is_refused(name: str) -> None:
    path = artifact_folder("posteriors", DEFAULT_POSTERIOR) / FILE
    arrays = dict(read_arrays(path, "posterior"))
    del arrays[name]
    with pytest.raises(InputError, match=f"no variable '{name}'"):
        stored_population(arrays, load_latency_model("physics"))


@pytest.mark.parametrize("name", ["location", "noise_scale", "run_speed", "offset_llm"])
def test_draws_of_another_size_or_not_finite_are_refused(name: str) -> None:
    path = artifact_folder("posteriors", DEFAULT_POSTERIOR) / FILE
    model = load_latency_model("physics")
    good = read_arrays(path, "posterior")
    for damaged in (good[name][..., :-1], good[name][:, :-1], good[name][0, 0, 0]):
        with pytest.raises(InputError, match="' has shape"):
            stored_population({**good, name: damaged}, model)
    with pytest.raises(InputError, match=f"'{name}' has draws that are no number"):
        stored_population({**good, name: np.full_like(good[name], np.nan)}, model)


def test_predictions_load_no_slow_library() -> None:
    """They would take longer to import than the answer takes."""
    code = (
        "import sys; from tailcast.posteriors import load_posterior, read_arrays\n"
        "import h5py, tailcast.slo, tailcast.report.prediction\n"
        "print([name for name in ('xarray', 'pandas', 'scipy', 'numba') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
