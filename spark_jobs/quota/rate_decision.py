"""What a broker does with one amount on a windowed-rate sensor: record, measure, throttle."""

from __future__ import annotations

import math
from dataclasses import dataclass

from spark_jobs.quota.java_math import LONG_MAX, java_divide
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.throttle_time import bound_in_force, is_acceptable, throttle_time_ms

RECORD = 0
"""Record and check. Kafka: ``ClientQuotaManager.recordAndGetThrottleTimeMs``."""
RECORD_AND_UNRECORD = 1
"""The same, but where the log has a throttle time the amount was taken back at the same time.

Kafka: ``KafkaApis.handleFetchRequest``, ``ClientQuotaManager.unrecordQuotaSensor``.
"""
RECORD_ONLY = 2
"""Record and never measure: network thread time. Kafka: ``ClientQuotaManager.recordNoThrottle``."""

NOT_MEASURED = -1
"""The window size of a row that was never measured."""


@dataclass(frozen=True, slots=True)
class RateDecision:
    """What one amount led to; rate per second, NaN and ``NOT_MEASURED`` where not measured."""

    # As given; recovered where the log does not have it but the throttle time gives it back.
    amount: float
    rate: float
    window_size_ms: int
    throttle_time_ms: int
    # Value of the sample that started first, the largest where several did: what a slightly other
    # time would have in or out. Amounts go to the current one, so that is it where it is of them.
    oldest_value: float
    # How near, in time, any sample was to being purged instead of kept, or the reverse.
    purge_margin_ms: int


def decide(
    rate: Rate,
    amount: float,
    bound: float,
    now_ms: int,
    behaviour: int = RECORD,
    logged_throttle_time_ms: int = 0,
    throttle_max_ms: int | None = None,
) -> RateDecision:
    """Return the decision on ``amount``; ``rate`` moves on as the broker's did.

    A NaN ``bound`` is none in force: the broker measures all the same, which purges. A NaN
    ``amount`` is not in the log: recovered from the logged throttle time where it was un-recorded,
    else recorded as 0, which still opens samples when the real one did.

    Kafka: ``ClientQuotaManager.recordAndGetThrottleTimeMs``.

    >>> from spark_jobs.quota.rate_profile import RateProfile
    >>> rate = Rate(RateProfile.RATE_3_8)
    >>> decide(rate, amount=15_000.0, bound=1_000.0, now_ms=0).throttle_time_ms
    5000
    """
    rate.record(0.0 if math.isnan(amount) else amount, now_ms)
    if behaviour == RECORD_ONLY:
        return RateDecision(amount, math.nan, NOT_MEASURED, 0, math.nan, LONG_MAX)
    purge_margin_ms = min(map(abs, rate.overdue_ms(now_ms)))
    is_unrecorded = behaviour == RECORD_AND_UNRECORD and logged_throttle_time_ms > 0
    if is_unrecorded and math.isnan(amount) and not math.isnan(bound):
        held, window_size_ms = rate.total(now_ms), rate.window_size_ms(now_ms)
        amount = attempted_amount(logged_throttle_time_ms, bound, window_size_ms, held)
        rate.record(amount, now_ms)
    measured, window_size_ms = rate.measure(now_ms), rate.window_size_ms(now_ms)
    decision = RateDecision(
        amount=amount,
        rate=measured,
        window_size_ms=window_size_ms,
        throttle_time_ms=_throttle_time_ms(measured, bound, window_size_ms, throttle_max_ms),
        oldest_value=_oldest_value(rate, now_ms),
        purge_margin_ms=purge_margin_ms,
    )
    if is_unrecorded and not math.isnan(amount):
        rate.record(-amount, now_ms)
    return decision


def _oldest_value(rate: Rate, now_ms: int) -> float:
    oldest, current = rate.oldest(now_ms), rate.slots[rate.index]
    if current.start_ms == oldest.start_ms:
        return current.value
    return max(slot.value for slot in rate.slots if slot.start_ms == oldest.start_ms)


def _throttle_time_ms(
    measured: float, bound: float, window_size_ms: int, throttle_max_ms: int | None
) -> int:
    bound = bound_in_force(bound)
    if is_acceptable(measured, bound):
        return 0
    return throttle_time_ms(measured, bound, window_size_ms, throttle_max_ms)


def attempted_amount(throttle_time: int, bound: float, window_size_ms: int, held: float) -> float:
    """Return the bytes that, recorded on top of ``held``, are throttled for ``throttle_time`` ms.

    The broker records a fetch's size, measures, and takes the size back when it throttles; the
    client gets an empty response. One unknown, one equation: solving ``QuotaUtils.throttleTime``
    for the recorded value gives ``bound * (throttle + window) / 1000``, ``held`` of which was there
    before. Known to ``bound`` times 1 ms. A whole number of bytes wherever one has that throttle
    time, and never negative: an amount of 0 where even nothing would be throttled for longer.

    Kafka: ``KafkaApis.handleFetchRequest``, ``ClientQuotaManager.unrecordQuotaSensor``.

    >>> attempted_amount(throttle_time=2_000, bound=1_000.0, window_size_ms=10_000, held=9_000.0)
    3000.0
    """
    amount = max(bound * (throttle_time + window_size_ms) / 1000.0 - held, 0.0)
    whole = float(math.floor(amount + 0.5))
    rate = java_divide(held + whole, window_size_ms / 1000.0)
    return whole if throttle_time_ms(rate, bound, window_size_ms) == throttle_time else amount
