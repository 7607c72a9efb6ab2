"""The page: whole in itself, the answer first, readable in a real browser."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tailcast.errors import InputError
from tailcast.report.page.charts import Axis, line
from tailcast.report.page.frame import answer, page, table
from tailcast.report.page.of_file import PAGES, page_of_file

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--enable-logging=stderr",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def slo_result() -> dict[str, Any]:
    """A small result of `tailcast slo`."""
    chance = {"p_miss": 0.04, "mcse": 0.01}
    chances = {f"p_miss_{name}": chance for name in ("window", "process", "window_law_only")}
    parts = {"coefficients": 0.01, "discrepancy": 0.02, "workload": 0.01, "finite_run": 0.03}
    engine = {"name": "vllm", "version": "0.15.1"}
    engine |= {"max_num_seqs": 128, "max_num_batched_tokens": 2048}  # type: ignore[dict-item]
    return {
        "schema": "tailcast/slo/1",
        "inputs": {
            "model": "llama-3.1-8b",
            "gpu": "h100-sxm-80gb",
            "tensor_parallel": 1,
            "engine": engine,
            "kv_blocks": 28082,
            "objectives": ["ttft.p99 <= 300 ms"],
            "posterior": "physics-h100-vllm015",
            "seed": 0,
        },
        "verdict": {
            "word": "yes",
            "reason": "P(miss) 4 % is within <5 %>",
            "advice": "go",
            "p_miss": 0.04,
            "mcse": 0.01,
            "risk": 0.05,
        },
        "objectives": [
            {
                "objective": "ttft.p99 <= 300 ms",
                "metric": "ttft",
                "median": 0.2,
                "low": 0.15,
                "high": 0.31,
                "log_variance": parts,
                **chances,
            }
        ],
        "joint": chances,
        "curves": [
            {
                "over": "rate",
                "points": [
                    {"at": 5.0, "p_miss": 0.0, "mcse": 0.01},
                    {"at": 12.0, "p_miss": 0.04, "mcse": 0.01},
                    {"at": 20.0, "p_miss": 0.9, "mcse": 0.02},
                ],
                "largest": {"value": 12.4, "low": 11.0, "high": 13.0},
            }
        ],
        "p_saturated": 0.0,
        "load": 0.4,
        "mode": "cold",
        "n_request": 1000,
        "draws": 200,
        "ci_prob": 0.89,
        "warnings": ["not in the posterior's data: llm llama-3.1-8b"],
    }


def evaluation_result() -> dict[str, Any]:
    """A small result of `tailcast evaluate`."""
    low = {"q05": 0.8, "q10": 0.85, "q25": 0.92, "q50": 1.0, "q75": 1.1, "q90": 1.2, "q95": 1.3}
    records = [
        {
            "experiment": str(k),
            "stage": 0,
            "metric": metric,
            "statistic": "mean",
            "observed": 0.05 * (k + 1),
            "pit": 0.1 + 0.2 * k,
            **{name: 0.05 * (k + 1) * value for name, value in low.items()},
        }
        for k in range(4)
        for metric in ("ttft", "e2e")
    ]
    summary = [
        {
            "metric": "ttft",
            "statistic": "mean",
            "n": 4,
            "median_ape": 0.05,
            "coverage50": 0.5,
            "coverage80": 0.75,
            "coverage90": 1.0,
            "mean_log_width90": 0.4,
        }
    ]
    return {
        "schema": "tailcast/evaluate/1",
        "posterior": {"name": "physics-h100-vllm015"},
        "records": [*records, {"experiment": "x", "error": "does not fit"}],
        "summary": summary,
    }


RESULTS = {"slo": slo_result, "evaluation": evaluation_result}


@pytest.fixture(params=sorted(RESULTS))
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A page on disk."""
    source, target = tmp_path / "result.json", tmp_path / "page.html"
    source.write_text(json.dumps(RESULTS[request.param]()))
    target.write_text(page_of_file(source), encoding="utf-8")
    return target


