"""The logged requests of one client, as the search for lost lines needs them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

OTHER_SOFTWARE, JAVA, JAVA_WITH_TELEMETRY = 0, 1, 2
"""What is known of how a client counts: Java, and whether it may push metrics (3.7 and later)."""

PRODUCE, FETCH, SHARE_FETCH, API_VERSIONS = 0, 1, 78, 18


@dataclass(frozen=True, slots=True)
class ClientLines:
    """The logged requests of one (user, client-id): arrays of one length.

    ``free_at_ms``: when the connection took its next request (answered, throttle over).
    """

    broker_id: np.ndarray
    connection: np.ndarray  # any code, another one for each connection
    host: np.ndarray  # any code of the client's address
    software: np.ndarray  # any code, 0: not known
    java: np.ndarray  # OTHER_SOFTWARE, JAVA, JAVA_WITH_TELEMETRY
    correlation_id: np.ndarray
    api_key: np.ndarray
    received_ms: np.ndarray
    recorded_earliest_ms: np.ndarray
    recorded_latest_ms: np.ndarray
    free_at_ms: np.ndarray
    request_bytes: np.ndarray  # NaN: not known
    response_bytes: np.ndarray
    handler_time_us: np.ndarray

    def take(self, rows: np.ndarray) -> ClientLines:
        """Return the lines at ``rows``."""
        return ClientLines(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})
