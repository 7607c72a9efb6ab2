"""Evidence to groups and back: nothing is lost, in memory and through a file."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from tailcast.inference.evidence import Evidence
from tailcast.inference.tree import evidence_of, evidence_tree
from tailcast.posteriors import load_posterior, posterior_names


def assert_same(one: Any, other: Any) -> None:
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b, err_msg=field.name)
        elif field.name == "emulator":
            assert_same(a, b)
        else:
            assert a == b, field.name


@pytest.mark.parametrize("name", posterior_names())
def test_stored_evidence_comes_back_the_same(name: str, tmp_path: Path) -> None:
    evidence = load_posterior(name).evidence()
    assert evidence.runs
    assert evidence.steps
    tree = xr.DataTree(children={"evidence": evidence_tree(evidence)})
    tree.to_netcdf(tmp_path / "evidence.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "evidence.nc", engine="h5netcdf") as stored:
        again = evidence_of(stored.load())
    assert [item.name for item in again.items] == [item.name for item in evidence.items]
    for one, other in zip(evidence.items, again.items, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("part", ["runs", "steps"])
def test_one_kind_alone_comes_back_too(part: str) -> None:
    whole = load_posterior(posterior_names()[0]).evidence()
    own: dict[str, Any] = {"runs": (), "steps": (), part: getattr(whole, part)}
    again = evidence_of(xr.DataTree(children={"evidence": evidence_tree(Evidence(**own))}))
    assert len(again.items) == len(own[part])
