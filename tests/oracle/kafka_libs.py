"""The jars of one Kafka version, from Maven Central into ``.cache/``, once."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.oracle.lab_process import LabError

CACHE = Path(__file__).resolve().parents[2] / ".cache"
CLIENTS_POM = Path(__file__).parent / "maven" / "clients.xml"
_FETCH_SECONDS = 600


def kafka_libs(kafka_version: str, pom: Path, name: str = "kafka") -> Path:
    """Return the folder of all jars that ``pom`` asks for, ``.cache/<name>-<version>/libs``.

    Fetched again only when the pom has changed. ``LabError`` says what Maven said.
    """
    home = CACHE / f"{name}-{kafka_version}"
    kept_pom = home / "pom.xml"
    if kept_pom.is_file() and kept_pom.read_text() == pom.read_text():
        return home / "libs"
    CACHE.mkdir(exist_ok=True)
    # Made aside and renamed, so that a stopped run never leaves half a folder behind.
    with tempfile.TemporaryDirectory(dir=CACHE) as aside:
        made = Path(aside) / home.name
        made.mkdir()
        shutil.copy(pom, made / "pom.xml")
        _copy_dependencies(made, kafka_version)
        if home.exists():
            os.replace(home, Path(aside) / "old")
        os.replace(made, home)
    return home / "libs"


def _copy_dependencies(folder: Path, kafka_version: str) -> None:
    if shutil.which("mvn") is None:
        raise LabError("mvn is not on PATH: install Maven, which fetches Kafka's jars")
    command = [
        "mvn",
        "-q",
        "-B",
        f"-Dkafka.version={kafka_version}",
        "dependency:copy-dependencies",
        "-DoutputDirectory=libs",
    ]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_FETCH_SECONDS
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr)[-2000:]
        raise LabError(f"Maven could not fetch the jars of Kafka {kafka_version}: {said}")
