"""Files that hold the same lines, byte for byte once unpacked: one counts, the others are told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from spark_jobs.ingest.file_report import FileReport

_NAMED = 3


def counted_once(reports: Sequence[FileReport]) -> list[FileReport]:
    """Return ``reports`` with every file but the first of those with a broker's same lines empty.

    First is the one whose name comes first. The lines of the others are ``duplicated``, and nothing
    that was written of them is named any more. A file without a line is nobody's duplicate.
    """
    first_of: dict[tuple[int | None, str], FileReport] = {}
    for report in sorted(reports, key=lambda r: r.source_file):
        if report.lines_read:
            first_of.setdefault((report.broker_id, report.digest), report)
    counted = []
    for report in reports:
        first = first_of.get((report.broker_id, report.digest), report)
        counted.append(report if first is report else _duplicate(report, first))
    return counted


def _duplicate(report: FileReport, first: FileReport) -> FileReport:
    return replace(
        report,
        other=0,
        duplicated=report.lines_read,
        duplicate_of=first.source_file,
        counts=[],
        parts=[],
        broker_ids=[],
        first_request_ms=None,
        day_digests={},
        alterations=[],
    )


def same_lines_sentences(reports: Sequence[FileReport]) -> list[str]:
    """Return what a person should know of files with the same lines."""
    sentences = []
    pairs = sorted((r.source_file, r.duplicate_of) for r in reports if r.duplicate_of is not None)
    if pairs:
        named = ", ".join(f"{file} (as {first})" for file, first in pairs[:_NAMED])
        more = ", …" if len(pairs) > _NAMED else ""
        sentences.append(
            f"{len(pairs)} file{'s hold' if len(pairs) > 1 else ' holds'} the lines of another and "
            f"count{'' if len(pairs) > 1 else 's'} only once: {named}{more}"
        )
    by_digest: defaultdict[str, list[FileReport]] = defaultdict(list)
    for report in reports:
        if report.lines_read and report.duplicate_of is None:
            by_digest[report.digest].append(report)
    for same in by_digest.values():
        if len(same) > 1:
            names = ", ".join(sorted(r.source_file for r in same)[:_NAMED])
            sentences.append(
                f"the same lines are in the files of several brokers: {names}. Each broker counts "
                "them; look which folder they belong to"
            )
    return sentences
