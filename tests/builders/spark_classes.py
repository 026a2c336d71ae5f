"""Classes of Spark as a JVM has loaded them: with these, a session starts in half the time.

``python -m tests.builders.spark_classes`` makes the archive (JEP 350): an audit runs, and its JVM
writes what it has loaded. A JVM of another version or class path does without, and says nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
CLASSES = ROOT / ".cache" / "spark.jsa"
WITH_CLASSES = f"-XX:SharedArchiveFile={CLASSES} -Xlog:cds=off -Xlog:cds+dynamic=off"
"""Options of a JVM that runs Spark with the classes, where there are some."""

_CAPTURE = ROOT / "tests" / "golden" / "captures" / "kafka-3.7.2"
_WRITTEN_WITHIN_S = 300.0


def make_classes() -> None:
    """Write CLASSES; TimeoutError where the JVM has not within five minutes."""
    from tests.cluster.standalone import SMALL_JVM, SMALL_SPARK

    CLASSES.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CLASSES.parent) as folder:
        written = Path(folder) / CLASSES.name
        options = f"{SMALL_JVM} -XX:ArchiveClassesAtExit={written} -Xlog:cds*=off"
        command = [
            sys.executable,
            "-m",
            "spark_jobs.cli",
            "run",
            str(_CAPTURE),
            "-w",
            folder + "/w",
        ]
        subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | SMALL_SPARK | {"QUOTA_AUDIT_SPARK_DRIVER_JAVA_OPTIONS": options},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        deadline = time.monotonic() + _WRITTEN_WITHIN_S
        # The JVM writes while it ends, after the command that has started it.
        while not written.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {written} after {_WRITTEN_WITHIN_S:.0f} s")
            time.sleep(0.2)
        written.rename(CLASSES)


if __name__ == "__main__":
    make_classes()
