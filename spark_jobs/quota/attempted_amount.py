"""What a throttled fetch would have returned: not in the log, but its throttle time is."""

from __future__ import annotations

import math

from spark_jobs.quota.java_math import java_divide
from spark_jobs.quota.throttle_time import throttle_time_ms


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
