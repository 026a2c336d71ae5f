"""How clients are set where the log does not say: retries, time-outs, batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from spark_jobs.errors import BadInputError
from spark_jobs.quota.java_math import INT_MAX

NotNegative = Annotated[int, msgspec.Meta(ge=0, le=INT_MAX)]

_KAFKA_NAMES = {
    "retry_backoff_ms": "retry.backoff.ms",
    "delivery_timeout_ms": "delivery.timeout.ms",
    "linger_ms": "linger.ms",
    "fills_batches": "fills.batches",
    "keeps_wanting": "keeps.wanting",
}


class ClientSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename=_KAFKA_NAMES):
    """Settings of one client, in a file under Kafka's names.

    Defaults: Apache Kafka 4.0, ``ProducerConfig``.
    """

    retries: NotNegative = INT_MAX
    retry_backoff_ms: NotNegative = 100
    # From the first sending; what was not admitted by then is lost.
    delivery_timeout_ms: NotNegative = 120_000
    # Bytes that came less than this before a request is sent wait for the next one.
    linger_ms: NotNegative = 5
    # A producer's buffer fills while it waits; without, every request is sent as it was logged.
    fills_batches: bool = True
    # A client that was held back until its log's end wanted more than it sent.
    keeps_wanting: bool = False


DEFAULT_SETTINGS = ClientSettings()
"""A producer that was configured with nothing."""


def read_client_settings(where: str, found: object) -> ClientSettings:
    """Return the client settings of a table of a scenario file; the rest has its default.

    Raises BadInputError naming the key and what it takes.

    >>> read_client_settings("s.toml", {"retry.backoff.ms": 50}).retry_backoff_ms
    50
    """
    if not isinstance(found, Mapping):
        raise BadInputError(f"{where}: found {found!r} for clients; it is a table of settings.")
    try:
        return msgspec.convert(dict(found), ClientSettings)
    except msgspec.ValidationError as error:
        known = ", ".join(ClientSettings.__struct_encode_fields__)
        raise BadInputError(f"{where}: clients: {error}. The keys are {known}.") from error
