"""The command ``quota-audit anonymize``: an archive's copy that can be given away."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.cli.options import (
    ArchiveFolder,
    Cluster,
    Listener,
    Prefix,
    Snapshot,
    Timezone,
    option,
)


def anonymize(
    archive: ArchiveFolder,
    out: Annotated[
        Path, typer.Argument(help="Folder of the copy; not there yet, or empty.", metavar="OUT")
    ],
    key_file: Annotated[
        Path | None,
        option(
            "--key-file FILE",
            "File of the secret key, made where it is not there: copies with the same key "
            "have the same pseudonyms [default: QUOTA_AUDIT_ANONYMIZE_KEY, else a random key that "
            "is kept nowhere].",
            dir_okay=False,
        ),
    ] = None,
    cluster: Cluster = None,
    timezone: Timezone = "UTC",
    listener: Listener = None,
    prefix: Prefix = None,
    snapshot: Snapshot = None,
) -> None:
    """Copy an archive with every name replaced by a pseudonym.

    An audit of the copy decides the same.
    """
    from spark_jobs.anonymize.anonymize_archive import CopyOptions, check_apart
    from spark_jobs.cli.print_anonymized import print_anonymized
    from spark_jobs.errors import BadInputError
    from spark_jobs.ingest.ingest_options import IngestOptions

    read = IngestOptions.of(
        timezone=timezone,
        listeners=listener or [],
        prefix=prefix,
        snapshots=tuple(snapshot or ()),
    )
    check_apart(archive, out)
    if key_file is not None and key_file.resolve().is_relative_to(out.resolve()):
        raise BadInputError(f"{key_file} lies in {out}, which is to be given away.")
    options = CopyOptions(
        timezone=read.timezone,
        prefix=read.prefix,
        listeners=read.listener_brokers,
        snapshots=read.snapshots,
        cluster=cluster,
    )
    print_anonymized(archive, out, key_file, options)
