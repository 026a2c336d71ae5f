"""Kafka's own jars for the tests that compare with Kafka's own classes."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.oracle.java_program import java_program

JARS = Path(__file__).resolve().parents[2] / ".cache" / "jars"


def maven_jar(artifact_coordinate: str) -> Path:
    """Return the local path of a ``group:artifact:version`` jar, fetched by Maven when absent.

    Skips the calling test, saying so, only where ``mvn`` or ``java`` is missing; a fetch that
    fails is an error.
    """
    missing = [tool for tool in ("mvn", "java") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not on PATH: Kafka's own classes cannot run")
    _, artifact, version = artifact_coordinate.split(":")
    jar = JARS / f"{artifact}-{version}.jar"
    if not jar.is_file():
        _fetch(artifact_coordinate, jar)
    return jar


def _fetch(artifact_coordinate: str, jar: Path) -> None:
    jar.parent.mkdir(parents=True, exist_ok=True)
    # Fetched aside and renamed, so that a stopped or parallel run never leaves half a jar.
    with tempfile.TemporaryDirectory(dir=jar.parent) as aside:
        command = [
            "mvn",
            "-q",
            "-B",
            "dependency:copy",
            f"-Dartifact={artifact_coordinate}",
            f"-DoutputDirectory={aside}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, cwd=aside)
        if done.returncode != 0:
            raise RuntimeError(
                f"Maven could not fetch {artifact_coordinate} (exit {done.returncode}): "
                f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        os.replace(Path(aside) / jar.name, jar)


# Of a short run: compiling well would take longer than it saves.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def run_java(
    source: Path,
    jars: list[Path],
    *arguments: str,
    stdin: str = "",
    options: tuple[str, ...] = QUICK,
) -> str:
    """Return what the single-file Java program ``source`` prints, run on ``jars``.

    ``stdin`` is given to it as text, ``options`` to the JVM; an exit code other than 0 is an error
    that shows its stderr.
    """
    class_path = os.pathsep.join(str(jar) for jar in jars)
    command = ["java", *options, *java_program(source, class_path), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{source.name} failed (exit {done.returncode}): {done.stderr[-4000:]}")
    return done.stdout
