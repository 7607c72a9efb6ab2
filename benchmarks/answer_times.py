"""How long a person waits: imports, --help, the first answer with and without compiled kernels."""

import tempfile
from typing import Any

from measure import Finished, python_child

from tailcast.artifacts import DEFAULT_POSTERIOR, artifact_names

_MAIN = "from tailcast.cli.main import main; main({words!r})"
_QUESTION = "predict --model qwen3-14b --gpu h100 --rate 12 --input-tokens 512 --output-tokens 256"


def answer_times(*, cold: bool) -> list[dict[str, Any]]:
    """Wall and CPU seconds of whole processes, the second of two runs where it says warm."""
    shipped = DEFAULT_POSTERIOR in artifact_names("posteriors")
    asked = _QUESTION.split() + ([] if shipped else ["--posterior", "roofline"])
    what = "predict, 200 draws" if shipped else "predict, roofline (no posterior shipped)"
    blis = [*_QUESTION.split(), "--mode", "blis"]
    cases = {
        "import tailcast": "import tailcast",
        "import of the engine": "import tailcast.engine.run",
        "tailcast --help": _MAIN.format(words=["--help"]),
        f"{what}, warm": _MAIN.format(words=asked),
        "predict --mode blis, warm": _MAIN.format(words=blis),
    }
    rows = []
    for name, code in cases.items():
        python_child(code)
        rows.append(_row(name, python_child(code)))
    if cold:
        with tempfile.TemporaryDirectory() as empty:
            code = _MAIN.format(words=asked)
            found = python_child(code, environment={"NUMBA_CACHE_DIR": empty})
            rows.append(_row(f"{what}, cold (compiles)", found))
    return rows


def _row(name: str, found: Finished) -> dict[str, Any]:
    return {"process": name, "wall_s": found.wall, "cpu_s": found.cpu}
