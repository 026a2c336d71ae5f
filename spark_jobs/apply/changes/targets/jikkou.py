"""Jikkou's ``KafkaClientQuota`` resources, one YAML document for each entity.

Jikkou: ``KafkaClientQuotaType``, ``V1KafkaClientQuotaConfigsAdapter`` and
``KafkaClientQuotaChangeComputer`` (limits of an entity that its resource lacks are deleted); the
annotation ``jikkou.io/delete`` deletes an entity's limits. Files are Jinja templates.
"""

from __future__ import annotations

from typing import Any

from spark_jobs.apply.changes.kafka_rules import unsettable_of
from spark_jobs.apply.changes.quota_alteration import Entity, QuotaAlteration
from spark_jobs.apply.changes.targets.target import ELSEWHERE, Plan, Situation, Target
from spark_jobs.apply.changes.targets.yaml_text import Quoted, yaml_text
from spark_jobs.apply.changes.wording import change_sentence, comment, named, number
from spark_jobs.quota.codes import DEFAULT, QuotaType

API_VERSION, KIND = "kafka.jikkou.io/v1", "KafkaClientQuota"
CONFIG_NAMES = {
    QuotaType.PRODUCER_BYTE_RATE: "producerByteRate",
    QuotaType.CONSUMER_BYTE_RATE: "consumerByteRate",
    QuotaType.REQUEST_PERCENTAGE: "requestPercentage",
}
_TEMPLATE_MARKS = ("{{", "{%", "{#")


def entity_type(entity: Entity) -> str | None:
    """Return the name of Jikkou's type of an entity; None: it has none.

    >>> entity_type(("alice", "<default>")), entity_type(("<default>", "etl"))
    ('USER_ALL_CLIENTS', None)
    """
    user, client_id = entity
    if client_id is None:
        return "USERS_DEFAULT" if user == DEFAULT else "USER"
    if user is None:
        return "CLIENTS_DEFAULT" if client_id == DEFAULT else "CLIENT"
    if user == DEFAULT:
        return None
    return "USER_ALL_CLIENTS" if client_id == DEFAULT else "USER_CLIENT"


def _why_not(alteration: QuotaAlteration, situation: Situation) -> str | None:
    if alteration.quota_type not in CONFIG_NAMES:
        return f"a KafkaClientQuota has no field for {alteration.quota_type}; {ELSEWHERE}."
    if entity_type(alteration.entity) is None:
        return f"Jikkou has no type for a client-id of the default user; {ELSEWHERE}."
    unreadable = next((entity for entity in situation.held if entity_type(entity) is None), None)
    if unreadable is not None:
        return (
            f"the cluster has a quota of {named(*unreadable)}, for which Jikkou has no type: it "
            f"reads all quotas first and fails at this one; {ELSEWHERE}."
        )
    if any(mark in part for part in alteration.entity if part for mark in _TEMPLATE_MARKS):
        return (
            f"its name has a mark of Jinja templates, as which Jikkou reads its files; {ELSEWHERE}."
        )
    return unsettable_of(situation.held.get(alteration.entity, {}))


def _text(plan: Plan) -> str:
    head = plan.head(
        "Limits of these entities that are set but not listed here are deleted.",
        "Jikkou before 1.0 wants the apiVersion kafka.jikkou.io/v1beta2.",
    )
    if not plan.changes:
        return _no_template(head) + yaml_text(
            {"apiVersion": API_VERSION, "kind": f"{KIND}List", "items": []}
        )
    documents = [_document(plan, entity, c) for entity, c in plan.by_entity().items()]
    return _no_template(head) + "".join(documents)


def _document(plan: Plan, entity: Entity, changes: list[QuotaAlteration]) -> str:
    values = plan.after.get(entity, {})
    configs = {
        name: number(values[quota_type])
        for quota_type, name in CONFIG_NAMES.items()
        if quota_type in values
    }
    resource: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    if not configs:
        resource["metadata"] = {"annotations": {"jikkou.io/delete": True}}
    names = {
        field: Quoted(name)
        for field, name in zip(("user", "clientId"), entity, strict=True)
        if name not in (None, DEFAULT)
    }
    resource["spec"] = {"type": entity_type(entity), "entity": names}
    if configs:
        resource["spec"]["configs"] = configs
    said = [f"{change.quota_type}: {change_sentence(change)}" for change in changes]
    return "---\n" + _no_template(comment(f"{named(*entity)}.", *said)) + yaml_text(resource)


def _no_template(comments: str) -> str:
    """Return ``comments`` with a blank in each mark of a template, which a sentence may hold."""
    for mark in _TEMPLATE_MARKS:
        comments = comments.replace(mark, f"{mark[0]} {mark[1]}")
    return comments


TARGET = Target(_why_not, _text)
