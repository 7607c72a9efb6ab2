"""Compiled code is kept for one version of its sources."""

from pathlib import Path

import pytest

from tailcast.engine.source_cache import SourceCache
from tailcast.engine.source_digest import source_digest


def test_a_change_in_any_source_changes_the_digest(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.py", "b.py")]
    for file in files:
        file.write_text("x = 1\n")
    before = source_digest(files)
    assert source_digest(reversed(files)) == before
    files[1].write_text("x = 2\n")
    assert source_digest(files) != before


def _entry(x: float) -> float:
    return x


def test_the_digest_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))

    class Codegen:
        """What numba asks for the machine."""

        def magic_tuple(self) -> tuple[str]:
            """Name of the machine."""
            return ("any",)

    keys = [SourceCache(_entry, digest)._index_key((), Codegen()) for digest in ("one", "two")]
    assert keys[0] != keys[1]
    assert keys[0][:-1] == keys[1][:-1]
