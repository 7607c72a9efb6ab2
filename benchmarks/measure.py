"""Clocks and memory: best of several repeats, and whole processes from outside."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds of the fastest repeat: others only tell what else the machine was doing."""

    wall: float
    cpu: float
    repeats: int


def best_of(action: Callable[[], object], *, budget: float) -> Timing:
    """Least wall and CPU seconds of an action; see `best_of_each`."""
    return best_of_each([action], budget=budget)[0]


def best_of_each(actions: Sequence[Callable[[], object]], *, budget: float) -> list[Timing]:
    """Least wall and CPU seconds of each action, after one round that is not counted.

    Rounds go through all actions in turn, so that a busy spell strikes none alone. They end once
    `budget` seconds an action are spent, after two at least.
    """
    for action in actions:
        action()
    walls: list[list[float]] = [[] for _ in actions]
    cpus: list[list[float]] = [[] for _ in actions]
    begun = time.perf_counter()
    while len(walls[0]) < 2 or time.perf_counter() - begun < budget * len(actions):
        for k, action in enumerate(actions):
            wall, cpu = time.perf_counter(), time.process_time()
            action()
            walls[k].append(time.perf_counter() - wall)
            cpus[k].append(time.process_time() - cpu)
    pairs = zip(walls, cpus, strict=True)
    return [Timing(wall=min(wall), cpu=min(cpu), repeats=len(wall)) for wall, cpu in pairs]


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A child process that has ended well."""

    wall: float
    cpu: float
    out: str


def child(
    command: list[str], *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> Finished:
    """Run a command; its wall seconds and its CPU seconds, user and system together."""
    begun, before = time.perf_counter(), _children_cpu()
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    wall, cpu = time.perf_counter() - begun, _children_cpu() - before
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RuntimeError(f"{Path(command[0]).name}: {last[0]}")
    return Finished(wall=wall, cpu=cpu, out=done.stdout)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def python_child(code: str, *, environment: Mapping[str, str] | None = None) -> Finished:
    """Run Python code in a process of its own."""
    return child([sys.executable, "-c", code], environment=environment)


def memory_of(n_request: int, *, longer: int = 1) -> dict[str, Any]:
    """Peak memory of one run in a process of its own; outputs are `longer` times as long."""
    command = [sys.executable, str(HERE / "memory.py"), str(n_request), str(longer)]
    found: dict[str, Any] = json.loads(child(command).out)
    return found
