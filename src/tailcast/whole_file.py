"""Files and folders that appear whole or not at all, whatever interrupts their writing."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path, *, suffix: str = "") -> Iterator[Path]:
    """Write a file beside its place, then put it there.

    Parameters
    ----------
    path : pathlib.Path
        Its place. A pipe or device is written directly, since it must not be replaced.
    suffix : str
        End of the temporary name, for writers that go by it.

    Yields
    ------
    pathlib.Path
        Where to write; it is gone afterwards, moved or removed.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    place = path.resolve()  # a link stays a link
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.", suffix=suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(place)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file that appears whole or not at all.

    Parameters
    ----------
    path : pathlib.Path
        Its place.
    content : str or bytes
        All of it; text is written as UTF-8.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    with whole_file(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_folder(path: Path, last: str) -> Iterator[Path]:
    """Write the files of a folder beside their place, then put them there.

    Parameters
    ----------
    path : pathlib.Path
        Its place, created where missing. Files that are there already are replaced one by one.
    last : str
        File that is put there last, so that a folder with it is complete.

    Yields
    ------
    pathlib.Path
        Scratch folder to write into; it is gone afterwards.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    there = path.is_dir()  # perhaps a file system of its own, into which nothing can be moved
    path.parent.mkdir(parents=True, exist_ok=True)
    around = path if there else path.parent
    scratch = Path(tempfile.mkdtemp(dir=around, prefix=f".{path.name}."))
    try:
        yield scratch
        scratch.chmod(0o755)
        if there:
            names = sorted((file.name for file in scratch.iterdir()), key=lambda n: (n == last, n))
            for name in names:
                os.replace(scratch / name, path / name)
        else:
            os.replace(scratch, path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
