"""The pipeline: an audit's steps in their order, what each runs, reads, writes and checks.

The daily DAG and its lineage, ``quota-audit run``, the stages of Great Expectations and the tables
of the docs are made of these rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

ARCHIVE = "archive"
"""What the ingest reads: no table, and not in the warehouse."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an audit; ``command`` is what follows ``quota-audit``, ``says`` what it does.

    ``reads`` and ``writes`` are tables; a validation reads what it checks.
    """

    task_id: str
    command: tuple[str, ...]
    says: str
    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()

    @property
    def stage(self) -> str | None:
        """The stage that a validation checks: ``ingested``."""
        return self.command[1] if self.command[0] == "validate" else None


_INGESTED = (
    "requests", "quarantine", "files", "brokers", "quota_events", "log_gaps", "broker_starts",
    "throttle_records",
)  # fmt: skip
_REPLAYED = (
    "located_changes", "decisions", "agreement", "rates", "quota_state", "topic_inventory",
)  # fmt: skip
_FOUND = ("findings", "rate_rollups")
_RECOMMENDED = ("demand", "change_results", "recommendations")

_STEPS = (
    Step(
        "ingest_requests", ("ingest",),
        "Reads the archive: requests, changes of quotas, brokers, and what could not be read.",
        reads=(ARCHIVE,), writes=_INGESTED,
    ),
    Step(
        "validate_ingested", ("validate", "ingested"),
        "Checks what was ingested.",
        reads=_INGESTED,
    ),
    Step(
        "resolve_quotas", ("resolve",),
        "Finds out which quota was in force from when to when, at which level, per broker.",
        reads=("files", "brokers", "quota_events"), writes=("quota_changes",),
    ),
    Step(
        "replay_quotas", ("replay",),
        "Rebuilds what each broker counted, and decides every request again.",
        # States and inventory are the day before's.
        reads=(
            "requests", "files", "brokers", "log_gaps", "broker_starts", "throttle_records",
            "quota_changes", "quota_state", "topic_inventory",
        ),
        writes=_REPLAYED,
    ),
    Step(
        "validate_replayed", ("validate", "replayed"),
        "Checks the quotas in force and what was replayed.",
        reads=("quota_changes", *_REPLAYED),
    ),
    Step(
        "judge_decisions", ("judge",),
        "Makes findings of the decisions that are not as configured, with their causes.",
        reads=(
            "files", "brokers", "log_gaps", "broker_starts", "quota_changes", "located_changes",
            "decisions", "rates",
        ),
        writes=_FOUND,
    ),
    Step(
        "recommend_quotas", ("recommend",),
        "Measures demand, proposes quotas, and says what became of those that were applied.",
        reads=(
            "requests", "files", "brokers", "broker_starts", "quota_changes", "located_changes",
            "decisions", "rates", "findings", "demand", "applied_changes",
        ),
        writes=_RECOMMENDED,
    ),
    Step(
        "validate_judged", ("validate", "judged"),
        "Checks findings and recommendations.",
        reads=(*_FOUND, *_RECOMMENDED),
    ),
    Step(
        "publish_report", ("publish",),
        "Shows readers the run's tables, all at once, and the report.",
        reads=(
            "requests", "quarantine", "files", "brokers", "quota_changes", "decisions", "agreement",
            "rates", "findings", "change_results", "recommendations",
        ),
        writes=("reports",),
    ),
)  # fmt: skip

STEPS: Mapping[str, Step] = MappingProxyType({step.task_id: step for step in _STEPS})
"""Task id → step, in the order in which they run."""

AUDIT_STAGES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {step.stage: step.reads for step in _STEPS if step.stage}
)
"""Stage → its tables, in the order in which they are checked and shown; those of an audit."""

WRITTEN_BY: Mapping[str, str] = MappingProxyType(
    {table: step.command[0] for step in _STEPS for table in step.writes if table != "reports"}
)
"""Table that an audit writes → the command that writes it, in the order of the steps."""

STAGES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {**AUDIT_STAGES, "whatif": ("whatif",), "applied": ("applied_changes",)}
)
"""Stage → its tables, also of what is beside an audit."""

WRITES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **{step.command[0]: step.writes for step in _STEPS if step.writes},
        "whatif": ("whatif",),
        "apply": ("applied_changes",),
        "rollback": ("applied_changes",),
    }
)
"""Command → the tables that it writes, also of what is beside an audit."""
