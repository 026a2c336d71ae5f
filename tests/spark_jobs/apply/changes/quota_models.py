"""What each target makes of a cluster's quotas, by its own documentation or source.

``AFTER[target](held, text, altered)`` is the set after ``text``, which alters those entities.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import yaml

from spark_jobs.apply.changes.quota_alteration import Entity, QuotaSet, QuotaValue, quota_set
from spark_jobs.ingest.quota_sources.java_properties import read_properties
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.whatif.policies.kip13.kip13_config import ConfigKeys

Held = dict[Entity, dict[str, float]]

STRIMZI_TYPES = {
    "producerByteRate": "producer_byte_rate",
    "consumerByteRate": "consumer_byte_rate",
    "requestPercentage": "request_percentage",
    "controllerMutationRate": "controller_mutation_rate",
}


def request_of(quotas: QuotaSet) -> dict[str, Any]:
    """Return the request of the Admin API that sets ``quotas``."""
    entries = []
    for entity, values in quotas.items():
        parts = zip(("user", "client-id"), entity, strict=True)
        entries.append(
            {
                "entity": [
                    {"entityType": kind, "entityName": None if name == DEFAULT else name}
                    for kind, name in parts
                    if name is not None
                ],
                "ops": [{"key": k, "value": v, "remove": False} for k, v in values.items()],
            }
        )
    return {"entries": entries, "validateOnly": False}


def _copy(held: QuotaSet) -> Held:
    return {entity: dict(values) for entity, values in held.items()}


def _made(held: Mapping[Entity, Mapping[str, float]]) -> QuotaSet:
    return quota_set(
        QuotaValue(t, *entity, float(v))
        for entity, values in held.items()
        for t, v in values.items()
    )


def after_admin_json(held: QuotaSet, text: str, altered: Collection[Entity]) -> QuotaSet:
    """Set and remove, operation by operation."""
    becomes = _copy(held)
    for entry in json.loads(text)["entries"]:
        parts = {p["entityType"]: p["entityName"] or DEFAULT for p in entry["entity"]}
        values = becomes.setdefault((parts.get("user"), parts.get("client-id")), {})
        for op in entry["ops"]:
            values.pop(op["key"], None)
            if not op["remove"]:
                values[op["key"]] = op["value"]
    return _made(becomes)


def after_strimzi(held: QuotaSet, text: str, altered: Collection[Entity]) -> QuotaSet:
    """Merge each patch into the resource of its user, whose quotas are then the resource's."""
    users = {u.removeprefix("CN="): u for u, c in altered if u and c is None}
    becomes = _copy(held)
    for patch in filter(None, yaml.safe_load_all(text)):
        assert (patch["apiVersion"], patch["kind"]) == ("kafka.strimzi.io/v1", "KafkaUser")
        name = patch["metadata"]["name"]
        values = becomes.setdefault((users[name], None), {})
        for field, bound in patch["spec"]["quotas"].items():
            values.pop(STRIMZI_TYPES[field], None)
            if bound is not None:
                values[STRIMZI_TYPES[field]] = bound
    return _made(becomes)


def after_jikkou(held: QuotaSet, text: str, altered: Collection[Entity]) -> QuotaSet:
    """Replace the three limits an entity has by those of its resource; the annotation deletes."""
    becomes = _copy(held)
    for resource in yaml.safe_load_all(text):
        if resource is None or resource["kind"] == "KafkaClientQuotaList":
            continue
        spec = resource["spec"]
        user, client_id = (spec["entity"].get(field) for field in ("user", "clientId"))
        entity = {
            "USER": (user, None),
            "USERS_DEFAULT": (DEFAULT, None),
            "USER_CLIENT": (user, client_id),
            "USER_ALL_CLIENTS": (user, DEFAULT),
            "CLIENT": (None, client_id),
            "CLIENTS_DEFAULT": (None, DEFAULT),
        }[spec["type"]]
        is_deleted = resource.get("metadata", {}).get("annotations", {}).get("jikkou.io/delete")
        assert bool(is_deleted) != bool(spec.get("configs"))
        kept = {t: v for t, v in becomes.get(entity, {}).items() if t == "controller_mutation_rate"}
        limits = {STRIMZI_TYPES[field]: v for field, v in spec.get("configs", {}).items()}
        becomes[entity] = kept | limits
    return _made(becomes)


def after_rpk(held: QuotaSet, text: str, altered: Collection[Entity]) -> QuotaSet:
    """Forget everything, and set what the file says; an empty name is the default."""
    del held, altered
    values = []
    for quota in yaml.safe_load(text)["quotas"]:
        parts = {part["type"]: part["name"] or DEFAULT for part in quota["entity"]}
        for held_value in quota["values"]:
            entity = parts.get("user"), parts.get("client-id")
            values.append(QuotaValue(held_value["key"], *entity, float(held_value["value"])))
    return quota_set(values)


def after_kip13(held: QuotaSet, text: str, altered: Collection[Entity]) -> QuotaSet:
    """Replace the overrides of a kind by those of its property."""
    becomes = _copy(held)
    properties = {n: p.value for n, p in read_properties(text, "kip13").items()}
    keys = ConfigKeys("kip13", properties)
    for name in properties:
        quota_type = f"{name.split('.')[1]}_byte_rate"
        for (user, client_id), values in becomes.items():
            if user is None and client_id != DEFAULT:
                values.pop(quota_type, None)
        for client_id, bound in keys.overrides(name).items():
            becomes.setdefault((None, client_id), {})[quota_type] = float(bound)
    return _made(becomes)


AFTER = {
    "admin-json": after_admin_json,
    "strimzi": after_strimzi,
    "jikkou": after_jikkou,
    "rpk": after_rpk,
    "kip13": after_kip13,
}
