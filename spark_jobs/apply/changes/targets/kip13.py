"""The static overrides that KIP-13 describes: one property for each of the two byte rates.

KIP-13: ``quota.producer.override="clientA:4M,clientB:10M"``. A property holds all overrides.
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.apply.changes.kafka_rules import LONG_MAX, unsettable
from spark_jobs.apply.changes.quota_alteration import QuotaAlteration, QuotaSet
from spark_jobs.apply.changes.targets.target import ELSEWHERE, Plan, Situation, Target
from spark_jobs.apply.changes.wording import change_sentence, number, subject
from spark_jobs.quota.codes import DEFAULT, QuotaType

PROPERTIES = {
    QuotaType.PRODUCER_BYTE_RATE: "quota.producer.override",
    QuotaType.CONSUMER_BYTE_RATE: "quota.consumer.override",
}
_HOW = (
    "A property replaces all overrides of its kind, so that those in force are in it too; it is",
    "read when a broker starts.",
)


def overrides(held: QuotaSet, quota_type: str) -> Mapping[str, float]:
    """Return the values of ``quota_type`` by client-id, of those that have a name of their own."""
    return {
        client_id: values[quota_type]
        for (user, client_id), values in held.items()
        if user is None and client_id not in (None, DEFAULT) and quota_type in values
        if client_id is not None
    }


def _why_not(alteration: QuotaAlteration, situation: Situation) -> str | None:
    if alteration.quota_type not in PROPERTIES:
        return f"KIP-13 has no override of {alteration.quota_type}; {ELSEWHERE}."
    if alteration.user is not None:
        return f"KIP-13 knows client-ids only, and this quota has a user; {ELSEWHERE}."
    assert alteration.client_id is not None
    if alteration.client_id == DEFAULT:
        side = alteration.quota_type.partition("_")[0]
        return (
            f"a default is no override of KIP-13; set quota.{side}.default by hand, or {ELSEWHERE}."
        )
    if not _can_be_listed(alteration.client_id):
        return f"{_unlisted(alteration.client_id)}; {ELSEWHERE}."
    held = overrides(situation.held, alteration.quota_type)
    lost = next((name for name in held if not _can_be_listed(name)), None)
    if lost is not None:
        return (
            "the property replaces all overrides, and one in force would be lost: "
            f"{_unlisted(lost)}; {ELSEWHERE}."
        )
    values = (alteration.before, alteration.after, *held.values())
    # Dynamic quotas are doubles, and hold this number; a long does not.
    if any(value is not None and value >= LONG_MAX for value in values):
        return f"an override is a Java long, below {LONG_MAX:.0f}; {ELSEWHERE}."
    reasons = (
        unsettable(alteration.quota_type, bound, f"override of {name!r} that stays in force")
        for name, bound in held.items()
    )
    return next((reason for reason in reasons if reason), None)


def _can_be_listed(client_id: str) -> bool:
    return "," not in client_id and client_id == client_id.strip() and client_id.isprintable()


def _unlisted(client_id: str) -> str:
    return (
        f"the client-id {client_id!r} has a comma, a blank at an end or a character that cannot "
        "be printed, which a list of name:value does not hold"
    )


def _text(plan: Plan) -> str:
    said = [f"{subject(change)}: {change_sentence(change)}" for change in plan.changes]
    changed = {change.quota_type for change in plan.changes}
    properties = [
        f'{name}="{_list(overrides(plan.after, quota_type))}"\n'
        for quota_type, name in PROPERTIES.items()
        if quota_type in changed
    ]
    return plan.head(*_HOW, *said) + "".join(properties)


def _list(held: Mapping[str, float]) -> str:
    return ",".join(f"{_escaped(name)}:{number(value)}" for name, value in held.items())


def _escaped(name: str) -> str:
    r"""Return ``name`` as a Java properties file has it, which is read as Latin-1.

    >>> print(_escaped("\\ü"))
    \\\u00fc
    """
    units = name.encode("utf-16-be")
    codes = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
    plain = (chr(c) if 0x20 <= c < 0x7F else f"\\u{c:04x}" for c in codes)
    return "".join("\\\\" if c == "\\" else c for c in plain)


TARGET = Target(_why_not, _text)
