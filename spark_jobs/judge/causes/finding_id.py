"""The row of a finding, and its id: the same on every day for the same sensor and fault."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from spark_jobs.quota.sensor_key import SensorKey

_OF_HYPOTHESES = (
    "hypothesis", "hypothesis_share", "runner_up", "runner_up_share", "estimated_bound",
)  # fmt: skip


def finding(
    cluster: str,
    key: SensorKey,
    kind: str,
    ordinal: int,
    evidence: Mapping[str, Any],
    **columns: object,
) -> dict[str, Any]:
    """Return a row of ``findings``; of ``columns`` those of a hypothesis may be left out."""
    return {
        "finding_id": finding_id(cluster, key, kind, ordinal),
        **key._asdict(),
        "kind": kind,
        "evidence": json.dumps(evidence, sort_keys=True),
        **dict.fromkeys(_OF_HYPOTHESES),
        **columns,
    }


def finding_id(cluster: str, key: SensorKey, kind: str, ordinal: int = 1) -> str:
    """Return 16 hexadecimal digits for a day's ``ordinal``-th finding of a kind about a sensor."""
    parts = (
        cluster, str(key.broker_id), key.quota_type, key.quota_user, key.quota_client_id,
        kind, str(ordinal),
    )  # fmt: skip
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:16]
