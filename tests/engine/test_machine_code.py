"""Compiled code is kept on disk for one version of its sources and loaded without numba."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tailcast.engine.kernel import kernel
from tailcast.engine.machine_code import machine_code

_WARM = """
import tailcast.engine.run, sys
from tailcast.engine.kernel import kernel
kernel()
print("numba" in sys.modules)
"""


@pytest.fixture(scope="module")
def code() -> tuple[str, bytes]:
    """Symbol and object file of a function that gives a + 2 b."""
    numba = pytest.importorskip("numba")
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
    integer = numba.types.int64
    function = numba.njit(integer(integer, integer), **options)(lambda a, b: a + 2 * b)
    result = function.overloads[integer, integer]
    return result.fndesc.llvm_func_name, result.library.serialize_using_object_code()[2][0]


class Compiler:
    """Gives the code and counts how often it is asked for it."""

    def __init__(self, code: tuple[str, bytes]) -> None:
        self.code = code
        self.calls = 0

    def __call__(self) -> tuple[str, bytes]:
        self.calls += 1
        return self.code


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source file."""
    path = tmp_path / "source.py"
    path.write_text("x = 1\n")
    return path


@pytest.fixture
def load(
    code: tuple[str, bytes], source: Path, tmp_path: Path
) -> tuple[Compiler, Callable[[], Callable[..., int]]]:
    """A compiler, and what loads its code from a folder."""
    compiler = Compiler(code)
    return compiler, lambda: machine_code("f", 2, [source], compiler, [tmp_path / "kept"])


def test_code_is_compiled_once(load: tuple[Compiler, Callable[[], Callable[..., int]]]) -> None:
    compiler, again = load
    assert [again()(3, -5), again()(1 << 40, 1)] == [-7, (1 << 40) + 2]
    assert compiler.calls == 1


def test_a_change_of_the_source_compiles_anew(
    load: tuple[Compiler, Callable[[], Callable[..., int]]], source: Path
) -> None:
    compiler, again = load
    again()
    source.write_text("x = 2\n")
    assert again()(1, 1) == 3
    assert compiler.calls == 2


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda _: b"", lambda b: b[:20] + b"x" + b])
def test_a_damaged_file_is_not_loaded(
    load: tuple[Compiler, Callable[[], Callable[..., int]]],
    tmp_path: Path,
    damage: Callable[[bytes], bytes],
) -> None:
    compiler, again = load
    again()
    (file,) = (tmp_path / "kept").iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert again()(1, 1) == 3
    assert compiler.calls == 2
    assert file.read_bytes() == whole


def test_nowhere_to_keep_it_is_no_hindrance(
    code: tuple[str, bytes], source: Path, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    compiler = Compiler(code)
    for _ in range(2):
        assert machine_code("f", 2, [source], compiler, [file / "below"])(1, 1) == 3
    assert compiler.calls == 2
    assert machine_code("f", 2, [source], compiler, [file / "below", tmp_path])(1, 1) == 3
    assert machine_code("f", 2, [source], compiler, [file / "below", tmp_path])(1, 1) == 3
    assert compiler.calls == 3


def test_a_warm_start_does_without_numba() -> None:
    kernel()
    done = subprocess.run([sys.executable, "-c", _WARM], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
