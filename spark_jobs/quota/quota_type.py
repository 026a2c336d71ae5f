"""The four client quotas of Apache Kafka."""

from __future__ import annotations

from enum import StrEnum


class QuotaType(StrEnum):
    """A quota by the name of its configuration key.

    Kafka: ``QuotaConfig`` (``server-common``), the keys that ``ALTER_CLIENT_QUOTAS`` takes.

    >>> str(QuotaType.PRODUCER_BYTE_RATE)
    'producer_byte_rate'
    """

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
