"""How long a person waits: imports, --help, the first answer with and without compiled kernels."""

import tempfile
from collections.abc import Sequence
from typing import Any

from measure import Finished, python_child

from tailcast.artifacts import DEFAULT_POSTERIOR, artifact_names

_MAIN = "from tailcast.cli.main import main; main({words!r})"
_QUESTION = (
    "predict --model meta-llama/Llama-3.1-8B-Instruct --gpu h100-sxm -tp 1 --rate 12 "
    "--input-tokens 512 --output-tokens 256"
)
_OBJECTIVE = " --slo ttft.p99=300ms"
HELP = "tailcast --help"
PREDICT = "predict, 200 draws, warm"


def answer_times(*, cold: bool) -> list[dict[str, Any]]:
    """Wall and CPU seconds of whole processes, the least of three after one that warms up."""
    shipped = DEFAULT_POSTERIOR in artifact_names("posteriors")
    asked = (_QUESTION + _OBJECTIVE).split()
    blis = [*_QUESTION.split(), "--mode", "blis"]
    cases = {
        "import tailcast": "import tailcast",
        "import of the engine": "import tailcast.engine.run",
        HELP: _MAIN.format(words=["--help"]),
        "predict --posterior roofline, warm": _MAIN.format(
            words=[*_QUESTION.split(), "--posterior", "roofline"]
        ),
        "predict --mode blis, warm": _MAIN.format(words=blis),
    }
    if shipped:
        cases[PREDICT] = _MAIN.format(words=asked)
    rows = []
    for name, code in cases.items():
        python_child(code)
        rows.append(_row(name, [python_child(code) for _ in range(3)]))
    if cold and shipped:
        with tempfile.TemporaryDirectory() as empty:
            code = _MAIN.format(words=asked)
            found = python_child(code, environment={"NUMBA_CACHE_DIR": empty})
            rows.append(_row("predict, 200 draws, cold (compiles)", [found]))
    return rows


def _row(name: str, found: Sequence[Finished]) -> dict[str, Any]:
    return {
        "process": name,
        "wall_s": min(each.wall for each in found),
        "cpu_s": min(each.cpu for each in found),
    }
