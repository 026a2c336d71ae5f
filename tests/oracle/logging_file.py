"""How the lab's nodes log, by version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.oracle.cluster_plan import parse_version

_FOLDER = Path(__file__).parent
_FIRST_WITH_LOG4J_2 = (4, 0, 0)


@dataclass(frozen=True, slots=True)
class LoggingFile:
    """A logging configuration and the system property by which the broker's JVM is told of it."""

    path: Path
    system_property: str
    pom: Path

    @property
    def jvm_option(self) -> str:
        """Return the option of the broker's JVM."""
        return f"-D{self.system_property}={self.path.as_uri()}"


def logging_file(kafka_version: str, path: Path | None = None) -> LoggingFile:
    """Return the logging configuration: log4j 2 from Kafka 4 on, log4j 1 (reload4j) before.

    It is ``path``, the lab's own where there is none.
    """
    if parse_version(kafka_version) >= _FIRST_WITH_LOG4J_2:
        return LoggingFile(
            path=path or _FOLDER / "logging" / "log4j2.xml",
            system_property="log4j2.configurationFile",
            pom=_FOLDER / "maven" / "broker-log4j2.xml",
        )
    return LoggingFile(
        path=path or _FOLDER / "logging" / "log4j.properties",
        system_property="log4j.configuration",
        pom=_FOLDER / "maven" / "broker-reload4j.xml",
    )
