"""What a command and everything it starts take: processor seconds, and memory of each process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO

import psutil

ROOT = Path(__file__).resolve().parents[1]
_LOOK_S = 0.1
_LINES_KEPT = 40
DRIVER = "driver"
"""The process that was started; other processes go by their program's name."""


@dataclass(frozen=True, slots=True)
class Taken:
    """``cpu_s`` of all processes; ``peak_mb`` of the largest of each name; the last line printed.

    ``busiest_s`` are the processor seconds of the busiest process of each name. A process that ends
    between two looks is counted up to the last one. ``step_cpu_s`` says which part of ``cpu_s`` was
    spent until each step's last line, and after the last one ("").
    """

    cpu_s: float
    wall_s: float
    peak_mb: dict[str, int]
    said: str
    busiest_s: dict[str, float] = field(default_factory=dict)
    step_cpu_s: dict[str, float] = field(default_factory=dict)

    def worker_mb(self) -> int:
        """Return the most memory that a Python worker, or the only Python process, took."""
        workers = [mb for name, mb in self.peak_mb.items() if name.startswith("python")]
        return max(workers, default=self.peak_mb.get(DRIVER, 0))

    def worker_s(self) -> float:
        """Return the processor seconds of the busiest Python worker."""
        busy = [seconds for name, seconds in self.busiest_s.items() if name.startswith("python")]
        return max(busy, default=self.busiest_s.get(DRIVER, 0.0))


class CommandFailedError(RuntimeError):
    """Raised where a measured command fails; says how it ended and its last lines."""


def run(module: str, arguments: Sequence[str], steps: Mapping[str, str] | None = None) -> Taken:
    """Return what ``python -m module arguments`` took.

    ``steps`` names the steps in their order, and the regular expression of the line that each ends
    with, on standard error. Raises CommandFailedError where the command fails, or a step's line
    does not come.
    """
    command = [sys.executable, "-m", module, *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    started = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    tree, ends = _Tree(process.pid), _StepEnds(steps or {})
    said: deque[str] = deque(maxlen=_LINES_KEPT)
    errors: deque[str] = deque(maxlen=_LINES_KEPT)

    def read(stream: IO[str] | None, kept: deque[str], take: Callable[[str], None]) -> None:
        assert stream is not None
        for line in stream:
            kept.append(line.rstrip())
            take(line)

    def end_step(line: str) -> None:
        if ends.is_end(line):
            ends.cpu_s.append(tree.look())

    readers = [
        threading.Thread(target=read, args=(process.stdout, said, lambda line: None)),
        threading.Thread(target=read, args=(process.stderr, errors, end_step)),
    ]
    for reader in readers:
        reader.start()
    while process.poll() is None:
        tree.look()
        time.sleep(_LOOK_S)
    wall_s = time.perf_counter() - started
    for reader in readers:
        reader.join()
    missing = ends.missing()
    if process.returncode or missing:
        how = f"no line of step {missing}" if missing else f"exit code {process.returncode}"
        raise CommandFailedError("\n".join([f"{' '.join(command)}: {how}", *said, *errors]))
    cpu_s = sum(tree.seconds.values())
    last_line = said[-1] if said else ""
    return Taken(
        cpu_s, wall_s, tree.peak_mb, last_line, tree.busiest_s(), step_cpu_s=ends.seconds(cpu_s)
    )


class _Tree:
    """What the processes of a tree have taken so far."""

    def __init__(self, pid: int) -> None:
        self.seconds: dict[int, float] = {}
        self.peak_mb: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._root = psutil.Process(pid)
        self._lock = threading.Lock()

    def look(self) -> float:
        """Look at all processes; return the processor seconds of all that there were."""
        with self._lock:
            for each in self._processes():
                try:
                    times, memory = each.cpu_times(), each.memory_info()
                    name = DRIVER if each.pid == self._root.pid else each.name()
                except psutil.Error:
                    continue
                self._names[each.pid] = name
                self.seconds[each.pid] = times.user + times.system
                self.peak_mb[name] = max(self.peak_mb.get(name, 0), memory.rss >> 20)
            return sum(self.seconds.values())

    def busiest_s(self) -> dict[str, float]:
        """Return the processor seconds of the busiest process of each name."""
        found: dict[str, float] = {}
        for pid, name in self._names.items():
            found[name] = max(found.get(name, 0.0), self.seconds[pid])
        return found

    def _processes(self) -> list[psutil.Process]:
        try:
            return [self._root, *self._root.children(recursive=True)]
        except psutil.Error:
            return []


class _StepEnds:
    """Which step's last line comes next, and what had been taken at those before."""

    def __init__(self, steps: Mapping[str, str]) -> None:
        self.cpu_s: list[float] = []
        self._names = list(steps)
        self._lines = deque(re.compile(line) for line in steps.values())

    def is_end(self, line: str) -> bool:
        """Return whether ``line`` ends the step that is waited for; the next one is waited for."""
        if not self._lines or not self._lines[0].match(line):
            return False
        self._lines.popleft()
        return True

    def missing(self) -> str | None:
        """Return the step whose line has not come."""
        return self._names[len(self.cpu_s)] if self._lines else None

    def seconds(self, cpu_s: float) -> dict[str, float]:
        """Return the seconds of each step, of ``cpu_s`` in all."""
        if not self._names:
            return {}
        ends = [0.0, *self.cpu_s, cpu_s]
        spent = [end - start for start, end in pairwise(ends)]
        return dict(zip([*self._names, ""], spent, strict=True))
