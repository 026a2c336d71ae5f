"""When a broker recorded a request on its quotas, as far as the log tells.

Kafka records bandwidth and request time as it hands over the response (``KafkaApis``:
``sendResponseCallback`` and the like), and mutations before the controller waits for them to be
committed (``ReplicationControlManager``, ``ZkAdminManager``): always between the begin of handling
and the completion of the response. The log line is written after sending, so counting the sending
and the response queue back from its time gives the completion; the line's time is cut to a
millisecond.
"""

from __future__ import annotations

MUTATION_API_KEYS = frozenset({19, 20, 37})
"""CreateTopics, DeleteTopics, CreatePartitions."""

LINE_TIME_STEP_US = 999
"""The line may have been written this much later than its stamp says."""


def recorded_interval(
    api_key: int,
    log_time_ms: int,
    handler_time_us: int,
    remote_time_us: int,
    response_queue_time_us: int,
    send_time_us: int,
) -> tuple[int, int, int]:
    """Return (earliest ms, latest ms, best estimate µs) of the moment of recording.

    The estimate is the completion of the response by the line's time as printed; of a mutation the
    end of the handler, before the wait for the commit.
    """
    complete_us = log_time_ms * 1000 - send_time_us - response_queue_time_us
    earliest_us = complete_us - remote_time_us - handler_time_us
    estimate_us = complete_us - (remote_time_us if api_key in MUTATION_API_KEYS else 0)
    return earliest_us // 1000, (complete_us + LINE_TIME_STEP_US) // 1000, estimate_us
