"""Copying an archive under pseudonyms: the whole of it, or nothing.

Files are called only by words that the layout gives a meaning. Those of a broker keep their order,
which is the order of their lines where times are equal.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import secrets
import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from spark_jobs.anonymize.anonymize_file import (
    JOURNAL,
    PROPERTIES,
    REQUEST_LOG,
    SERVER_LOG,
    SNAPSHOT,
    CopyReport,
    CopyTask,
    copy_file,
)
from spark_jobs.anonymize.pseudonyms import Pseudonyms
from spark_jobs.anonymize.quota_files import written_version
from spark_jobs.errors import AuditFailedError, BadInputError
from spark_jobs.ingest.archive import (
    VERSION,
    Archive,
    LogFile,
    archive_files,
    clusters_of,
    find_archive,
)
from spark_jobs.ingest.file_report import check_none_refused
from spark_jobs.settings import AnonymizeSettings
from spark_jobs.warehouse.scope import checked_cluster
from spark_jobs.warehouse.secret_files import check_kept_from_others
from spark_jobs.warehouse.storage import is_in_bucket

KEY_BYTES_MIN, _KEY_BYTES_MAX = 16, 4096
_MADE_BYTES = 32


_STEMS = (
    "kafka-request.log", "server.log", "server.properties", "kafka-version.txt",
    "quota-snapshot", "quota_changes.txt",
)  # fmt: skip
# A date with maybe a time, a moment in epoch seconds or ms, a count: and no address.
_NUMBER = r"(?:20\d\d(?:[-_.]?\d\d){1,2}(?:[-_.T:]?\d\d){0,3}Z?|\d{13}|\d{10}|\d{1,4})"
_FOLDER = re.compile(rf"broker=[0-9]+|{_NUMBER}", re.ASCII)
_END = re.compile(rf"(?:[-_.]{_NUMBER}){{0,2}}(?:\.log|\.txt|\.json)?(?:\.gz|\.zst)?", re.ASCII)
_KEPT_END = re.compile(r"(?:\.json|\.txt)?(?:\.gz|\.zst)?$")
_EPOCH_MS = re.compile(r"(?<!\d)\d{13}(?!\d)")


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """How lines are read, as options of an ingest, and what is copied beside the archive's files.

    ``cluster`` None: all that the archive holds.
    """

    timezone: str = "UTC"
    prefix: str | None = None
    listeners: Mapping[str, int] | None = None
    snapshots: Sequence[Path] = ()
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class CopiedArchive:
    """What was copied: a report of each file, how many were left out, options of an audit."""

    reports: tuple[CopyReport, ...]
    files_left_out: int
    copies: Mapping[str, str]  # by the file's path in the archive, that in the copy
    audit_options: tuple[str, ...]


def anonymize_archive(archive: Path, out: Path, key: bytes, options: CopyOptions) -> CopiedArchive:
    """Write the copy of ``archive`` as the folder ``out``, which must not be there, or be empty.

    Raises BadInputError where either cannot be used as given, and then leaves nothing behind.
    """
    check_apart(archive, out)
    draft = out.absolute().parent / f".{out.name}.{uuid.uuid4().hex}"
    try:
        draft.mkdir(parents=True)
        tasks = list(_tasks(archive, draft, key, options))
        reports = tuple(_run(tasks))
        check_none_refused(report.file for report in reports)
        draft.rename(out.absolute())  # an empty folder is replaced in the same moment
    except OSError as error:
        raise BadInputError(
            f"{out} cannot be written: {error.strerror or error}. Nothing was left of it."
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    copies = {t.log.source_file: t.target.relative_to(draft).as_posix() for t in tasks}
    return CopiedArchive(
        reports, _left_out(archive, tasks, options), copies, _audit_options(key, options)
    )


def check_apart(archive: Path, out: Path) -> None:
    """Raise BadInputError where one folder is in the other, or ``out`` has something in it."""
    if is_in_bucket(out):
        raise BadInputError(f"{out} is in a bucket; a copy is written to a folder. Move it then.")
    if not is_in_bucket(archive):
        inner, outer = out.resolve(), archive.resolve()
        if inner.is_relative_to(outer) or outer.is_relative_to(inner):
            raise BadInputError(
                f"{out} and {archive} are one within the other: the copy has to lie apart from "
                "the archive. Choose another folder."
            )
    if out.is_symlink() or (out.exists() and not (out.is_dir() and not any(out.iterdir()))):
        raise BadInputError(
            f"{out} is there already and no empty folder. Choose another, or remove it."
        )


def _tasks(archive: Path, draft: Path, key: bytes, options: CopyOptions) -> Iterator[CopyTask]:
    names = Pseudonyms(key)
    clusters = clusters_of(archive)
    for cluster in (options.cluster,) if options.cluster else clusters or ("default",):
        found = find_archive(archive, checked_cluster(cluster))
        is_folder = found.root != archive
        target = draft / f"cluster={names.cluster(cluster)}" if is_folder else draft
        target.mkdir(exist_ok=True)
        if found.kafka_version is not None:
            version = written_version(found.kafka_version)
            (target / VERSION).write_text(version, encoding="utf-8")
        files = list(_files(found, archive))
        copies = names_in_copy({_below(log, found): log.broker_id for _, log in files})
        for kind, log in files:
            path = target / copies[_below(log, found)]
            yield CopyTask(kind, log, path, options.timezone, options.prefix, key)
        for number, path in enumerate(options.snapshots):
            folder = target / f"option-{number:06}"
            log = _listed(path, path.name, None)
            copy = names_in_copy({PurePosixPath(f"quota-snapshot-{path.name}"): None})
            name = next(iter(copy.values())).name
            yield CopyTask(SNAPSHOT, log, folder / name, options.timezone, options.prefix, key)


def _files(found: Archive, archive: Path) -> Iterator[tuple[str, LogFile]]:
    yield from ((REQUEST_LOG, log) for log in found.request_logs)
    yield from ((SERVER_LOG, log) for log in found.server_logs)
    for broker_id, path in found.properties.items():
        yield PROPERTIES, _listed(path, path.relative_to(archive).as_posix(), broker_id)
    for kind, paths in ((SNAPSHOT, found.snapshots), (JOURNAL, found.journals)):
        for path in paths:
            yield kind, _listed(path, path.relative_to(archive).as_posix(), None)


def _left_out(archive: Path, tasks: Sequence[CopyTask], options: CopyOptions) -> int:
    """Return the number of files that no audit reads; versions are read, and no task."""
    files = [names[0] for names in archive_files(archive, lambda _: False)]
    copied = len(tasks) - len(options.snapshots)
    return sum(file.name != VERSION for file in files) - copied


def _listed(path: Path, source_file: str, broker_id: int | None) -> LogFile:
    now = path.stat()
    return LogFile(path, source_file, broker_id, now.st_size, now.st_mtime_ns)


def _below(log: LogFile, found: Archive) -> PurePosixPath:
    return PurePosixPath(log.path.relative_to(found.root).as_posix())


def _run(tasks: Iterable[CopyTask]) -> Iterator[CopyReport]:
    """Yield the report of each file, the largest begun first, as many at a time as processes."""
    by_size = sorted(tasks, key=lambda task: -task.log.size_bytes)
    cores = len(os.sched_getaffinity(0))
    processes = min(AnonymizeSettings().processes or cores, len(by_size))
    if processes <= 1:
        yield from map(copy_file, by_size)
        return
    # Tasks, the key among them, reach new processes through a pipe and stand in no arguments.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        begun = [pool.submit(copy_file, task) for task in by_size]
        try:
            for done in as_completed(begun):
                yield done.result()
        except BrokenProcessPool as error:
            raise AuditFailedError(
                "A process that copied files was ended from outside, most likely for lack of "
                "memory. Nothing was left of the copy; run again with "
                "QUOTA_AUDIT_ANONYMIZE_PROCESSES=1."
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _audit_options(key: bytes, options: CopyOptions) -> tuple[str, ...]:
    """Return the options that an audit of the copy needs, where the archive needed them."""
    names = Pseudonyms(key)
    listeners = tuple(
        f"--listener {names.listener_address(address)}={broker}"
        for address, broker in (options.listeners or {}).items()
    )
    zone = (f"--timezone {options.timezone}",) if options.timezone != "UTC" else ()
    return zone + listeners


def names_in_copy(
    broker_ids: Mapping[PurePosixPath, int | None],
) -> dict[PurePosixPath, PurePosixPath]:
    """Return the path in the copy for each path: the same where it tells nothing.

    ``broker_ids`` are by the path of a file below its cluster's folder. Where a path of a broker
    has words of its own, all the broker's files lie in numbered folders.
    """
    by_broker: dict[int | None, list[PurePosixPath]] = defaultdict(list)
    for path, broker_id in broker_ids.items():
        by_broker[broker_id].append(path)
    return {
        path: copy
        for broker_id, paths in by_broker.items()
        for path, copy in _of_broker(broker_id, sorted(paths, key=str)).items()
    }


def _of_broker(
    broker_id: int | None, paths: Sequence[PurePosixPath]
) -> dict[PurePosixPath, PurePosixPath]:
    if all(map(_tells_nothing, paths)):
        return {path: path for path in paths}
    folder = PurePosixPath() if broker_id is None else PurePosixPath(f"broker={broker_id}")
    return {path: folder / f"{number:06}" / _plain(path) for number, path in enumerate(paths)}


def _tells_nothing(path: PurePosixPath) -> bool:
    stem = _stem(path.name)
    folders = all(_FOLDER.fullmatch(part) for part in path.parts[:-1])
    return folders and _END.fullmatch(path.name, len(stem)) is not None


def _stem(name: str) -> str:
    return next(stem for stem in _STEMS if name.startswith(stem))


def _plain(path: PurePosixPath) -> str:
    """Return a file's name without all that is not needed to read it."""
    stem = _stem(path.name)
    moment = _EPOCH_MS.search(path.name) if stem == "quota-snapshot" else None
    end = _KEPT_END.search(path.name)
    return stem + (f"-{moment[0]}" if moment else "") + (end[0] if end else "")


def anonymize_key(key_file: Path | None) -> bytes:
    """Return the key in ``key_file``, else that of the settings, else a new one.

    A key file that is not there is made, for its owner only; without one, a new key is kept
    nowhere. Raises BadInputError for a key that could be guessed; no message quotes one.
    """
    if key_file is not None:
        return _checked_key(_key_of_file(key_file), f"the key in {key_file}")
    setting = AnonymizeSettings().key
    if setting is not None:
        key = setting.get_secret_value().strip().encode("utf-8", "surrogateescape")
        return _checked_key(key, "QUOTA_AUDIT_ANONYMIZE_KEY")
    return secrets.token_bytes(_MADE_BYTES)


def _key_of_file(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _read_key(path)
    except OSError as error:
        raise BadInputError(f"The key file {path} cannot be made: {error.strerror}.") from error
    key = secrets.token_hex(_MADE_BYTES).encode()
    with os.fdopen(descriptor, "wb") as file:
        file.write(key + b"\n")
    return key


def _read_key(path: Path) -> bytes:
    try:
        check_kept_from_others(path, "--key-file")
        with path.open("rb") as file:
            return file.read(_KEY_BYTES_MAX + 1).strip()
    except OSError as error:
        raise BadInputError(f"The key file {path} cannot be read: {error.strerror}.") from error


def _checked_key(key: bytes, where: str) -> bytes:
    if not KEY_BYTES_MIN <= len(key) <= _KEY_BYTES_MAX:
        raise BadInputError(
            f"Found {where} with {len(key)} bytes, expected {KEY_BYTES_MIN} to {_KEY_BYTES_MAX:,}, "
            "such as what `openssl rand -hex 32` prints. Names could be guessed by a shorter one."
        )
    return key
