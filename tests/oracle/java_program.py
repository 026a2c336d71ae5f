"""The tests' own Java programs, compiled once for each class path into ``.cache/classes``."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from tests.oracle.kafka_libs import CACHE

_CLASSES = CACHE / "classes"


def java_program(source: Path, class_path: str) -> list[str]:
    """Return the arguments of ``java`` that run a single-file program on a class path.

    ``java <source>`` would compile the file in each process, a second of the processor each time.
    RuntimeError says what javac says.
    """
    digest = hashlib.sha256(source.read_bytes() + class_path.encode())
    classes = _CLASSES / f"{source.stem}-{digest.hexdigest()[:16]}"
    if not classes.is_dir():
        _compile(source, class_path, classes)
    return ["-cp", f"{class_path}{os.pathsep}{classes}", source.stem]


def _compile(source: Path, class_path: str, classes: Path) -> None:
    classes.parent.mkdir(parents=True, exist_ok=True)
    # Compiled aside and renamed, so that a stopped or parallel run never leaves half of them.
    with tempfile.TemporaryDirectory(dir=classes.parent) as aside:
        made = Path(aside) / "made"
        command = ["javac", "-nowarn", "-cp", class_path, "-d", str(made), str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"javac refused {source.name}: {done.stderr[-4000:]}")
        try:
            os.rename(made, classes)
        except OSError:
            # Another process was first.
            if not classes.is_dir():
                raise
