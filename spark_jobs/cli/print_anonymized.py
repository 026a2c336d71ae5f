"""What people are told of an anonymized copy: what was replaced, what was left out, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from spark_jobs.anonymize.anonymize_archive import (
    CopiedArchive,
    CopyOptions,
    anonymize_archive,
    anonymize_key,
)
from spark_jobs.ingest.file_report import warnings_of


def print_anonymized(archive: Path, out: Path, key_file: Path | None, options: CopyOptions) -> None:
    """Write the copy of ``archive`` and print what became of it."""
    copied = anonymize_archive(archive, out, anonymize_key(key_file), options)
    for line in account(copied, out):
        typer.echo(line)


def account(copied: CopiedArchive, out: Path) -> Iterator[str]:
    """Yield the lines that tell of a copy."""
    reports = copied.reports
    kinds = Counter(report.kind for report in reports)
    files = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    lines, requests = (sum(r.lines for r in reports), sum(r.requests for r in reports))
    yield f"{out}: {len(reports)} files ({files}), {lines:,} lines, {requests:,} of them requests"
    yield from _counted("replaced by pseudonyms:", _summed(r.replaced for r in reports))
    left_out = _summed(r.blanked for r in reports)
    bodies = sum(r.bodies_left_out for r in reports)
    left_out["messages of requests that no quota weighs, but for throttle times"] = bodies
    left_out["files that no audit reads"] = copied.files_left_out
    yield from _counted("left out (a line stays a line, of the same kind):", left_out)
    for warning in warnings_of([report.file for report in reports]):
        yield f"warning: {warning}"
    if copied.audit_options:
        yield f"audit it with: {' '.join(copied.audit_options)}"


def _summed(counts: Iterable[Mapping[Any, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update({str(what): number for what, number in count.items()})
    return total


def _counted(title: str, counts: Counter[str]) -> Iterator[str]:
    found = [(what, count) for what, count in sorted(counts.items()) if count]
    yield title
    yield from (f"  {count:>12,}  {what}" for what, count in found)
    if not found:
        yield "  nothing"
