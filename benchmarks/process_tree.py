"""What a command and everything it starts take: processor seconds, and memory of each process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Taken:
    """``cpu_s`` of all processes; ``peak_mb`` of the largest of each name; the last line printed.

    A process that ends between two looks is counted up to the last one.
    """

    cpu_s: float
    wall_s: float
    peak_mb: dict[str, int]
    said: str


def run(module: str, arguments: Sequence[str]) -> Taken:
    """Return what ``python -m module arguments`` took; raises CalledProcessError if it failed."""
    command = [sys.executable, "-m", module, *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    started = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    root = psutil.Process(process.pid)
    seconds: dict[int, float] = {}
    peak_mb: dict[str, int] = {}
    while process.poll() is None:
        for each in _tree(root):
            try:
                times, memory = each.cpu_times(), each.memory_info()
                name = each.name()
            except psutil.Error:
                continue
            seconds[each.pid] = times.user + times.system
            peak_mb[name] = max(peak_mb.get(name, 0), memory.rss >> 20)
        time.sleep(_LOOK_S)
    wall_s = time.perf_counter() - started
    said = process.stdout.read().strip() if process.stdout else ""
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, said)
    return Taken(sum(seconds.values()), wall_s, peak_mb, said.rpartition("\n")[2])


def _tree(root: psutil.Process) -> list[psutil.Process]:
    try:
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []
