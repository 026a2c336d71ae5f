"""How clients are set where the log does not say: retries, time-outs, batches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of one client, under Kafka's names.

    Defaults: Apache Kafka 4.0, ``ProducerConfig``.
    """

    retries: int = 2**31 - 1
    retry_backoff_ms: int = 100
    # From the first sending; what was not admitted by then is lost.
    delivery_timeout_ms: int = 120_000
    # Bytes that came less than this before a request is sent wait for the next one.
    linger_ms: int = 5
    # A producer's buffer fills while it waits; without, every request is sent as it was logged.
    fills_batches: bool = True


DEFAULT_SETTINGS = ClientSettings()
"""A producer that was configured with nothing."""
