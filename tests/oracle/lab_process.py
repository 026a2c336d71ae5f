"""A Java process of the lab: its output in a file, its end certain."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.errors import QuotaAuditError

_TERMINATE_SECONDS = 15
_POLL_SECONDS = 0.1


class LabError(QuotaAuditError):
    """A broker or a client of the lab did not do what a capture needs (exit code 1)."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class JavaProcess:
    """A running Java program, known by ``name`` and writing into ``output``."""

    name: str
    process: subprocess.Popen[str]
    output: Path

    def say(self, text: str) -> None:
        """Write a text to its standard input."""
        assert self.process.stdin is not None, self.name
        try:
            self.process.stdin.write(text)
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise self._failed("stopped listening") from error

    def wait_for_text(self, text: str, seconds: float) -> None:
        """Return when its output contains ``text``; ``LabError`` when it ends or waits too long."""
        deadline = time.monotonic() + seconds
        while text not in self.output.read_text(errors="replace"):
            if self.process.poll() is not None:
                raise self._failed(f"exited with {self.process.returncode} before {text!r}")
            if time.monotonic() > deadline:
                raise self._failed(f"did not say {text!r} within {seconds:.0f} s")
            time.sleep(_POLL_SECONDS)

    def has_ended_well(self) -> bool:
        """Return whether it has exited with 0; ``LabError`` when it exited with anything else."""
        code = self.process.poll()
        if code:
            raise self._failed(f"exited with {code}")
        return code == 0

    def _failed(self, what: str) -> LabError:
        lines = self.output.read_text(errors="replace").splitlines()
        # What a client said of its failure stands above a long trace.
        said = next((i for i, line in enumerate(lines) if line.startswith("failed: ")), len(lines))
        last = "\n".join(lines[min(said, max(len(lines) - 20, 0)) :])
        return LabError(f"{self.name} {what}; the last lines of its output:\n{last}")


@contextmanager
def java_process(name: str, arguments: Sequence[str], output: Path) -> Iterator[JavaProcess]:
    """Run ``java <arguments>`` until the block ends; then SIGTERM, and SIGKILL if needed."""
    with output.open("w") as sink:
        process = subprocess.Popen(
            ["java", *arguments],
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=subprocess.STDOUT,
            text=True,
            # Ctrl-C in the terminal reaches only us, and we stop clients before brokers.
            start_new_session=True,
        )
    try:
        yield JavaProcess(name, process, output)
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[str]) -> None:
    try:
        process.terminate()
        process.wait(_TERMINATE_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()
