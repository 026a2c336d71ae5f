"""What became of the changes that were applied before this day, as the report tells it."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.names import entity_name
from spark_jobs.wording.visible_text import visible

NOT_AS_PREDICTED = "not_as_predicted"


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """One applied change; ``is_kept`` says that throttling is no more than predicted."""

    quota_user: str | None
    quota_client_id: str | None
    quota_type: str
    applied_ms: int
    value_before: float | None
    value_after: float | None
    throttle_time_ms_before: int | None
    throttle_time_ms_predicted: int | None
    throttle_time_ms: int
    result: str
    explanation: str

    @property
    def entity(self) -> str:
        """Return whose quota it is, as people say it."""
        return entity_name(self.quota_user, self.quota_client_id)

    @property
    def is_kept(self) -> bool:
        """Return whether it did what was predicted, or nobody came to see."""
        return self.result != NOT_AS_PREDICTED


def change_results_of(scope: RunScope) -> tuple[ChangeResult, ...]:
    """Return the applied changes, those that did not as predicted first, then the newest first."""
    rows = read_table(scope, "change_results").to_pylist()
    names = set(ChangeResult.__dataclass_fields__) - {"explanation"}
    found = [
        ChangeResult(
            explanation=visible(row["explanation"]),
            **{name: row[name] for name in names},
        )
        for row in rows
    ]
    return tuple(sorted(found, key=lambda r: (r.is_kept, -r.applied_ms, r.quota_type, r.entity)))
