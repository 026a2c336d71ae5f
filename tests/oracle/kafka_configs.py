"""Kafka's own ``kafka-configs.sh`` against a running cluster."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.oracle.kafka_libs import kafka_libs
from tests.oracle.lab_process import LabError
from tests.oracle.logging_file import logging_file

_MAIN = "kafka.admin.ConfigCommand"
_SECONDS = 60
_LEVELS = (("users",), ("clients",), ("users", "clients"))


def described_quotas(kafka_version: str, servers: str) -> list[str]:
    """Return the lines that ``--describe`` prints for every level, sorted."""
    return sorted(
        line
        for level in _LEVELS
        for line in kafka_configs(
            kafka_version,
            servers,
            "--describe",
            *(argument for kind in level for argument in ("--entity-type", kind)),
        ).splitlines()
    )


def kafka_configs(kafka_version: str, servers: str, *arguments: str) -> str:
    """Return what ``kafka-configs.sh`` prints. Raises LabError where it fails."""
    libs: Path = kafka_libs(kafka_version, logging_file(kafka_version).pom)
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command = ["java", *quick, "-cp", f"{libs}{os.sep}*", _MAIN, "--bootstrap-server", servers]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=_SECONDS)
    if done.returncode != 0:
        raise LabError(f"kafka-configs.sh {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout
