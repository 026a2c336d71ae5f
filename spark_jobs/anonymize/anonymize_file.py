"""One file of an archive → its copy under pseudonyms, line by line, packed as it was."""

from __future__ import annotations

import re
import zoneinfo
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from spark_jobs.anonymize.pseudonyms import Kind, Pseudonyms
from spark_jobs.anonymize.quota_files import (
    written_journal,
    written_properties,
    written_snapshot,
)
from spark_jobs.anonymize.request_lines import RequestLines
from spark_jobs.anonymize.server_lines import ServerLines
from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import LogFile
from spark_jobs.ingest.archived_file import cut_off, packed_writer, read_small_text
from spark_jobs.ingest.file_report import FileReport
from spark_jobs.ingest.log_stream import TruncatedFileError, line_blocks
from spark_jobs.ingest.read_logs import with_changes
from spark_jobs.settings import IngestSettings

REQUEST_LOG, SERVER_LOG, SNAPSHOT, JOURNAL, PROPERTIES = (
    "request logs", "server logs", "snapshots", "journals", "server.properties",
)  # fmt: skip
_TEXTS = {SNAPSHOT: written_snapshot, JOURNAL: written_journal, PROPERTIES: written_properties}


@dataclass(frozen=True, slots=True)
class CopyTask:
    """A file to copy; the key is not among what is shown of a task."""

    kind: str
    log: LogFile
    target: Path
    timezone: str
    prefix: str | None
    key: bytes = field(repr=False)


@dataclass(slots=True)
class CopyReport:
    """What became of one file."""

    kind: str
    file: FileReport
    lines: int = 0
    requests: int = 0
    bodies_left_out: int = 0
    replaced: Counter[Kind] = field(default_factory=Counter)
    blanked: Counter[str] = field(default_factory=Counter)


def copy_file(task: CopyTask) -> CopyReport:
    """Write the copy of one file and return what became of it.

    A file that cannot be used as it is has its reason in ``file.refused``.
    """
    log = task.log
    report = CopyReport(task.kind, FileReport(log.source_file, log.broker_id, log.size_bytes))
    pseudonyms = Pseudonyms(task.key)
    task.target.parent.mkdir(parents=True, exist_ok=True)
    try:
        if task.kind == REQUEST_LOG:
            _copy_requests(task, pseudonyms, report)
        elif task.kind == SERVER_LOG:
            _copy_server_log(task, pseudonyms, report)
        else:
            errors = "replace" if task.kind == PROPERTIES else "strict"
            text = read_small_text(log.path, errors)
            written = _TEXTS[task.kind](text, log.source_file, pseudonyms)
            task.target.write_text(written, encoding="utf-8", errors="replace")
    except BadInputError as error:
        report.file.refused = str(error)
        return report
    report.replaced = pseudonyms.replaced
    report.file = with_changes(report.file, log)
    return report


def _copy_requests(task: CopyTask, pseudonyms: Pseudonyms, report: CopyReport) -> None:
    prefix = re.compile(task.prefix.encode()) if task.prefix else None
    lines = RequestLines(pseudonyms, task.key, zoneinfo.ZoneInfo(task.timezone), prefix)
    _copy_lines(task, lines.line, report)
    report.requests, report.bodies_left_out = lines.requests, lines.bodies_left_out
    report.blanked["lines of other loggers, and of nothing"] += lines.other
    for reason, count in lines.set_aside.items():
        report.blanked[f"lines that do not read: {reason}"] += count


def _copy_server_log(task: CopyTask, pseudonyms: Pseudonyms, report: CopyReport) -> None:
    lines = ServerLines(pseudonyms, task.key)
    _copy_lines(task, lambda raw: lines.line(raw.decode("utf-8", "replace")).encode(), report)
    report.blanked["lines of server logs that tell nothing of quotas"] += lines.blanked


def _copy_lines(task: CopyTask, written: Callable[[bytes], bytes], report: CopyReport) -> None:
    is_cut = False
    with packed_writer(task.target) as target:
        blocks = line_blocks(task.log.path, ratio_max=IngestSettings().unpacked_ratio_max)
        try:
            for block in blocks:
                lines = list(_lines(block))
                report.lines += len(lines)
                target.write(b"".join(written(line) + b"\n" for line in lines))
        except TruncatedFileError:
            is_cut = True
    if is_cut:
        report.blanked["ends of files that are cut off"] += 1
        cut_off(task.target)


def _lines(block: bytes) -> Iterator[bytes]:
    lines = block.split(b"\n")
    return iter(lines if lines[-1] else lines[:-1])
