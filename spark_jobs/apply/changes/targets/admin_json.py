"""The request of Kafka's Admin API that alters quotas, as JSON: one batch of all changes.

Kafka: ``AlterClientQuotasRequest.json``, in the form its ``JsonConverter`` reads and writes.
"""

from __future__ import annotations

import json
from typing import Any

from spark_jobs.apply.changes.quota_alteration import Entity, QuotaAlteration
from spark_jobs.apply.changes.targets.target import Plan, Target
from spark_jobs.quota.codes import DEFAULT


def request(plan: Plan) -> dict[str, Any]:
    """Return the request as Kafka names its fields; a null name is the default entity."""
    entries = [
        {"entity": _entity(entity), "ops": [_operation(change) for change in changes]}
        for entity, changes in plan.by_entity().items()
    ]
    return {"entries": entries, "validateOnly": False}


def _entity(entity: Entity) -> list[dict[str, str | None]]:
    return [
        {"entityType": kind, "entityName": None if name == DEFAULT else name}
        for kind, name in zip(("user", "client-id"), entity, strict=True)
        if name is not None
    ]


def _operation(change: QuotaAlteration) -> dict[str, Any]:
    # Every field is mandatory, and a value without a fraction is refused as no floating point; the
    # value of a removal is not looked at.
    value = 0.0 if change.after is None else change.after
    return {"key": change.quota_type, "value": value, "remove": change.after is None}


def _text(plan: Plan) -> str:
    return json.dumps(request(plan), indent=2, ensure_ascii=False) + "\n"


TARGET = Target(lambda alteration, situation: None, _text)
