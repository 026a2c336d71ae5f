"""Commands that change a warehouse, ended at random moments; then the next one, and the pages.

``python -m tests.endurance.ended_commands TRIES [COMMAND …] [--seed N]``

Each command is started over a copy of the same warehouse and killed at a random moment between the
first file it writes and a little after its end. Each day must then be as before or as after the
command, rows and files alike; and once the command has run again, as if it had never been killed.
Prints a table; ends with 1 where it is not so.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table

from spark_jobs.upkeep.doctor import examine
from spark_jobs.warehouse.pipeline import STEPS
from tests.endurance.day_states import PageReader, States, states_of
from tests.endurance.fault_world import CAPTURE, ROOT, grown_archive, split_archive
from tests.endurance.living_quotas import LivingQuotas

RUN, PUBLISH, JUDGE, MIGRATE, COMPACT, PRUNE, APPLY = (
    "run", "publish", "judge", "migrate", "compact", "prune", "apply",
)  # fmt: skip
_ENVIRONMENT = {
    "PYTHONPATH": str(ROOT),
    # The steps of one run of Airflow, so that each goes on with what the one before left.
    "AIRFLOW_CTX_DAG_RUN_ID": "scheduled__1",
    "QUOTA_AUDIT_SPARK_DRIVER_JAVA_OPTIONS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
_AFTER_ITS_END = 1.05
_OF_KILLED = frozenset({"left_over", "orphan", "little_space"})
"""What doctor may find of a process that was killed."""


@dataclass(frozen=True, slots=True)
class Case:
    """A command over a warehouse, and what follows it until the day is published."""

    warehouse: Path
    command: Sequence[str]
    then: Sequence[Sequence[str]] = ()


@dataclass(slots=True)
class Outcome:
    """What became of the tries of one command."""

    tries: int = 0
    ended_before_it_was_killed: int = 0
    as_before: int = 0
    as_after: int = 0
    pages: int = 0
    writes_s: float = 0.0  # until it wrote its first file
    took_s: float = 0.0
    again_s: float = 0.0
    wrong: list[str] = field(default_factory=list)


def start(command: Sequence[str], warehouse: Path) -> subprocess.Popen[str]:
    """Start ``quota-audit`` in a process group of its own; {} in an argument is the warehouse."""
    arguments = [one.replace("{}", str(warehouse)) for one in command]
    return subprocess.Popen(
        [sys.executable, "-m", "spark_jobs.cli", *arguments],
        cwd=ROOT, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        start_new_session=True, env=os.environ | _ENVIRONMENT,
    )  # fmt: skip


def finished(command: Sequence[str], warehouse: Path) -> None:
    """Run ``quota-audit`` to its end; raises AssertionError with what it said where it fails."""
    process = start(command, warehouse)
    _, said = process.communicate()
    assert process.returncode == 0, f"{' '.join(command)}: {said[-400:]}"


def cases(folder: Path) -> Mapping[str, Callable[[], Case]]:
    """Return what makes the warehouse of each command, below ``folder``."""
    archive = str(folder / "archive")
    audit = ("run", archive, "--warehouse", "{}", "--broker-version", "3.7.2")
    day = ("--warehouse", "{}", "--day", "2026-11-21")
    steps: list[Sequence[str]] = [(*step.command, *day) for step in STEPS.values()]
    steps[0] = ("ingest", archive, *day, "--broker-version", "3.7.2")
    of = {tuple(step.command): n for n, step in enumerate(STEPS.values())}

    def published_of_less() -> Path:
        warehouse = folder / "warehouse"
        if not warehouse.is_dir():
            grown_archive(folder / "archive", part=0.8)
            finished(audit, warehouse)
            shutil.rmtree(folder / "archive")
            shutil.copytree(CAPTURE, folder / "archive")
        return warehouse

    def drafted() -> Path:
        warehouse = folder / "drafted"
        if not warehouse.is_dir():
            shutil.copytree(published_of_less(), warehouse, symlinks=True)
            for step in steps[:-1]:
                finished(step, warehouse)
        return warehouse

    def scattered() -> Path:
        split_archive(folder / "split", files=3)
        finished(("run", str(folder / "split"), *audit[2:]), folder / "scattered")
        return folder / "scattered"

    def older() -> Path:
        from tests.spark_jobs.upkeep.older_warehouse import VERSIONS, older_day

        return older_day(VERSIONS[-1], folder / "older").warehouse

    def of_days() -> Path:
        from tests.builders.published_day import small_warehouse

        small_warehouse(folder / "days")
        return folder / "days"

    return {
        RUN: lambda: Case(published_of_less(), audit),
        PUBLISH: lambda: Case(drafted(), steps[-1]),
        JUDGE: lambda: Case(drafted(), steps[of["judge",]], steps[of["judge",] + 1 :]),
        MIGRATE: lambda: Case(older(), ("migrate", "{}", "--apply")),
        COMPACT: lambda: Case(scattered(), ("compact", "{}", "--apply")),
        PRUNE: lambda: Case(of_days(), ("prune", "{}", "--keep", "requests=1", "--apply")),
    }


def tried(case: Case, tries: int, random: Random, say: Callable[[str], None]) -> Outcome:
    """Kill the command of ``case`` so many times, each over a fresh copy."""
    outcome = Outcome()
    world = case.warehouse.with_name("try")
    before = states_of(case.warehouse)
    shutil.copytree(case.warehouse, world, symlinks=True)
    started = time.time()
    finished(case.command, world)
    outcome.took_s = time.time() - started
    outcome.writes_s = _writes_after_s(world, started)
    for command in case.then:
        finished(command, world)
    after = states_of(world)
    assert after != before
    pages = PageReader(case.warehouse, world)
    for _ in range(tries):
        shutil.rmtree(world)
        shutil.copytree(case.warehouse, world, symlinks=True)
        _one(case, world, before, after, pages, random, outcome)
        say(f"{case.command[0]} {outcome.tries}: {outcome.wrong[-1:] or 'right'}")
    shutil.rmtree(world)
    return outcome


def _one(
    case: Case,
    world: Path,
    before: States,
    after: States,
    pages: PageReader,
    random: Random,
    outcome: Outcome,
) -> None:
    outcome.tries += 1
    process = start(case.command, world)
    deadline = time.monotonic() + random.uniform(outcome.writes_s, outcome.took_s * _AFTER_ITS_END)
    while time.monotonic() < deadline:
        outcome.wrong += pages.mixed(world)
        outcome.pages += 1
    outcome.ended_before_it_was_killed += process.poll() is not None
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    seen = states_of(world)
    for day in sorted(before.keys() | after.keys()):
        if seen.get(day) not in (before.get(day), after.get(day)):
            outcome.wrong.append(f"{day} is neither as before nor as after")
    outcome.as_before += seen == before
    outcome.as_after += seen == after
    started = time.monotonic()
    try:
        finished(case.command, world)
        outcome.again_s += time.monotonic() - started
        for command in case.then:
            finished(command, world)
    except AssertionError as error:
        outcome.wrong.append(f"again: {error}")
        return
    last = states_of(world)
    other = [f"{d} {n}" for d in after for n in after[d] if last.get(d, {}).get(n) != after[d][n]]
    if last != after:
        outcome.wrong.append(f"again, it is not as if never ended: {', '.join(other)[:300]}")
    outcome.wrong += [
        f"doctor: {one.text()}" for one in examine(world).ailments if one.kind not in _OF_KILLED
    ]


def _writes_after_s(warehouse: Path, started: float) -> float:
    written = (path.lstat().st_mtime for path in warehouse.rglob("*"))
    return min(at for at in written if at > started) - started


def tried_apply(folder: Path, tries: int, random: Random, say: Callable[[str], None]) -> Outcome:
    """Kill ``apply`` of six proposals to a real cluster so many times."""
    outcome = Outcome()
    with LivingQuotas.started(folder) as quotas:
        quotas.begin()
        started = time.time()
        finished(quotas.apply, quotas.warehouse)
        outcome.took_s = time.time() - started
        outcome.writes_s = _writes_after_s(quotas.warehouse, started)
        for _ in range(tries):
            quotas.begin()
            process = start(quotas.apply, quotas.warehouse)
            time.sleep(random.uniform(outcome.writes_s, outcome.took_s * _AFTER_ITS_END))
            outcome.tries += 1
            outcome.ended_before_it_was_killed += process.poll() is not None
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            outcome.as_before += quotas.is_before()
            outcome.as_after += quotas.is_after()
            outcome.wrong += quotas.unrecorded()
            try:
                started = time.monotonic()
                finished(quotas.apply, quotas.warehouse)
                outcome.again_s += time.monotonic() - started
                outcome.wrong += [] if quotas.is_after() else ["again: not all is applied"]
                for _ in range(quotas.applications()):
                    if not quotas.is_before():
                        finished(quotas.rollback, quotas.warehouse)
                outcome.wrong += [] if quotas.is_before() else ["rolled back: not as before"]
            except AssertionError as error:
                outcome.wrong.append(str(error))
            say(f"apply {outcome.tries}: {outcome.wrong[-1:] or 'right'}")
    return outcome


def main() -> int:
    """Return 1 where a command that was ended left something wrong."""
    names = (RUN, PUBLISH, JUDGE, MIGRATE, COMPACT, PRUNE, APPLY)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tries", type=int)
    parser.add_argument("commands", nargs="*", choices=[[], *names])
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    random = Random(asked.seed)
    console = Console(width=150)
    table = Table(
        "command", "tries", "wrong or lost", "as before, as after", "ended first", "pages read",
        "writes after, s", "takes, s", "again, s",
    )  # fmt: skip
    wrong: list[str] = []

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False)

    with tempfile.TemporaryDirectory(prefix="quota-audit-ended-") as folder:
        made = cases(Path(folder))
        for name in asked.commands or names:
            if name == APPLY:
                found = tried_apply(Path(folder) / APPLY, asked.tries, random, say)
            else:
                found = tried(made[name](), asked.tries, random, say)
            table.add_row(
                name, str(found.tries), str(len(found.wrong)),
                f"{found.as_before}, {found.as_after}", str(found.ended_before_it_was_killed),
                str(found.pages), f"{found.writes_s:.1f}", f"{found.took_s:.1f}",
                f"{found.again_s / found.tries:.1f}",
            )  # fmt: skip
            wrong += [f"{name}: {one}" for one in found.wrong]
    console.print(table)
    for one in wrong:
        say(one)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
