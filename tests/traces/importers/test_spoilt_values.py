"""Files in which single values are of another type or size: an error of ours, never a crash."""

import json
import random
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tailcast.errors import TailcastError
from tailcast.report.trace import imported_json, imported_text
from tailcast.traces.experiment_file import Told
from tailcast.traces.importers.reading import IMPORTERS, read_any
from tailcast.traces.importers.writing import write_imported
from traces.tool_files import MAKERS

VALUES: tuple[Any, ...] = (None, "x", "", [], {}, -1, 0, 1e300, 10**30, True, [1], {"a": 1}, 1.5)
CELLS = ("", "x", "-1", "nan", "1e300", "99999999999999999999", ",", '"', "2023-13-45")
NAMES = [importer.name for importer in IMPORTERS]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of everything inside a JSON value; of long lists the beginning."""
    inside: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else ()
    inside = enumerate(value[:6]) if isinstance(value, list) else inside
    for key, item in inside:
        yield (*path, key)
        yield from places(item, (*path, key))


def spoil_json(value: Any, rng: random.Random) -> None:
    """Replace or take away one thing inside."""
    *way, last = rng.choice(list(places(value)))
    for key in way:
        value = value[key]
    if rng.random() < 0.1:
        del value[last]
    else:
        value[last] = rng.choice(VALUES)


def spoil(path: Path, rng: random.Random) -> None:
    """Spoil one value of a file."""
    text = path.read_text()
    if path.suffix in {".json", ".jsonl"}:
        parts = [text] if path.suffix == ".json" else text.splitlines()
        values = [json.loads(part) for part in parts]
        spoil_json(rng.choice(values), rng)
        path.write_text("\n".join(map(json.dumps, values)) + "\n")
    else:
        cells = text.split(",")
        cells[rng.randrange(len(cells))] = rng.choice(CELLS)
        path.write_text(",".join(cells))


@pytest.mark.parametrize("name", NAMES)
def test_a_spoilt_value_is_read_or_refused_and_never_a_crash(name: str, tmp_path: Path) -> None:
    told = Told(model="llama-3.1-8b", gpu="h100-sxm", rate=2.0)
    refused = 0
    for seed in range(25):
        rng = random.Random(f"{name} {seed}")
        path = MAKERS[name](tmp_path / str(seed))
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        spoil(rng.choice(files), rng)
        try:
            found = read_any(path, name=name)
            imported_text(found, "table")
            json.dumps(imported_json(found), default=str)
            for to in ("tracev2", "experiment", "steps"):
                with suppress(TailcastError):
                    write_imported(found, tmp_path / f"{seed}{to}", to=to, told=told)
        except TailcastError:
            refused += 1
    assert refused or name == "vllm-steps"  # which passes over lines that are no steps
