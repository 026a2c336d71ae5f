"""The id of a finding: the same on every day for the same sensor and kind of fault."""

from __future__ import annotations

import hashlib

from spark_jobs.quota.sensor_key import SensorKey


def finding_id(cluster: str, key: SensorKey, kind: str, ordinal: int = 1) -> str:
    """Return 16 hexadecimal digits for a day's ``ordinal``-th finding of a kind about a sensor."""
    parts = (
        cluster, str(key.broker_id), key.quota_type, key.quota_user, key.quota_client_id,
        kind, str(ordinal),
    )  # fmt: skip
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:16]
