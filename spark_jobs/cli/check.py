"""The command ``quota-audit check``: whether an archive can be audited, and what is missing."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_jobs.cli.options import (
    ArchiveFolder,
    AsJson,
    BrokerVersion,
    Cluster,
    IgnoreProperties,
    IgnoreServerLogs,
    Listener,
    Prefix,
    Snapshot,
    Timezone,
    ingest_options,
    option,
)


def check_archive(
    archive: ArchiveFolder,
    cluster: Cluster = None,
    timezone: Timezone = "UTC",
    broker_version: BrokerVersion = None,
    listener: Listener = None,
    prefix: Prefix = None,
    snapshot: Snapshot = None,
    ignore_server_logs: IgnoreServerLogs = False,
    ignore_server_properties: IgnoreProperties = False,
    reads_all: Annotated[
        bool,
        option(
            "--all",
            "Look at every line [default: of large archives a part of each file, 256 MB in all].",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say whether an archive can be audited, and what is missing.

    Also says what an audit would take. Writes nothing and starts no Spark. Exits with 3 where
    nothing can be audited.
    """
    from spark_jobs.cli.print_check import print_check

    options = ingest_options(
        timezone, broker_version, listener, prefix, snapshot, ignore_server_logs,
        ignore_server_properties,
    )  # fmt: skip
    code = print_check(archive, cluster, options, reads_all=reads_all, is_json=as_json)
    if code:
        raise typer.Exit(code)
