"""Round values: a proposal that moves only when the demand moves by a whole step stays put."""

from __future__ import annotations

import math
from collections.abc import Iterator

MANTISSAS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Ten steps a decade; each is at most a third above the one before."""

WHOLE_NUMBER_TYPES = ("producer_byte_rate", "consumer_byte_rate")
"""Quota types whose value Kafka takes as a long (``QuotaConfig``); the others are doubles."""


def step_up(value: float, quota_type: str) -> float:
    """Return the smallest step that is not below ``value`` (above 0).

    >>> step_up(61_234.0, "producer_byte_rate"), step_up(0.21, "controller_mutation_rate")
    (80000.0, 0.25)
    """
    return min(step for step in _steps_around(value, quota_type) if step >= value)


def step_down(value: float, quota_type: str) -> float:
    """Return the largest step that is not above ``value``; a byte rate is at least 1.

    >>> step_down(61_234.0, "producer_byte_rate")
    60000.0
    """
    below = [step for step in _steps_around(value, quota_type) if step <= value]
    return max(below, default=1.0)


def _steps_around(value: float, quota_type: str) -> Iterator[float]:
    assert 0.0 < value < math.inf, value
    exponent = math.floor(math.log10(value))
    for power in range(exponent - 1, exponent + 3):
        for mantissa in MANTISSAS:
            step = float(f"{mantissa}e{power}")
            if quota_type not in WHOLE_NUMBER_TYPES or (step.is_integer() and step >= 1.0):
                yield step
        if quota_type in WHOLE_NUMBER_TYPES and power < 0:
            yield 1.0
