"""Finding the files of an archive: request logs by broker, and what lies beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.errors import BadInputError

REQUEST_LOG = "kafka-request.log"
SERVER_LOG = "server.log"
_BROKER = re.compile(r"^broker=(\d+)$")
_CLUSTER = re.compile(r"^cluster=(.+)$")


@dataclass(frozen=True, slots=True)
class LogFile:
    """One log file; ``broker_id`` is None where the path does not say it."""

    path: Path
    source_file: str
    broker_id: int | None
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Archive:
    """The files of one cluster in an archive folder."""

    root: Path
    cluster: str
    request_logs: tuple[LogFile, ...]
    server_logs: tuple[LogFile, ...]
    properties: Mapping[int, Path]
    snapshots: tuple[Path, ...]
    journals: tuple[Path, ...]
    kafka_version: str | None


def clusters_of(archive: Path) -> tuple[str, ...]:
    """Return the names of the ``cluster=<name>`` folders of an archive, in order."""
    _check_folder(archive)
    names = (m[1] for p in archive.iterdir() if p.is_dir() and (m := _CLUSTER.match(p.name)))
    return tuple(sorted(names))


def find_archive(archive: Path, cluster: str) -> Archive:
    """Return the files of ``cluster``: below ``cluster=<name>/`` where such folders exist.

    Raises BadInputError where the folder is missing or holds no request log.
    """
    clusters = clusters_of(archive)
    root = archive / f"cluster={cluster}" if cluster in clusters else archive
    if clusters and cluster not in clusters:
        raise BadInputError(
            f"{archive} holds the clusters {', '.join(clusters)}, but not {cluster!r}. "
            "Choose one with --cluster."
        )
    files = sorted(p for p in root.rglob("*") if p.is_file())
    logs = tuple(_log_file(p, archive) for p in files if _is_log(p, REQUEST_LOG))
    if not logs:
        raise BadInputError(
            f"No request log found under {root}: expected files named "
            f"broker=<id>/…/{REQUEST_LOG}* (plain, .gz or .zst). Check the path, or turn on the "
            "broker's logger kafka.request.logger at DEBUG."
        )
    version = next((p for p in files if p.name == "kafka-version.txt"), None)
    return Archive(
        root=root,
        cluster=cluster,
        request_logs=logs,
        server_logs=tuple(_log_file(p, archive) for p in files if _is_log(p, SERVER_LOG)),
        properties={
            broker: p
            for p in files
            if p.name == "server.properties" and (broker := _broker_of(p)) is not None
        },
        snapshots=tuple(p for p in files if p.name.startswith("quota-snapshot")),
        journals=tuple(p for p in files if p.name == "quota_changes.txt"),
        kafka_version=version.read_text().strip() if version else None,
    )


def listener_brokers(options: list[str]) -> dict[str, int]:
    """Return listener address → broker id from options like ``10.0.0.5:9092=3``.

    Raises BadInputError naming the option that does not read so.
    """
    brokers: dict[str, int] = {}
    for option in options:
        address, separator, broker = option.rpartition("=")
        if not separator or ":" not in address or not broker.isdigit():
            raise BadInputError(
                f"--listener {option!r} is not of the form host:port=<broker id>, "
                "for example 10.0.0.5:9092=3."
            )
        brokers[address] = int(broker)
    return brokers


def _check_folder(archive: Path) -> None:
    if not archive.is_dir():
        raise BadInputError(
            f"{archive} is not a folder. Expected an archive folder with "
            f"[cluster=<name>/]broker=<id>/…/{REQUEST_LOG}* below it."
        )


def _is_log(path: Path, stem: str) -> bool:
    return path.name.startswith(stem) and not path.name.endswith((".tmp", ".swp", ".md5"))


def _broker_of(path: Path) -> int | None:
    return next((int(m[1]) for part in path.parts if (m := _BROKER.match(part))), None)


def _log_file(path: Path, archive: Path) -> LogFile:
    relative = path.relative_to(archive)
    return LogFile(path, relative.as_posix(), _broker_of(relative), path.stat().st_size)


def choose_cluster(archive: Path, cluster: str | None) -> str:
    """Return the cluster to work on: as asked, else the archive's only one, else ``default``."""
    if cluster is not None:
        return cluster
    clusters = clusters_of(archive)
    if len(clusters) > 1:
        raise BadInputError(
            f"{archive} holds the clusters {', '.join(clusters)}: choose one with --cluster."
        )
    return clusters[0] if clusters else "default"