class Tags(HTMLParser):
    """Open tags that were never closed, and addresses of anything outside."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember the tag and whatever it would load."""
        self.addresses += [v or "" for k, v in attrs if k in {"src", "href", "action"}]
        if tag not in {"meta", "link", "line", "circle", "polygon", "polyline", "rect", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost tag, which must be this one."""
        if tag not in {"line", "circle", "polygon", "polyline", "rect"}:
            assert self.open.pop() == tag


def test_page_is_well_formed_and_needs_nothing_from_outside(written: Path) -> None:
    text = written.read_text()
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert set(tags.addresses) <= {"data:,"}
    assert "<script" not in text
    assert not re.search(r"url\(|@import|https?:", text)


def test_answer_comes_before_everything_else(written: Path) -> None:
    text = written.read_text()
    assert text.index('class="answer') < text.index("<section>")


def test_text_of_users_is_escaped() -> None:
    text = page("<b>", "&", [answer("a < b", small="<i>"), table(["<x>"], [["<script>"]])])
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert "a &lt; b" in text


def test_every_command_with_a_json_answer_has_a_page() -> None:
    assert set(PAGES) == {"tailcast/slo/1", "tailcast/evaluate/1", "tailcast/search/1"}


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"schema": "other/1"}', '{"schema": "tailcast/slo/1"}', "\x00\xff"],
    ids=["empty", "cut", "list", "other", "lacking", "binary"],
)
def test_bad_file_is_one_line(content: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError) as caught:
        page_of_file(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_axis_places_and_labels_its_ends() -> None:
    axis = Axis(label="x", low=1.0, high=100.0, log=True)
    assert axis.share(10.0) == pytest.approx(0.5)
    assert axis.share(1e-9) == 0.0
    assert axis.ticks() == [1.0, 10.0, 100.0]
    plain = Axis(label="x", low=0.0, high=1.0)
    assert len(plain.ticks()) == 6
    assert "polyline" in line(plain, plain, [(0.0, 0.0), (1.0, 1.0)])


def browse(path: Path, width: int, *, dark: bool = False) -> tuple[dict[str, Any], str]:
    """What a real browser makes of the page: sizes and colours, and its log."""
    found = next((b for b in map(shutil.which, BROWSERS) if b), None)
    if found is None:
        pytest.skip("no chromium here; install Debian's package chromium")
    probe = (
        "<script>document.title = JSON.stringify({wide: document.documentElement.scrollWidth,"
        "seen: innerWidth, back: getComputedStyle(document.body).backgroundColor,"
        "ink: getComputedStyle(document.body).color,"
        "answer: document.querySelector('.answer').getBoundingClientRect().top,"
        "charts: document.querySelectorAll('svg').length})</script></body>"
    )
    copy = path.with_name("probed.html")
    copy.write_text(path.read_text().replace("</body>", probe))
    scheme = [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    done = subprocess.run(
        [
            found,
            *FLAGS,
            *scheme,
            f"--window-size={width},900",
            f"--user-data-dir={path.parent / f'profile{width}{dark}'}",
            "--dump-dom",
            f"file://{copy}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    title = re.search(r"<title>(\{.*?\})</title>", done.stdout)
    assert title
    return json.loads(title[1].replace("&quot;", '"')), done.stderr


def brightness(colour: str) -> float:
    """Mean of the channels of ``rgb(...)``."""
    return sum(int(v) for v in re.findall(r"\d+", colour)[:3]) / 3


@pytest.mark.slow
def test_page_renders_in_a_browser_without_complaint(written: Path) -> None:
    seen, log = browse(written, 1000)
    assert "CONSOLE" not in log
    assert seen["charts"] >= 1
    assert seen["answer"] < 300
    assert brightness(seen["back"]) > 200
    assert brightness(seen["ink"]) < 90


@pytest.mark.slow
def test_page_is_readable_on_a_narrow_dark_screen(written: Path) -> None:
    seen, _ = browse(written, 400, dark=True)
    assert seen["wide"] <= seen["seen"]  # nothing but tables scrolls sideways
    assert brightness(seen["back"]) < 60
    assert brightness(seen["ink"]) > 180
