"""The file of ``rpk cluster quotas import`` for Redpanda: the whole set of quotas, as YAML.

Redpanda: ``rpk/pkg/cli/cluster/quotas/import.go`` (deletes all quotas, then sets those of the
file) and ``kafka/server/handlers/client_quotas.cc`` (an empty name is the default, values are
whole numbers, and there is no ``request_percentage``).
"""

from __future__ import annotations

from typing import Any

from spark_jobs.apply.changes.kafka_rules import unsettable
from spark_jobs.apply.changes.quota_alteration import Entity, QuotaAlteration, QuotaSet
from spark_jobs.apply.changes.targets.target import ELSEWHERE, Plan, Situation, Target
from spark_jobs.apply.changes.targets.yaml_text import Quoted, yaml_text
from spark_jobs.apply.changes.wording import change_sentence, named, number, subject
from spark_jobs.quota.codes import DEFAULT, QuotaType

_HOW = (
    "For Redpanda only: with Apache Kafka what is in force is deleted and not set again.",
    "This is the whole set of quotas. The import deletes every quota that is not in here, also of",
    "client-id prefixes and of what this audit has not seen: read its list before you confirm.",
    "An empty name is the default; the import would take <default> for a client's name.",
)


def _why_not(alteration: QuotaAlteration, situation: Situation) -> str | None:
    for value in (alteration.after, alteration.before):
        reason = _inexpressible(alteration.quota_type, value)
        if reason:
            return f"{reason}; {ELSEWHERE}."
    lost = _lost(situation.held)
    return None if lost is None else f"{lost}; {ELSEWHERE}."


def _lost(held: QuotaSet) -> str | None:
    """Return a clause naming a value in force that the import would lose; None: none."""
    for entity, values in held.items():
        for quota_type, value in values.items():
            reason = _inexpressible(quota_type, value) or unsettable(quota_type, value, "value")
            if reason:
                return (
                    "the import replaces all quotas, and one in force would be lost, "
                    f"{quota_type} of {named(*entity)}: {reason.rstrip('.')}"
                )
    return None


def _inexpressible(quota_type: str, value: float | None) -> str | None:
    if quota_type == QuotaType.REQUEST_PERCENTAGE:
        return "Redpanda has no request_percentage"
    if value is not None and not value.is_integer():
        return f"Redpanda keeps whole numbers only, and {value!r} has a fraction"
    return None


def _text(plan: Plan) -> str:
    said = [f"{subject(change)}: {change_sentence(change)}" for change in plan.changes]
    head = plan.head(*_HOW, *said)
    lost = _lost(plan.after)
    if lost is not None:
        # Nothing that the import reads as a set of quotas: even an empty one deletes them all.
        return head + yaml_text({"quotas": f"cannot be imported: {lost}"})
    quotas = [
        {
            "entity": _entity(entity),
            "values": [{"key": t, "value": Quoted(number(v))} for t, v in values.items()],
        }
        for entity, values in plan.after.items()
    ]
    return head + yaml_text({"quotas": quotas})


def _entity(entity: Entity) -> list[dict[str, Any]]:
    return [
        {"name": Quoted("" if name == DEFAULT else name), "type": kind}
        for kind, name in zip(("client-id", "user"), reversed(entity), strict=True)
        if name is not None
    ]


TARGET = Target(_why_not, _text)
