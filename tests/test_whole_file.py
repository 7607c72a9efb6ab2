"""Nothing half-written is ever seen."""

import os
import stat
from pathlib import Path

import pytest

from tailcast.whole_file import whole_file, whole_folder, write_whole


class Stop(BaseException):
    """What Ctrl-C raises, as far as these functions can tell."""


def cut_short(path: Path, error: type[BaseException]) -> None:
    """Write the beginning of a file and fail."""
    path.write_text("ne")
    raise error


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_whole_with_ordinary_rights(tmp_path: Path) -> None:
    write_whole(tmp_path / "a.txt", "µ\n")
    assert (tmp_path / "a.txt").read_bytes() == "µ\n".encode()
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o644
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [Stop, OSError, ValueError])
def test_an_interrupted_file_leaves_what_was_there(
    tmp_path: Path, error: type[BaseException]
) -> None:
    (tmp_path / "a.txt").write_text("old")
    for place in ("a.txt", "b.txt"):
        with pytest.raises(error), whole_file(tmp_path / place) as temporary:
            cut_short(temporary, error)
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "link").symlink_to("a")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_text() == "new"


def test_a_pipe_is_written_into_and_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert names(tmp_path) == ["pipe"]


@pytest.mark.parametrize("before", [None, "empty", "full"])
def test_a_folder_appears_whole(tmp_path: Path, before: str | None) -> None:
    place = tmp_path / "new" / "folder"
    if before is not None:
        place.mkdir(parents=True)
    if before == "full":
        (place / "card").write_text("old")
        (place / "mine").write_text("kept")
    with whole_folder(place, "card") as scratch:
        (scratch / "card").write_text("new")
        (scratch / "draws").write_text("new")
    assert names(place) == ["card", "draws", *(["mine"] if before == "full" else [])]
    assert (place / "card").read_text() == "new"
    assert names(tmp_path / "new") == ["folder"]


@pytest.mark.parametrize("before", [False, True])
def test_an_interrupted_folder_leaves_what_was_there(tmp_path: Path, *, before: bool) -> None:
    place = tmp_path / "folder"
    if before:
        place.mkdir()
        (place / "card").write_text("old")
    with pytest.raises(Stop), whole_folder(place, "card") as scratch:
        cut_short(scratch / "card", Stop)
    assert names(tmp_path) == (["folder"] if before else [])
    if before:
        assert (place / "card").read_text() == "old"
