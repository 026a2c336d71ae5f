"""From when on a request was most likely recorded, within its logged phases."""

from __future__ import annotations

import numpy as np

SLOW_HANDLER_US = 3_000
WAITED_US = 300


def likely_from_ms(
    earliest_ms: np.ndarray,
    estimate_ms: np.ndarray,
    handler_time_us: np.ndarray,
    remote_time_us: np.ndarray,
    acks: np.ndarray,
) -> np.ndarray:
    """Return the time (ms) from which on each request was most likely recorded.

    As a rule just before its response was complete; a request that was long in the handler may
    have been recorded anywhere there, unless it waited for replicas (measured on a 4.1.0 broker's
    own record of its throttled requests).
    """
    is_slow = handler_time_us > SLOW_HANDLER_US
    waited = (acks == -1) & (remote_time_us > WAITED_US)
    likely_ms = np.maximum(estimate_ms - 2, earliest_ms)
    return np.asarray(np.where(is_slow & ~waited, earliest_ms, likely_ms))
