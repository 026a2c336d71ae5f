"""Printing the check of an archive, for people or as JSON."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import typer

from spark_jobs.check.check_archive import check_archive
from spark_jobs.check.page import page_lines
from spark_jobs.check.result import as_json
from spark_jobs.ingest.archive import choose_cluster, ignored_files, list_archive
from spark_jobs.ingest.ingest_options import IngestOptions

_FILE_WIDTH = 100
NOTHING_TO_AUDIT = 3
"""Exit code where nothing of an archive can be audited as it is."""


def print_check(
    archive: Path,
    cluster: str | None,
    options: IngestOptions,
    *,
    reads_all: bool,
    is_json: bool,
) -> int:
    """Print what an archive can be audited for; return the exit code: 0, or NOTHING_TO_AUDIT."""
    found = list_archive(archive, choose_cluster(archive, cluster))
    ignored = ignored_files(archive, found.cluster)
    check = check_archive(found, str(archive), ignored, options, reads_all=reads_all)
    if is_json:
        typer.echo(json.dumps(as_json(check)))
    else:
        # A file is the same whoever wrote it, and from whichever window.
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _FILE_WIDTH
        for line in page_lines(check, width):
            typer.echo(line)
    return 0 if check.can_be_audited else NOTHING_TO_AUDIT
