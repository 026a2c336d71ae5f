"""The audits a warehouse holds, what each found, and the files each published."""

from __future__ import annotations

import datetime as dt
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from quota_pages.kept_tables import stamp_of
from spark_jobs.publish.audit_outcome import OUTCOME_NAME, AuditOutcome, read_outcome
from spark_jobs.warehouse.scope import RunScope
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

    def scope(self, warehouse: Path) -> RunScope:
        """Return the scope of the audit's tables, as published now."""
        return RunScope(warehouse, self.cluster, self.day).pinned()


def published_audits(warehouse: Path) -> list[PublishedAudit]:
    """Return the audits of a warehouse, newest day first, then by cluster."""
    audits = filter(None, map(_audit, (warehouse / "reports").glob("cluster=*/date=*")))
    return sorted(audits, key=lambda audit: (-audit.day.toordinal(), audit.cluster))


def published_audit(warehouse: Path, cluster: str, day: dt.date) -> PublishedAudit | None:
    """Return one audit; None where none of that cluster and day is published."""
    if not re.fullmatch(CLUSTER_PATTERN, cluster):
        return None
    folder = RunScope(warehouse, cluster, day).output_dir("reports")
    return _audit(folder)


def audit_of_run(warehouse: Path, dag_run_id: str) -> PublishedAudit | None:
    """Return the audit that an Airflow run published last; None where it has published none."""
    own = (a for a in published_audits(warehouse) if a.outcome)
    return next((a for a in own if a.outcome and a.outcome.dag_run_id == dag_run_id), None)


def published_file(warehouse: Path, cluster: str, day: dt.date, name: str) -> Path | None:
    """Return a file of a published audit; None where there is none inside the warehouse.

    Names are looked up among what the folder holds, never joined to a path unseen; a link that
    leads out of the reports counts as none.
    """
    audit = published_audit(warehouse, cluster, day)
    if audit is None or name not in audit.files:
        return None
    reports = (warehouse / "reports").resolve()
    path = (audit.scope(warehouse).output_dir("reports") / name).resolve()
    return path if path.is_relative_to(reports) else None


def _audit(folder: Path) -> PublishedAudit | None:
    cluster = folder.parent.name.removeprefix("cluster=")
    # Other folders are not ours, whatever they hold: no audit writes such names.
    with suppress(ValueError):
        day = dt.date.fromisoformat(folder.name.removeprefix("date="))
        if folder.is_dir() and re.fullmatch(CLUSTER_PATTERN, cluster):
            files = sorted(path.name for path in folder.iterdir() if path.is_file())
            named = tuple(name for name in files if re.fullmatch(FILE_PATTERN, name))
            return PublishedAudit(cluster, day, named, _outcome(folder / OUTCOME_NAME))
    return None


def _outcome(path: Path) -> AuditOutcome | None:
    stamp = stamp_of(path)
    return None if stamp is None else _kept(path, stamp)


@lru_cache(maxsize=OUTCOMES_KEPT_MAX)
def _kept(path: Path, _stamp: tuple[int, int]) -> AuditOutcome | None:
    return read_outcome(path)
