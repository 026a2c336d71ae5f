"""Faults at random moments of an audit.

``python -m tests.endurance.fault_runs TRIES [FAULT …] [--seed N]``

A warehouse holds the published audit of a log. Then the log grows, and an audit of all of it meets
a fault. What readers see must be the one audit or the other, whole; and an audit afterwards must
end with the same rows as one that met no fault. Prints a table, and ends with 1 where it is not so.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from rich.console import Console
from rich.table import Table

from tests.endurance import faulty_processes as faults
from tests.endurance.fault_world import World, audited_rows


@dataclass(slots=True)
class Outcome:
    """What became of the tries of one fault."""

    tries: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    said: Counter[str] = field(default_factory=Counter)


FAULTS: dict[str, Callable[[World, Random], faults.Met]] = {
    "driver killed": faults.driver_killed,
    "Python worker killed": faults.worker_killed,
    "JVM killed": faults.jvm_killed,
    "disk full": faults.disk_full,
    "folder not writable": faults.not_writable,
    "Parquet file cut": faults.parquet_cut,
    "gzip file cut": faults.gzip_cut,
    "log replaced while read": faults.log_replaced,
    "two audits of one day": faults.two_audits,
    "clock set back in the log": faults.clock_set_back,
    "step killed and tried again": faults.step_tried_again,
}


def tried(fault: Callable[[World, Random], faults.Met], world: World, random: Random) -> Outcome:
    """Return what became of one try; ``world`` is used up."""
    outcome = Outcome(tries=1)
    before, after = world.rows_before, world.rows_after
    met = fault(world, random)
    seen = audited_rows(world.warehouse)
    expected = {"before": before, "after": after, "own": met.rows}
    here = [name for name, rows in expected.items() if rows is not None and rows == seen]
    if not here:
        outcome.wrong.append(f"readers saw neither audit ({met.said})")
    outcome.ended["the audit ended" if met.ended else "the audit stopped"] += 1
    outcome.said[met.said] += 1
    world.mend()
    done = world.audit(due=met.is_due_afterwards)
    if done.returncode != 0:
        outcome.wrong.append(f"the audit afterwards failed: {done.stderr[-300:]}")
    else:
        last = audited_rows(world.warehouse)
        other = sorted(table for table in after if last.get(table) != after[table])
        outcome.wrong += [f"the audit afterwards has other rows: {', '.join(other)}"] * bool(other)
    return outcome


def main() -> int:
    """Return 1 where a fault left wrong rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tries", type=int)
    parser.add_argument("faults", nargs="*", choices=[[], *FAULTS])
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    random = Random(asked.seed)
    console = Console(width=150)
    table = Table("fault", "tries", "wrong or lost", "ended or stopped", "said, most often")
    all_wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="quota-audit-faults-") as folder:
        template = World.made(Path(folder) / "template")
        for name in asked.faults or FAULTS:
            total = Outcome()
            for number in range(asked.tries):
                started = time.monotonic()
                one = tried(FAULTS[name], template.copy(Path(folder) / "try"), random)
                shutil.rmtree(Path(folder) / "try")
                total.tries += 1
                total.ended += one.ended
                total.said += one.said
                total.wrong += one.wrong
                console.print(
                    f"{name} {number + 1}: {', '.join(one.said)}; {one.wrong or 'right'} "
                    f"({time.monotonic() - started:.0f} s)",
                    highlight=False, markup=False,
                )  # fmt: skip
            ended = ", ".join(f"{n} {what}" for what, n in total.ended.items())
            said = total.said.most_common(1)[0][0] if total.said else ""
            table.add_row(name, str(total.tries), str(len(total.wrong)), ended, said[:80])
            all_wrong += [f"{name}: {wrong}" for wrong in total.wrong]
    console.print(table)
    for wrong in all_wrong:
        console.print(wrong, markup=False)
    return 1 if all_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
