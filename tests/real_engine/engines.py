"""Environments of real engines, built once, and servers in them."""

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER_VARIABLE = "TAILCAST_ENGINES"


class EngineUnavailableError(Exception):
    """An engine that cannot be had here; the message is the reason to skip."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server.

    Parameters
    ----------
    url : str
        Address.
    log : pathlib.Path
        What it printed.
    """

    url: str
    log: Path


def engines_folder() -> Path:
    """Folder that keeps environments from one test session to the next."""
    default = Path(tempfile.gettempdir()) / "tailcast-engines"
    folder = Path(os.environ.get(FOLDER_VARIABLE) or default)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def python_of(version: str) -> str:
    """Interpreter of one minor version.

    Raises
    ------
    EngineUnavailableError
        If there is none on the path.
    """
    command = shutil.which(f"python{version}")
    if command is not None:
        probe = [command, "-c", "import sys, venv, ensurepip; print(sys.executable)"]
        found = subprocess.run(probe, capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return found.stdout.strip()
    raise EngineUnavailableError(f"no Python {version} with venv on the path")


def environment(name: str, python: str, steps: Sequence[Sequence[str]]) -> Path:
    """Environment built in several steps, or the one that is there already.

    Parameters
    ----------
    name : str
        Its folder's name; names the versions, so that another version is another folder.
    python : str
        Interpreter to build it with.
    steps : sequence of sequences of str
        What to run with its interpreter, in order, for example ``-m pip install numpy``.

    Returns
    -------
    pathlib.Path
        Its interpreter.

    Raises
    ------
    EngineUnavailableError
        If it cannot be built; the message ends with the last words of the step that failed.
    """
    folder = engines_folder() / name
    interpreter = folder / "bin" / "python"
    with _locked(engines_folder() / f"{name}.lock"):
        if (folder / "complete").exists():
            return interpreter
        shutil.rmtree(folder, ignore_errors=True)
        _run([python, "-m", "venv", str(folder)], name, 300)
        for arguments in steps:
            _run([str(interpreter), *arguments], name, 1500)
        (folder / "complete").touch()
    return interpreter


@contextlib.contextmanager
def serving(
    command: Sequence[str],
    port: int,
    log: Path,
    *,
    patience: float,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Start a server, wait until it is healthy, end it.

    Raises
    ------
    RuntimeError
        If it ends or does not get healthy in time; the message has the end of its log.
    """
    url = f"http://127.0.0.1:{port}"
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(variables or {})},
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + patience
        while not _healthy(url):
            if process.poll() is not None or time.monotonic() > deadline:
                words = log.read_text(errors="replace")[-3000:]
                raise RuntimeError(f"{command[0]} did not get ready:\n{words}")
            time.sleep(0.5)
        yield Server(url=url, log=log)
    finally:
        _end(process)


def free_port() -> int:
    """A port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a server and the processes that it started, which share its session."""
    for sign in (15, 9):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)


def _run(command: Sequence[str], name: str, seconds: float) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise EngineUnavailableError(f"{name}: not installed within {seconds:g} s") from error
    if done.returncode:
        words = " ".join((done.stderr or done.stdout).split())[-400:]
        raise EngineUnavailableError(f"{name}: cannot be installed: {words}")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
