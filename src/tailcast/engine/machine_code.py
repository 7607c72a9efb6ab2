"""Machine code on disk, loaded by LLVM alone.

Numba takes half a second to import and as long again to load what it has kept on disk. The code of
a function that allocates nothing and calls nothing outside itself needs neither: LLVM loads it in
milliseconds. It is kept for one version of its sources, one compiler and one kind of processor.
"""

import ctypes
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from tailcast.engine.source_digest import source_digest

_DIGEST_SIZE: Final = 16


def machine_code(
    name: str,
    n_argument: int,
    sources: Iterable[Path],
    compile_code: Callable[[], tuple[str, bytes]],
    folders: Iterable[Path] | None = None,
) -> Callable[..., int]:
    """Load a compiled function from disk, after compiling it where there is none yet.

    Parameters
    ----------
    name : str
        Start of the file's name.
    n_argument : int
        How many integers of 64 bits the function takes; it returns one.
    sources : iterable of pathlib.Path
        Files whose change makes kept code stale.
    compile_code : callable
        Gives the function's symbol and an object file, which must be complete in itself and follow
        numba's calling convention (status; pointers to result and exception; arguments).
    folders : iterable of pathlib.Path, optional
        Where to keep it, the first that works; by default ``NUMBA_CACHE_DIR`` where it is set, then
        beside the sources, then the user's cache folder.

    Returns
    -------
    callable
        The function; other threads run while it does.
    """
    file = f"{name}-{_key(source_digest(sources))}.code"
    places = [folder / file for folder in (_folders() if folders is None else folders)]
    for place in places:
        kept = _read(place)
        if kept is not None:
            return _loaded(*kept, n_argument)
    symbol, code = compile_code()
    for place in places:
        if _write(place, symbol, code):
            break
    return _loaded(symbol, code, n_argument)


def _key(digest: str) -> str:
    """Digest of all that the code depends on."""
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    features = llvm.get_host_cpu_features().flatten()
    parts = (digest, version("numba"), version("llvmlite"), llvm.get_process_triple())
    return _digest("\n".join((*parts, llvm.get_host_cpu_name(), features)).encode()).hex()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_SIZE).digest()


def _folders() -> Iterator[Path]:
    if os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(os.environ["NUMBA_CACHE_DIR"])
        return
    yield Path(__file__).parent / "__pycache__"
    yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tailcast"


def _read(place: Path) -> tuple[str, bytes] | None:
    """Symbol and code; none if they are not there as they were written."""
    try:
        content = place.read_bytes()
    except OSError:
        return None
    check, body = content[:_DIGEST_SIZE], content[_DIGEST_SIZE:]
    if check != _digest(body):
        return None
    symbol, code = body.split(b"\n", 1)
    return symbol.decode(), code


def _write(place: Path, symbol: str, code: bytes) -> bool:
    """Write the file whole or not at all; whether it is there."""
    body = symbol.encode() + b"\n" + code
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_digest(body) + body)
        os.replace(temporary, place)
    except OSError:
        os.unlink(temporary)
        return False
    return True


def _loaded(symbol: str, code: bytes, n_argument: int) -> Callable[..., int]:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    integers = [ctypes.c_int64] * n_argument
    pointers = (ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_void_p))
    function: Any = ctypes.CFUNCTYPE(ctypes.c_int32, *pointers, *integers)(
        engine.get_function_address(symbol)
    )
    function.engine = engine  # the code lives as long as it does

    def call(*arguments: int) -> int:
        """Call the compiled function."""
        result, exception = ctypes.c_int64(), ctypes.c_void_p()
        status = function(ctypes.byref(result), ctypes.byref(exception), *arguments)
        if status != 0:
            raise RuntimeError(f"{symbol}: compiled code gave status {status}")
        return result.value

    return call
