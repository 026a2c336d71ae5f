"""The archive and the warehouse that :mod:`tests.endurance.fault_runs` harms."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from spark_jobs.upkeep.digest_tables import table_digest
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.warehouse.tables import TABLES

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "tests" / "golden" / "captures" / "kafka-3.7.2"
# What a run wrote when, and nothing of the log.
_OF_THE_RUN = {"files": ["modified_ns"]}
Rows = Mapping[str, str]


def audited_rows(warehouse: Path) -> Rows:
    """Return a digest of the published rows of each table and day."""
    found = {}
    for day in days_of(warehouse, "default"):
        scope = RunScope(warehouse, "default", day).pinned()
        for table in TABLES:
            found[f"{day} {table}"] = rows_digest(scope, table)
    return found


def rows_digest(scope: RunScope, table: str) -> str:
    """Return a digest of the rows of a table, which equal runs over a log have in common."""
    return table_digest(read_table(scope, table).drop_columns(_OF_THE_RUN.get(table, [])))


def grown_archive(folder: Path, part: float) -> None:
    """Copy the capture, of each request log the first lines only."""
    shutil.copytree(CAPTURE, folder)
    for log in logs_of(folder):
        lines = gzip.decompress(log.read_bytes()).splitlines(keepends=True)
        log.write_bytes(gzip.compress(b"".join(lines[: int(len(lines) * part)])))


def split_archive(folder: Path, files: int) -> None:
    """Copy the capture, each request log cut into so many files."""
    shutil.copytree(CAPTURE, folder)
    for log in logs_of(folder):
        lines = gzip.decompress(log.read_bytes()).splitlines(keepends=True)
        log.unlink()
        for n in range(files):
            own = lines[len(lines) * n // files : len(lines) * (n + 1) // files]
            log.with_name(f"kafka-request.log.{files - n}.gz").write_bytes(
                gzip.compress(b"".join(own))
            )


def logs_of(archive: Path) -> list[Path]:
    """Return the request logs of an archive."""
    return sorted(archive.glob("broker=*/kafka-request.log*"))


@dataclass(frozen=True, slots=True)
class World:
    """A log that grew since its audit was published, and what an audit finds before and after."""

    folder: Path
    rows_before: Rows
    rows_after: Rows
    audit_s: float = 0.0  # how long an audit took: a random moment of it is taken

    @property
    def archive(self) -> Path:
        """Return the archive; what was in it at first is kept beside it."""
        return self.folder / "archive"

    @property
    def warehouse(self) -> Path:
        """Return the warehouse."""
        return self.folder / "warehouse"

    @classmethod
    def made(cls, folder: Path) -> World:
        """Audit four fifths of a capture into the warehouse, and the whole one beside it."""
        world = cls(folder, {}, {})
        shutil.copytree(CAPTURE, folder / "whole")
        grown_archive(world.archive, part=0.8)
        _checked(world.audit())
        before = audited_rows(world.warehouse)
        shutil.copytree(world.warehouse, folder / "kept", symlinks=True)
        world.mend()
        started = time.monotonic()
        _checked(world.audit())
        audit_s = time.monotonic() - started
        after = audited_rows(world.warehouse)
        assert before != after
        shutil.rmtree(world.warehouse)
        (folder / "kept").rename(world.warehouse)
        return cls(folder, before, after, audit_s)

    def copy(self, folder: Path) -> World:
        """Return the same in another folder."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return replace(self, folder=folder)

    def mend(self) -> None:
        """Let the archive be the whole log."""
        shutil.rmtree(self.archive, ignore_errors=True)
        shutil.copytree(self.folder / "whole", self.archive)

    def logs(self) -> list[Path]:
        """Return the request logs."""
        return logs_of(self.archive)

    def start(
        self,
        *command: str,
        due: bool = False,
        before: Callable[[], None] | None = None,
        said: int | None = None,
    ) -> subprocess.Popen[str]:
        """Start an audit, or ``quota-audit`` with a command, in a process group of its own.

        What it says goes to a file, or to ``said``.
        """
        audit = [
            "tests.builders.small_audit",
            str(self.archive),
            str(self.warehouse),
            *["--due"] * due,
        ]
        told = (self.folder / "said").open("w+")
        return subprocess.Popen(
            [sys.executable, "-m", *(["spark_jobs.cli", *command] if command else audit)],
            cwd=ROOT, text=True, stdout=subprocess.DEVNULL,
            stderr=told if said is None else said,
            start_new_session=True, preexec_fn=before, env=os.environ | {
                "PYTHONPATH": str(ROOT),
                "QUOTA_AUDIT_SPARK_DRIVER_JAVA_OPTIONS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            },
        )  # fmt: skip

    def audit(self, *, due: bool = False) -> subprocess.CompletedProcess[str]:
        """Audit the archive as it is."""
        process = self.start(due=due)
        code = process.wait()
        return subprocess.CompletedProcess([], code, "", self.said())

    def said(self) -> str:
        """Return what the last process said on standard error."""
        return (self.folder / "said").read_text(errors="replace")


def _checked(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
