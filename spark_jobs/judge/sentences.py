"""Sentences of findings: who, which quota, where, what the broker did and should have done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_jobs.judge.findings import SensorKey
    from spark_jobs.judge.known_faults import KnownFault

UNITS = {
    "producer_byte_rate": "B/s",
    "consumer_byte_rate": "B/s",
    "request_percentage": "% of a thread",
    "controller_mutation_rate": "partitions/s",
}


def entity_name(quota_user: str, quota_client_id: str) -> str:
    """Return a sensor's client as people say it.

    >>> entity_name("alice", ""), entity_name("", ""), entity_name("bob", "etl")
    ("user 'alice'", 'clients without a client-id', "user 'bob', client-id 'etl'")
    """
    parts = []
    if quota_user:
        parts.append(f"user '{quota_user}'")
    if quota_client_id:
        parts.append(f"client-id '{quota_client_id}'")
    return ", ".join(parts) or "clients without a client-id"


def explain(
    kind: str, key: SensorKey, evidence: Mapping[str, Any], fault: KnownFault | None
) -> str:
    """Return the sentence of a finding of ``kind``; ``evidence`` holds the interval's numbers."""
    who = entity_name(key.quota_user, key.quota_client_id)
    sentence = _SENTENCES[kind].format(
        who=who[0].upper() + who[1:],
        quota=key.quota_type,
        broker=key.broker_id,
        bound=_bound(key.quota_type, evidence),
        **{name: _number(value) for name, value in evidence.items()},
    )
    if fault:
        sentence += f" This looks like {fault.key}: {fault.description}."
    return sentence


_SENTENCES = {
    "not_enforced": (
        "{who}: {quota} of {bound} was not enforced on broker {broker}. {due} decisions were due "
        "to be throttled or refused, {enforced} were."
    ),
    "wrongly_admitted": (
        "{who}: broker {broker} admitted {wrong_decisions} mutations that {quota} of {bound} "
        "refuses; it refused {enforced} of {due} that were due."
    ),
    "wrongly_refused": (
        "{who}: broker {broker} refused {wrong_decisions} of {decisions} mutations that {quota} "
        "of {bound} admits."
    ),
    "under_throttled": (
        "{who}: broker {broker} throttled {wrong_decisions} of {decisions} requests less than "
        "{quota} of {bound} asks for, by up to {difference_max_ms} ms."
    ),
    "over_throttled": (
        "{who}: broker {broker} throttled {wrong_decisions} requests more than {quota} of {bound} "
        "asks for, by up to {difference_max_ms} ms."
    ),
}


def _bound(quota_type: str, evidence: Mapping[str, Any]) -> str:
    low, high = evidence["bound_min"], evidence["bound_max"]
    if low is None:
        return "no configured value"
    value = _number(low) if low == high else f"{_number(low)} to {_number(high)}"
    return f"{value} {UNITS[quota_type]}"


def _number(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"
