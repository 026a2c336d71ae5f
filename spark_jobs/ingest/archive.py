"""Finding the files of an archive: request logs by broker, and what lies beside them.

Archives are mounted and tidied with symbolic links: of the folder itself, of hours, of files. One
that leads out of the archive could make an audit read, and show, any file of the machine.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archived_file import read_small_text
from spark_jobs.quota.java_math import INT_MAX
from spark_jobs.warehouse.scope import checked_cluster
from spark_jobs.warehouse.storage import files_below, is_in_bucket

REQUEST_LOG = "kafka-request.log"
SERVER_LOG = "server.log"
VERSION = "kafka-version.txt"
_PROPERTIES, _JOURNAL = "server.properties", "quota_changes.txt"
_SNAPSHOT = "quota-snapshot"
_METRICS = re.compile(r"^broker-metrics.*\.json(\.gz|\.zst)?$")
_BROKER = re.compile(r"^broker=([0-9]+)$")
_CLUSTER = re.compile(r"^cluster=(.+)$")


@dataclass(frozen=True, slots=True)
class LogFile:
    """One log file, as it was when the archive was listed.

    ``broker_id`` is None where the path does not say it.
    """

    path: Path
    source_file: str
    broker_id: int | None
    size_bytes: int
    modified_ns: int | None = None


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
    metrics: tuple[Path, ...]
    kafka_version: str | None


def clusters_of(archive: Path) -> tuple[str, ...]:
    """Return the names of the ``cluster=<name>`` folders of an archive, in order."""
    _check_folder(archive)
    names = (m[1] for p in archive.iterdir() if p.is_dir() and (m := _CLUSTER.match(p.name)))
    return tuple(sorted(names))


def choose_cluster(archive: Path, cluster: str | None) -> str:
    """Return the cluster to work on: as asked, else the archive's only one, else ``default``.

    Raises BadInputError where there are several, or the name is none.
    """
    if cluster is not None:
        return checked_cluster(cluster)
    clusters = clusters_of(archive)
    if len(clusters) > 1:
        raise BadInputError(
            f"{archive} holds the clusters {', '.join(clusters)}: choose one with --cluster."
        )
    return checked_cluster(clusters[0]) if clusters else "default"


def find_archive(archive: Path, cluster: str) -> Archive:
    """Return the files of ``cluster``: below ``cluster=<name>/`` where such folders exist.

    Raises BadInputError where the folder is missing or holds no request log.
    """
    found = list_archive(archive, cluster)
    if not found.request_logs:
        raise BadInputError(
            f"No request log found under {found.root}: expected files named "
            f"broker=<id>/…/{REQUEST_LOG}* (plain, .gz or .zst). Check the path, or turn on the "
            "broker's logger kafka.request.logger at DEBUG."
        )
    return found


def list_archive(archive: Path, cluster: str) -> Archive:
    """Return the files of ``cluster`` as :func:`find_archive` does, be there request logs or none.

    Raises BadInputError where the folder is missing.
    """
    clusters = clusters_of(archive)
    root = archive / f"cluster={cluster}" if cluster in clusters else archive
    if clusters and cluster not in clusters:
        raise BadInputError(
            f"{archive} holds the clusters {', '.join(clusters)}, but not {cluster!r}. "
            "Choose one with --cluster."
        )
    files = _files_of(archive, root)
    version = next((p for p in files if p.name == VERSION), None)
    return Archive(
        root=root,
        cluster=cluster,
        request_logs=tuple(_log_file(p, archive) for p in files if _is_log(p, REQUEST_LOG)),
        server_logs=tuple(_log_file(p, archive) for p in files if _is_log(p, SERVER_LOG)),
        properties={
            broker: p
            for p in files
            if p.name == _PROPERTIES and (broker := _broker_of(p)) is not None
        },
        snapshots=tuple(p for p in files if p.name.startswith(_SNAPSHOT)),
        journals=tuple(p for p in files if p.name == _JOURNAL),
        metrics=tuple(p for p in files if _METRICS.match(p.name)),
        kafka_version=read_small_text(version).strip() if version else None,
    )


def ignored_files(archive: Path, cluster: str) -> list[str]:
    """Return the names of the files of ``cluster`` that nothing looks at, below the archive."""
    root = archive / f"cluster={cluster}" if cluster in clusters_of(archive) else archive
    return sorted(
        names[0].relative_to(archive).as_posix()
        for names in archive_files(archive, _is_read)
        if names[0].is_relative_to(root) and not any(_is_read(name.name) for name in names)
    )


def _check_folder(archive: Path) -> None:
    if not archive.is_dir():
        raise BadInputError(
            f"{archive} is not a folder. Expected an archive folder with "
            f"[cluster=<name>/]broker=<id>/…/{REQUEST_LOG}* below it."
        )


def _files_of(archive: Path, root: Path) -> list[Path]:
    """Return one name below ``root`` of each file that has a name there.

    Of several names the one that tells the broker is taken.
    """
    files = []
    for names in archive_files(archive, _is_read):
        below = [n for n in names if n.is_relative_to(root) and _is_read(n.name)]
        of_broker = (n for n in below if _broker_of(n.relative_to(archive)) is not None)
        if below:
            files.append(next(of_broker, below[0]))
    return sorted(files)


def _is_read(name: str) -> bool:
    """Return True if a file of this name is looked at; all others are ignored."""
    return (
        _is_log(Path(name), REQUEST_LOG)
        or _is_log(Path(name), SERVER_LOG)
        or (name in {_PROPERTIES, VERSION, _JOURNAL} or name.startswith(_SNAPSHOT))
        or _METRICS.match(name) is not None
    )


def _is_log(path: Path, stem: str) -> bool:
    return path.name.startswith(stem) and not path.name.endswith((".tmp", ".swp", ".md5"))


def _broker_of(path: Path) -> int | None:
    for part in path.parts:
        if found := _BROKER.match(part):
            if len(found[1]) > 10 or int(found[1]) > INT_MAX:
                raise BadInputError(
                    f"{path}: {part} is no broker's folder, ids of brokers are up to "
                    f"{INT_MAX}. Rename it."
                )
            return int(found[1])
    return None


def _log_file(path: Path, archive: Path) -> LogFile:
    relative = path.relative_to(archive)
    # A name of other bytes than UTF-8 is no text that a table holds.
    source_file = os.fsencode(relative.as_posix()).decode("utf-8", "backslashreplace")
    now = path.stat()
    return LogFile(path, source_file, _broker_of(relative), now.st_size, now.st_mtime_ns)


@dataclass(slots=True)
class _Found:
    """Files and specials of an archive by real path, and its links as (path, target)."""

    files: list[Path] = field(default_factory=list)
    specials: list[Path] = field(default_factory=list)
    links: list[tuple[Path, Path]] = field(default_factory=list)


def archive_files(archive: Path, is_wanted: Callable[[str], bool]) -> list[list[Path]]:
    """Return the names of each regular file of ``archive``: its own first, then those of links.

    ``is_wanted`` says of a file's name whether the archive's reader looks at it: of others a link
    may lead anywhere, and they may be of any kind. Raises BadInputError for a link out of the
    archive or to nothing, for a pipe or device, and for a folder that may not be read.
    """
    if is_in_bucket(archive):  # a bucket has neither links nor devices
        return [[file] for file in files_below(archive)]
    root = archive.resolve()
    found = _found(root)
    for special in found.specials:
        if is_wanted(special.name):
            raise BadInputError(
                f"{_shown(special, root, archive)} is no regular file but a pipe, socket or "
                "device. Take it out of the archive."
            )
    names = {file: [_shown(file, root, archive)] for file in sorted(found.files)}
    below = _by_folder(names) if found.links else {}
    for link, target in sorted(found.links):
        shown = _shown(link, root, archive)
        if not _leads_inside(shown, target, root, is_wanted):
            continue
        for file in [target] if target in names else below.get(target, ()):
            names[file].append(shown / file.relative_to(target) if file != target else shown)
    return list(names.values())


def _leads_inside(link: Path, target: Path, root: Path, is_wanted: Callable[[str], bool]) -> bool:
    """Return True if what a link leads to is read; raises BadInputError where it may not be."""
    matters = is_wanted(link.name) or target.is_dir()
    if target.is_relative_to(root):
        if matters and not target.exists():
            raise BadInputError(f"{link} leads to {target}, which is not there. Remove the link.")
        return matters
    if matters:
        raise BadInputError(
            f"{link} leads out of the archive, to {target}. Only links within the archive are "
            "followed: copy what it leads to, or give the folder that holds both as the archive."
        )
    return False


def _by_folder(files: Iterable[Path]) -> dict[Path, list[Path]]:
    """Return the files at any depth below each folder."""
    below: dict[Path, list[Path]] = {}
    for file in files:
        for folder in file.parents:
            below.setdefault(folder, []).append(file)
    return below


def _shown(path: Path, root: Path, archive: Path) -> Path:
    """Return a real path as people wrote it: below the archive as it was given."""
    return archive / path.relative_to(root)


def _found(root: Path) -> _Found:
    found, folders = _Found(), [root]
    while folders:
        for entry in _entries(folders.pop()):
            path = Path(entry.path)
            if entry.is_symlink():
                found.links.append((path, _target(path)))
            elif entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
                found.files.append(path)
            else:
                found.specials.append(path)
    return found


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError as error:
        raise BadInputError(
            f"{folder} cannot be listed ({error.strerror}). Correct its permissions, or run again "
            "when nothing is moved in the archive."
        ) from error


def _target(link: Path) -> Path:
    try:
        return link.resolve(strict=False)
    except (OSError, RuntimeError) as error:
        raise BadInputError(f"{link} leads in a circle. Remove the link.") from error
