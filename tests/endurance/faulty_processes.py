"""Each fault as a function: what it does to a world, and how the audit met it."""

from __future__ import annotations

import datetime as dt
import gzip
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psutil

from spark_jobs.warehouse.scope import RunScope
from tests.endurance.fault_world import Rows, World, audited_rows

STAMP = re.compile(rb"^\[([^\]]+),(\d{3})\]")
STEPS = ("ingest", "resolve", "replay", "judge", "recommend", "validate judged", "publish")
ERROR = re.compile(r"^error: (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Met:
    """How an audit met a fault: what it said, whether it ended, and rows that are right beside."""

    said: str
    ended: bool
    rows: Rows | None = None
    is_due_afterwards: bool = False


def _met(world: World, process: subprocess.Popen[str]) -> Met:
    code = process.wait()
    errors = ERROR.findall(world.said())
    said = errors[-1] if errors else ("nothing" if code == 0 else f"exit code {code}")
    if code > 0 and not errors:
        raised = [line for line in world.said().splitlines() if re.match(r"\S*Error\b", line)]
        said += f", a traceback: {(raised or ['?'])[-1][:200]}"
    return Met(said, code == 0)


def _end(process: subprocess.Popen[str]) -> None:
    """End all that a killed audit has left behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _killed_later(world: World, random: Random, which: Callable[[psutil.Process], bool]) -> Met:
    """Kill one of the audit's processes at a random moment, if it is there then."""
    process = world.start()
    time.sleep(random.uniform(0, world.audit_s))
    with suppress(psutil.NoSuchProcess):
        audit = psutil.Process(process.pid)
        found = [one for one in (audit, *audit.children(recursive=True)) if which(one)]
        if found:
            random.choice(found).kill()
    met = _met(world, process)
    _end(process)
    return met


def driver_killed(world: World, random: Random) -> Met:
    """Kill the process that leads the audit."""
    return _killed_later(world, random, lambda p: "tests.builders.small_audit" in p.cmdline())


def worker_killed(world: World, random: Random) -> Met:
    """Kill one of Spark's Python workers."""
    return _killed_later(world, random, lambda p: "pyspark.daemon" in " ".join(p.cmdline()))


def jvm_killed(world: World, random: Random) -> Met:
    """Kill the JVM that drives and executes."""
    return _killed_later(world, random, lambda p: p.name() == "java")


def disk_full(world: World, random: Random) -> Met:
    """Let no file become larger than a few kilobytes, as on a disk that is full."""
    limit = random.randrange(200, 40_000)
    before = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # noqa: E731
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    # A file of what it says would be cut short like any other.
    process = world.start(before=before, said=subprocess.PIPE)
    (world.folder / "said").write_text(process.communicate()[1])
    met = _met(world, process)
    _end(process)
    return met


def not_writable(world: World, random: Random) -> Met:
    """Take the right to write in the warehouse at a random moment, from root as well."""
    process = world.start()
    time.sleep(random.uniform(0, world.audit_s))
    below = [p for p in world.warehouse.rglob("*") if p.is_dir() and not p.is_symlink()]
    chosen = random.choice([world.warehouse, *below])
    with suppress(subprocess.CalledProcessError):  # the audit may have removed it meanwhile
        subprocess.run(["chattr", "+i", str(chosen)], check=True)
    try:
        met = _met(world, process)
    finally:
        if chosen.is_dir():
            subprocess.run(["chattr", "-i", str(chosen)], check=True)
        _end(process)
    return met


def parquet_cut(world: World, random: Random) -> Met:
    """Cut a file of the draft short after the ingest."""
    assert world.start("ingest", *_archived(world)).wait() == 0
    day = dt.date.fromisoformat(_day(world))
    draft = RunScope(world.warehouse, "default", day).newest()
    written = [draft.partition_dir(table).glob("*.parquet") for table in ("requests", "files")]
    cut = random.choice(sorted(path for paths in written for path in paths))
    cut.write_bytes(cut.read_bytes()[: random.randrange(cut.stat().st_size)])
    said = ""
    for step in STEPS[1:]:
        process = world.start(*step.split(), *_scoped(world))
        met = _met(world, process)
        said = f"{step}: {met.said}"
        if not met.ended:
            break
    return Met(said, met.ended)


def gzip_cut(world: World, random: Random) -> Met:
    """Cut a log short; audit what is left, which says so; the whole file is due afterwards."""
    log = random.choice(world.logs())
    world.mend()
    data = log.read_bytes()
    log.write_bytes(data[: random.randrange(20, len(data))])
    met = _met(world, world.start())
    return Met(met.said, met.ended, audited_rows(world.warehouse) if met.ended else None, True)


def log_replaced(world: World, random: Random) -> Met:
    """Replace a log by the whole one while it may be read."""
    process = world.start()
    time.sleep(random.uniform(0, world.audit_s / 2))
    for log in world.logs():
        shutil.copyfile(world.folder / "whole" / log.relative_to(world.archive), log)
    met = _met(world, process)
    rows = audited_rows(world.warehouse)
    # Which logs were read before and which after is chance; a mixture must be said to be due.
    return Met(met.said, met.ended, rows if met.ended else None, True)


def two_audits(world: World, random: Random) -> Met:
    """Start a second audit of the day while the first one goes on."""
    world.mend()
    first = world.start()
    time.sleep(random.uniform(0, world.audit_s))
    second = world.start()
    codes = [first.wait(), second.wait()]
    met = _met(world, second)
    return Met(f"exit codes {codes}: {met.said}", 0 in codes)


def clock_set_back(world: World, random: Random) -> Met:
    """Set the clock back in the middle of a log by up to an hour: nobody is accused for it."""
    log = random.choice(world.logs())
    lines = gzip.decompress(log.read_bytes()).splitlines(keepends=True)
    at, by = random.randrange(len(lines)), dt.timedelta(seconds=random.uniform(1, 3600))

    def earlier(found: re.Match[bytes]) -> bytes:
        moment = dt.datetime.fromisoformat(found[1].decode()) - by
        return f"[{moment:%Y-%m-%d %H:%M:%S},".encode() + found[2] + b"]"

    log.write_bytes(
        gzip.compress(b"".join([*lines[:at], *(STAMP.sub(earlier, line) for line in lines[at:])]))
    )
    met = _met(world, world.start())
    return Met(met.said, met.ended, audited_rows(world.warehouse) if met.ended else None, True)


def step_tried_again(world: World, random: Random) -> Met:
    """Run the steps as Airflow does; one is killed at a random moment and tried again."""
    world.mend()
    killed = random.choice(STEPS)
    os.environ["AIRFLOW_CTX_DAG_RUN_ID"] = "scheduled__1"
    try:
        for step in STEPS:
            arguments = _archived(world) if step == "ingest" else _scoped(world)
            if step == killed:
                process = world.start(*step.split(), *arguments)
                time.sleep(random.uniform(0, 15))
                _end(process)
            met = _met(world, world.start(*step.split(), *arguments))
            if not met.ended:
                return Met(f"{step}: {met.said}", False)
    finally:
        del os.environ["AIRFLOW_CTX_DAG_RUN_ID"]
    return Met(f"{killed} killed", True)


def _archived(world: World) -> list[str]:
    return [str(world.archive), "--warehouse", str(world.warehouse), "--broker-version", "3.7.2"]


def _scoped(world: World) -> list[str]:
    return ["--warehouse", str(world.warehouse), "--day", _day(world)]


def _day(world: World) -> str:
    return Path(next(world.warehouse.glob("runs/cluster=default/date=*"))).name.partition("=")[2]
