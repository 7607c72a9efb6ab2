"""Every posterior that ships meets `posteriors/DEFINITION.md`."""

import pytest

from tailcast.diagnostics.check import check_posterior
from tailcast.diagnostics.definition import failures
from tailcast.posteriors import load_posterior, posterior_names


@pytest.mark.parametrize("name", posterior_names())
def test_shipped_posterior_meets_the_definition(name: str) -> None:
    found = check_posterior(load_posterior(name))
    assert [f"{r.name}: {r.found}, {r.limit} {r.note}" for r in failures(found.requirements)] == []
