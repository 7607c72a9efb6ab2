"""The shipped coefficients are BLIS's defaults, and a broken file is refused."""

from pathlib import Path

import pytest

from tailcast.engine.blis.coefficients import coefficients_from_lists, load_blis_coefficients
from tailcast.errors import InputError

ALPHA = [15563.199579, 777.3455, 45.907545]
BETA = [
    0.152128,
    0.0,
    1.36252915,
    0.752037,
    32.09546717,
    4.41684444,
    126.024825,
    481.8613888,
    0.0,
    1.94710771,
    0.752037,
]


def test_shipped_file_holds_iteration_29() -> None:
    assert load_blis_coefficients() == coefficients_from_lists(ALPHA, BETA)


@pytest.mark.parametrize(
    "text",
    [
        "[model]\nmode = 'vllm'\n",
        "[model]\nmode = 'blis'\n[coefficients.ingest]\nvalue = 1.0\n",
        "[model]\nmode = 'blis'\n[coefficients.ingst]\nvalue = 1.0\n",
        "[model]\nmode = 'blis'\n[coefficients.ingest]\nvalue = 'much'\n",
        "[model\n",
    ],
)
def test_broken_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.toml").write_text(text)
    with pytest.raises(InputError):
        load_blis_coefficients(str(tmp_path))
