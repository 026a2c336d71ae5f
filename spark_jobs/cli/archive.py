"""The commands that look at an archive and audit nothing: which days it covers, which are due."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import typer

from spark_jobs.cli.options import ArchiveFolder, Cluster, Prefix, Timezone, Warehouse


def list_days(
    archive: ArchiveFolder,
    cluster: Cluster = None,
    timezone: Timezone = "UTC",
    prefix: Prefix = None,
) -> None:
    """Print the UTC days an archive's logs cover, one a line."""
    from spark_jobs.ingest.archive import choose_cluster, find_archive
    from spark_jobs.ingest.archive_days import archive_days

    for found in archive_days(
        find_archive(archive, choose_cluster(archive, cluster)), timezone, prefix
    ):
        typer.echo(found.isoformat())


def list_due(
    archive: ArchiveFolder,
    warehouse: Warehouse,
    cluster: Cluster = None,
    timezone: Timezone = "UTC",
    prefix: Prefix = None,
) -> None:
    """Print the days to be audited, or audited again, and why."""
    from spark_jobs.audit.print_due import print_due
    from spark_jobs.ingest.archive import choose_cluster, find_archive
    from spark_jobs.spark.spark_session import spark_session

    found = find_archive(archive, choose_cluster(archive, cluster))
    with ExitStack() as stack:
        session = partial(stack.enter_context, spark_session("due"))
        print_due(found, warehouse.absolute(), timezone, prefix, session)
