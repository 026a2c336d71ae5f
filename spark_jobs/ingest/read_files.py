"""Reading a log file of an archive on a worker, whatever becomes of the file meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import LogFile
from spark_jobs.ingest.file_report import FileReport
from spark_jobs.ingest.read_logs import ReadTask, read_log_file
from spark_jobs.wording.visible_text import visible

_NAMED = 5


def read_archived(log: LogFile, task: ReadTask) -> FileReport:
    """Return the report of one file; ``refused`` and ``warning`` say what is wrong with it.

    Nothing is raised for the file's sake: a worker's exception would reach people as a traceback.
    """
    try:
        report = read_log_file(log, task)
    except BadInputError as error:
        return FileReport(log.source_file, log.broker_id, log.size_bytes, refused=str(error))
    return with_changes(report, log)


def with_changes(report: FileReport, log: LogFile) -> FileReport:
    """Return ``report`` with what happened to the file since the archive was listed."""
    report.modified_ns = log.modified_ns
    try:
        now = log.path.stat()
    except OSError as error:
        report.warning = (
            f"{log.path} was read, but has been renamed or removed since "
            f"({error.strerror or error}): lines that were written at the end may be missing"
        )
        return report
    if now.st_size > log.size_bytes:
        report.warning = (
            f"{log.path} grew from {log.size_bytes:,} to {now.st_size:,} bytes while it was read: "
            "its last line may be cut, and later ones are missing. Ingest again when it is closed"
        )
    elif now.st_size != log.size_bytes or log.modified_ns not in (None, now.st_mtime_ns):
        report.refused = (
            f"{log.path} was replaced or rewritten while it was read ({log.size_bytes:,} bytes "
            f"when the archive was listed, {now.st_size:,} now): what was read is of neither file. "
            "Run again; copy files into the archive when they are closed."
        )
    return report


def check_none_refused(reports: Iterable[FileReport]) -> None:
    """Raise BadInputError with the reasons of the files that could not be read as they are."""
    refused = [visible(report.refused) for report in reports if report.refused is not None]
    if refused:
        more = f"\nand {len(refused) - _NAMED} more files" if len(refused) > _NAMED else ""
        raise BadInputError("\n".join(refused[:_NAMED]) + more)


def warnings_of(reports: Sequence[FileReport]) -> tuple[str, ...]:
    """Return what people should know of files that were read, in the order of their names."""
    told = sorted(reports, key=lambda report: report.source_file)
    return tuple(visible(report.warning) for report in told if report.warning is not None)
