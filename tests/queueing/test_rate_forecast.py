"""Rates that are not known exactly."""

from pathlib import Path

import numpy as np
import pytest

from tailcast.errors import InputError, UsageError
from tailcast.queueing.rate_forecast import parse_forecast
from tailcast.streams import stream


@pytest.mark.parametrize("text", ["480rpm", "8rps", "8"])
def test_a_plain_rate_is_exact(text: str) -> None:
    forecast = parse_forecast(text)
    assert forecast.exact
    assert forecast.draws(5, stream(0, "x")) == pytest.approx(8.0)


@pytest.mark.parametrize("sign", ["±", "+-", "+/-"])
def test_a_spread_is_the_sd_of_the_log(sign: str) -> None:
    draws = parse_forecast(f"480rpm{sign}20%").draws(4000, stream(0, "x"))
    assert np.median(draws) == pytest.approx(8.0, rel=1e-3)
    assert np.log(draws).std() == pytest.approx(0.2, rel=0.01)


def test_a_file_holds_one_rate_a_line(tmp_path: Path) -> None:
    path = tmp_path / "rates.txt"
    path.write_text("# forecast\n120rpm\n4rps\n\n6\n")
    forecast = parse_forecast(str(path))
    assert forecast.quantiles == pytest.approx([2.0, 4.0, 6.0])
    draws = forecast.draws(3, stream(0, "x"))
    assert sorted(draws) == pytest.approx([2.0, 4.0, 6.0])


def test_what_is_no_forecast_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rates.txt"
    path.write_text("fast\n")
    with pytest.raises(InputError, match=r"rates.txt:1"):
        parse_forecast(str(path))
    path.write_text("# nothing\n")
    with pytest.raises(InputError, match="no rates"):
        parse_forecast(str(path))
    for text in ("fast", "8rps+-900%", "0rps"):
        with pytest.raises(UsageError):
            parse_forecast(text)
