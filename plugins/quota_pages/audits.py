"""The audits a warehouse holds, what each found, and the files each published."""

from __future__ import annotations

import datetime as dt
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import starmap
from pathlib import Path

from quota_pages.kept_tables import stamp_of
from spark_jobs.publish.audit_outcome import OUTCOME_NAME, AuditOutcome, read_outcome
from spark_jobs.warehouse.scope import RunScope, folders_shown
from spark_jobs.warehouse.storage import CLUSTER_PATTERN

OUTCOMES_KEPT_MAX = 4096
FILE_PATTERN = CLUSTER_PATTERN
"""Of file names: no separator, no leading dot."""


@dataclass(frozen=True, slots=True)
class PublishedAudit:
    """One published day of one cluster, the names of its files, and what it found if known."""

    cluster: str
    day: dt.date
    files: tuple[str, ...]
    outcome: AuditOutcome | None


def published_audits(warehouse: Path) -> list[PublishedAudit]:
    """Return the audits of a warehouse, newest day first, then by cluster."""
    shown = filter(None, starmap(_audit, folders_shown(warehouse, "reports")))
    return sorted(shown, key=lambda audit: (-audit.day.toordinal(), audit.cluster))


def published_audit(scope: RunScope) -> PublishedAudit | None:
    """Return the audit that ``scope`` is of; None where none of its day is published."""
    return _audit(scope.cluster, scope.day, scope.output_dir("reports"))


def audit_of_run(warehouse: Path, dag_run_id: str) -> PublishedAudit | None:
    """Return the audit that an Airflow run published last; None where it has published none."""
    own = (a for a in published_audits(warehouse) if a.outcome)
    return next((a for a in own if a.outcome and a.outcome.dag_run_id == dag_run_id), None)


def published_file(scope: RunScope, name: str) -> Path | None:
    """Return a file of a published audit; None where there is none inside the warehouse.

    Names are looked up among what the folder holds, never joined to a path unseen.
    """
    scope = scope.pinned()
    audit = published_audit(scope)
    if audit is None or name not in audit.files:
        return None
    return file_inside(scope.output_dir("reports"), name, scope.warehouse)


def file_inside(folder: Path, name: str, warehouse: Path) -> Path | None:
    """Return the file ``name`` of ``folder``; None where it is not there, or a link leads out."""
    within = folder.resolve()
    # No file system has such names: a NUL, or thousands of characters.
    with suppress(OSError, ValueError):
        path = (within / name).resolve()
        is_inside = path.is_relative_to(within) and within.is_relative_to(warehouse.resolve())
        return path if is_inside and path.is_file() else None
    return None


def _audit(cluster: str, day: dt.date, folder: Path) -> PublishedAudit | None:
    if not folder.is_dir():
        return None
    files = sorted(path.name for path in folder.iterdir() if path.is_file())
    named = tuple(name for name in files if re.fullmatch(FILE_PATTERN, name))
    return PublishedAudit(cluster, day, named, _outcome(folder / OUTCOME_NAME))


def _outcome(path: Path) -> AuditOutcome | None:
    stamp = stamp_of(path)
    return None if stamp is None else _kept(path, stamp)


@lru_cache(maxsize=OUTCOMES_KEPT_MAX)
def _kept(path: Path, _stamp: tuple[int, int]) -> AuditOutcome | None:
    return read_outcome(path)
