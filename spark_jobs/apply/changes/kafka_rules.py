"""What Kafka itself does not accept of an alteration, whatever tool it comes from.

Kafka: ``ClientQuotaControlManager`` (``validateEntity``, ``validateQuotaKeyValue``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from spark_jobs.apply.changes.quota_alteration import QuotaAlteration
from spark_jobs.apply.changes.targets.target import RefusedAlteration
from spark_jobs.quota.codes import QuotaType

LONG_MAX = 2.0**63
"""``Long.MAX_VALUE`` as the double that the controller compares with."""
WHOLE_NUMBERS = (QuotaType.PRODUCER_BYTE_RATE, QuotaType.CONSUMER_BYTE_RATE)
"""Quota types whose value Kafka takes as a long (``QuotaConfig``); the others are doubles."""
WhyNot = Callable[[QuotaAlteration], str | None]


def sift(
    alterations: Iterable[QuotaAlteration], why_not: WhyNot
) -> tuple[tuple[QuotaAlteration, ...], tuple[RefusedAlteration, ...]]:
    """Return the alterations that can be expressed, and the others refused, in their order."""
    fine, refused = [], []
    for alteration in alterations:
        reason = why_not(alteration)
        if reason is None:
            fine.append(alteration)
        else:
            refused.append(RefusedAlteration(alteration, reason))
    return tuple(fine), tuple(refused)


def each_once() -> WhyNot:
    """Return a rule that refuses a second alteration of the same value."""
    seen: set[object] = set()

    def why_not(alteration: QuotaAlteration) -> str | None:
        key = (alteration.quota_type, alteration.entity)
        if key in seen:
            return "it is to be altered twice, and only one value can hold; propose one of the two."
        seen.add(key)
        return kafkas_reason(alteration)

    return why_not


def kafkas_reason(alteration: QuotaAlteration) -> str | None:
    """Return the reason why Kafka refuses an alteration or its rollback; None: it does not."""
    named = [part for part in alteration.entity if part is not None]
    if not named:
        return "it names neither a user nor a client-id; a quota needs one of them."
    if not all(named):
        return (
            "its name is empty, which Kafka's controller refuses and its tools take for the "
            "default; set a quota of a client with a name, or of the default."
        )
    if alteration.before is None and alteration.after is None:
        return "there is no value before or after it; leave it out."
    return unsettable(alteration.quota_type, alteration.after, "proposed value") or unsettable(
        alteration.quota_type, alteration.before, "value it would be taken back to"
    )


def unsettable(quota_type: str, value: float | None, which: str) -> str | None:
    """Return the reason why Kafka does not set ``value``, called ``which``; None: it does."""
    if value is None:
        return None
    if not math.isfinite(value) or value <= 0.0:
        return (
            f"the {which} is {value:g}, and Kafka sets only values above 0; delete the quota, or "
            "set a small one, by hand."
        )
    if quota_type not in WHOLE_NUMBERS:
        return None
    if not value.is_integer():
        return (
            f"the {which} is {value!r}, and Kafka sets only whole bytes per second; round it and "
            "set it by hand."
        )
    if value > LONG_MAX:
        return (
            f"the {which} is {value:g}, above 2^63 − 1, the most that Kafka sets; delete the quota "
            "by hand where it shall limit nothing."
        )
    return None


def unsettable_of(values: Mapping[str, float]) -> str | None:
    """Return the reason why a value of an entity cannot be set again; None: all can."""
    reasons = (unsettable(t, v, f"{t} that stays in force") for t, v in values.items())
    return next((reason for reason in reasons if reason), None)
