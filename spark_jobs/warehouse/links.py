"""Links in which other tools find what is published: ``decisions/cluster=<c>/date=<d>`` and so on.

They lead through ``current`` of the day's runs, so publishing moves all of a day's at once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from spark_jobs.warehouse.runs import CURRENT
from spark_jobs.warehouse.scope import OUTPUTS, RunScope, days_of
from spark_jobs.warehouse.storage import is_in_bucket, remove_folder, replace_link
from spark_jobs.warehouse.tables import partition_columns


def link_ahead(scope: RunScope) -> None:
    """Make the links that are missing for the run of ``scope``, which is published next."""
    for table in scope.tables() or {}:
        plain = scope.plain_dir(table)
        if _has_link(scope, table) and not plain.exists():
            _link(scope, table)


def link_published(scope: RunScope, tables: Iterable[str]) -> None:
    """Let the links of ``tables`` lead to what is published of the day; remove those of nothing."""
    published = scope.tables() or {}
    for table in tables:
        plain, place = scope.plain_dir(table), published.get(table)
        if is_in_bucket(plain) and table in OUTPUTS and scope.warehouse / (place or "") != plain:
            remove_folder(plain)  # an earlier version's
        # What was written before there were runs stays where it is.
        if not _has_link(scope, table) or scope.warehouse / (place or "") == plain:
            continue
        if plain.is_dir() and not plain.is_symlink():
            shutil.rmtree(plain)
        if place is None:
            plain.unlink(missing_ok=True)
        elif not plain.is_symlink() or plain.readlink() != link_target(scope, table):
            _link(scope, table)


def link_target(scope: RunScope, table: str) -> Path:
    """Return the target of a table's link, relative to its folder: ``../../runs/…/<table>``."""
    return Path(os.path.relpath(scope.runs / CURRENT / table, scope.plain_dir(table).parent))


def _link(scope: RunScope, table: str) -> None:
    plain = scope.plain_dir(table)
    plain.parent.mkdir(parents=True, exist_ok=True)
    replace_link(plain, link_target(scope, table))


def _has_link(scope: RunScope, table: str) -> bool:
    """Return False in a bucket, which has no links, and for a table of which the last day's is."""
    if is_in_bucket(scope.warehouse):
        return False
    if "date" in partition_columns(table):
        return True
    days = days_of(scope.warehouse, scope.cluster, table)
    return not days or scope.day >= days[-1]
