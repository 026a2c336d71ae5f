"""Which tables a step of the daily DAG reads and writes, as Airflow's lineage is told of them.

Airflow's OpenLineage provider, where it is installed, makes datasets of files' addresses by
itself, and none of ours: an asset's (``submitted_step.asset_uri``) is that of any warehouse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from quota_dags.steps import DailyAudit

ARCHIVE = "archive"
"""What the ingest reads: no table, and not in the warehouse."""

_INGESTED = (
    "requests", "quarantine", "files", "brokers", "quota_events", "log_gaps", "broker_starts",
    "throttle_records",
)  # fmt: skip
_REPLAYED = (
    "located_changes", "decisions", "agreement", "rates", "quota_state", "topic_inventory",
)  # fmt: skip

WRITES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ingest_requests": _INGESTED,
        "resolve_quotas": ("quota_changes",),
        "replay_quotas": _REPLAYED,
        "judge_decisions": ("findings", "rate_rollups"),
        "recommend_quotas": ("demand", "change_results", "recommendations"),
        "publish_report": ("reports",),
    }
)
"""Task id → the tables it writes; others check what is there."""

READS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ingest_requests": (ARCHIVE,),
        "validate_ingested": _INGESTED,
        "resolve_quotas": ("files", "brokers", "quota_events"),
        # States and inventory are the day before's.
        "replay_quotas": (
            "requests", "files", "brokers", "log_gaps", "broker_starts", "throttle_records",
            "quota_changes", "quota_state", "topic_inventory",
        ),
        "validate_replayed": ("quota_changes", *_REPLAYED),
        "judge_decisions": (
            "files", "brokers", "log_gaps", "broker_starts", "quota_changes", "located_changes",
            "decisions", "rates",
        ),
        "recommend_quotas": (
            "requests", "files", "brokers", "broker_starts", "quota_changes", "located_changes",
            "decisions", "rates", "findings", "demand", "applied_changes",
        ),
        "validate_judged": (
            "findings", "rate_rollups", "demand", "change_results", "recommendations",
        ),
        "publish_report": (
            "requests", "quarantine", "files", "brokers", "quota_changes", "decisions", "agreement",
            "rates", "findings", "change_results", "recommendations",
        ),
    }
)  # fmt: skip
"""Task id → the tables it reads."""


def report_lineage(task_id: str, audit: DailyAudit, collector: Any) -> None:
    """Tell Airflow's lineage ``collector`` what a step reads and writes.

    One that nothing reads, as where the OpenLineage provider is not installed, drops it.
    """
    for address in _addresses(READS[task_id], audit):
        collector.add_input_asset(None, uri=address)
    for address in _addresses(WRITES.get(task_id, ()), audit):
        collector.add_output_asset(None, uri=address)


def _addresses(tables: tuple[str, ...], audit: DailyAudit) -> Iterator[str]:
    """Return the address of each table's folder, all of its clusters and days."""
    for table in tables:
        folder = audit.archive if table == ARCHIVE else f"{audit.warehouse}/{table}"
        yield folder if "://" in folder else Path(folder).as_uri()
