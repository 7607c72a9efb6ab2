"""Debian's Prometheus for tests: found, or taken out of its package without installing it."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest


def prometheus_binary(cache: Path) -> Path:
    """Path of the binary; the test is skipped where there is none and none can be had.

    Where CI is set it must not go missing unnoticed, and the test fails.
    """
    found = shutil.which("prometheus")
    if found is not None:
        return Path(found)
    inside = cache / "usr" / "bin" / "prometheus"
    if inside.exists():
        return inside
    try:
        cache.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["apt-get", "download", "-q", "prometheus"],
            cwd=cache, check=True, capture_output=True, timeout=120,
        )  # fmt: skip
        package = next(cache.glob("prometheus_*.deb"))
        subprocess.run(["dpkg-deb", "-x", package, cache], check=True, timeout=60)
    except (OSError, subprocess.SubprocessError, StopIteration) as error:
        reason = f"no Prometheus: neither installed nor to be had by apt-get ({error})"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return inside


def free_port() -> int:
    """A port that nobody listens at just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def prometheus(folder: Path, binary: Path, targets: dict[str, int]) -> Iterator[str]:
    """Address of a running Prometheus that scrapes ports once a half second.

    Parameters
    ----------
    folder : Path
        For its configuration and data.
    binary : Path
        The program.
    targets : dict of str to int
        Port by value of the label ``pod``.
    """
    config = ["global: {scrape_interval: 500ms, scrape_timeout: 400ms}", "scrape_configs:"]
    config += ["- job_name: vllm", "  static_configs:"]
    for pod, port in targets.items():
        config += [f"  - targets: ['127.0.0.1:{port}']", f"    labels: {{pod: '{pod}'}}"]
    (folder / "prometheus.yml").write_text("\n".join(config) + "\n")
    port = free_port()
    command = [
        str(binary),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'db'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    url = f"http://127.0.0.1:{port}"
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _await_ready(url, process, folder / "log")
        yield url
    finally:
        process.terminate()
        process.wait(timeout=20)


def _await_ready(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + 30.0
    while time.monotonic() < end and process.poll() is None:
        try:
            with urlopen(f"{url}/-/ready", timeout=2.0):
                return
        except (URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"Prometheus does not start: {log.read_text(errors='replace')[-500:]}")
