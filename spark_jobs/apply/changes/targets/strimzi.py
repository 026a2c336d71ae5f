"""Patches of Strimzi's ``KafkaUser`` resources, one YAML document each (JSON merge patches).

Strimzi: ``044-Crd-kafkauser.yaml`` and ``KafkaUserQuotas`` (three values are Java ``Integer``s);
its User Operator sets a user's four values to what the resource says, and removes the others.
"""

from __future__ import annotations

import re

from spark_jobs.apply.changes.kafka_rules import unsettable_of
from spark_jobs.apply.changes.quota_alteration import QuotaAlteration
from spark_jobs.apply.changes.targets.target import ELSEWHERE, Plan, Situation, Target
from spark_jobs.apply.changes.targets.yaml_text import Quoted, yaml_text
from spark_jobs.apply.changes.wording import change_sentence, comment, number
from spark_jobs.quota.codes import DEFAULT, QuotaType
from spark_jobs.quota.java_math import INT_MAX

API_VERSION = "kafka.strimzi.io/v1"
QUOTA_NAMES = {
    QuotaType.PRODUCER_BYTE_RATE: "producerByteRate",
    QuotaType.CONSUMER_BYTE_RATE: "consumerByteRate",
    QuotaType.REQUEST_PERCENTAGE: "requestPercentage",
    QuotaType.CONTROLLER_MUTATION_RATE: "controllerMutationRate",
}
_TLS_PREFIX = "CN="
# What Kubernetes takes for a resource's name (RFC 1123), and OpenSSL for a certificate's CN.
_RESOURCE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_MAX, _TLS_NAME_MAX = 253, 64


def resource_name(user: str) -> str | None:
    """Return the name of the ``KafkaUser`` that Kafka knows as ``user``; None: there is none.

    >>> resource_name("CN=etl"), resource_name("etl"), resource_name("ANONYMOUS")
    ('etl', 'etl', None)
    """
    name = user.removeprefix(_TLS_PREFIX)
    length_max = _NAME_MAX if name == user else _TLS_NAME_MAX
    return name if len(name) <= length_max and _RESOURCE_NAME.fullmatch(name) else None


def _why_not(alteration: QuotaAlteration, situation: Situation) -> str | None:
    user, client_id = alteration.entity
    if client_id is not None:
        return f"it has a client-id, and Strimzi manages quotas of users only; {ELSEWHERE}."
    assert user is not None
    if user == DEFAULT:
        return (
            "it is the default of all users, which is no KafkaUser; set it at spec.kafka.quotas "
            f"of the Kafka resource (type kafka), or {ELSEWHERE}."
        )
    if resource_name(user) is None:
        return (
            f"no KafkaUser can have the name {user!r} (Kubernetes takes lower case letters, "
            f"digits, '-' and '.'), so Strimzi does not manage this user; {ELSEWHERE}."
        )
    twins = {a.user for a in situation.alterations if a.user and a.client_id is None} - {user}
    if any(resource_name(twin) == resource_name(user) for twin in twins):
        return (
            f"a KafkaUser {resource_name(user)!r} is either the user {resource_name(user)!r} or "
            f"'CN={resource_name(user)}', by its authentication, and both are to be altered; "
            "leave one of them out."
        )
    held = situation.held.get(alteration.entity, {})
    values = [*held.items(), (alteration.quota_type, alteration.after)]
    reasons = (_inexpressible(quota_type, value) for quota_type, value in values)
    return unsettable_of(held) or next((reason for reason in reasons if reason), None)


def _inexpressible(quota_type: str, value: float | None) -> str | None:
    if value is None or quota_type == QuotaType.CONTROLLER_MUTATION_RATE:
        return None
    if not value.is_integer():
        found = "has a fraction"
    elif value > INT_MAX:
        found = "is above 2^31 − 1"
    else:
        return None
    return (
        f"its {quota_type} of {number(value)} {found}, and a KafkaUser holds this value as a "
        "32-bit whole number; choose another value in the KafkaUser by hand (what other tools "
        "set for its user is reverted)."
    )


def _text(plan: Plan) -> str:
    # The first line opens the first document: splitting at '---' leaves no piece without one.
    head = "---\n" + plan.head("One JSON merge patch of a KafkaUser per document.")
    documents = [
        _document(plan, user, changes)
        for (user, _), changes in plan.by_entity().items()
        if user is not None
    ]
    return "\n".join([head, "---\n".join(documents)]) if documents else head


def _document(plan: Plan, user: str, changes: list[QuotaAlteration]) -> str:
    values = plan.after.get((user, None), {})
    removed = {change.quota_type for change in changes if change.after is None}
    quotas = {
        name: number(values[quota_type]) if quota_type in values else None
        for quota_type, name in QUOTA_NAMES.items()
        if quota_type in values or quota_type in removed
    }
    said = [f"{change.quota_type}: {change_sentence(change)}" for change in changes]
    patch = {
        "apiVersion": API_VERSION,
        "kind": "KafkaUser",
        "metadata": {"name": Quoted(resource_name(user))},
        "spec": {"quotas": quotas},
    }
    return comment(f"User '{user}'.", *said) + yaml_text(patch)


TARGET = Target(_why_not, _text)
