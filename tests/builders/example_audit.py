"""The example's audit by a command, with Spark in this machine's processes; tests only read it."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

from tests.cluster.standalone import SMALL_SPARK, plain_environment

ROOT = Path(__file__).parents[2]
ARCHIVE = ROOT / "examples" / "capture"
_WITHIN_S = 600


def audited_example(folder: Path) -> Path:
    """Return the warehouse in ``folder``, where the first process that asks makes it."""
    warehouse = folder / "example warehouse"
    done = folder / "example is audited"
    with (folder / "example.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            ran = subprocess.run(
                [sys.executable, "-m", "spark_jobs.cli", "run", str(ARCHIVE), "-w", str(warehouse)],
                env=plain_environment(PYTHONPATH=ROOT, **SMALL_SPARK),
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=_WITHIN_S,
            )
            assert ran.returncode == 0, ran.stdout + ran.stderr
            done.touch()
    return warehouse
