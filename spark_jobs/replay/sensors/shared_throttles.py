"""Decisions on requests that have a request quota besides another: both sides of one throttle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.quota.apis import APIS
from spark_jobs.replay.sensors.amounts import as_column, bools
from spark_jobs.replay.sensors.sensor_states import REPLAYED, BrokerRules
from spark_jobs.replay.verdicts.request_verdicts import SharedRows, fix_shared
from spark_jobs.replay.verdicts.verdicts import Verdicts
from spark_jobs.warehouse.tables import I64

FORWARDED_APIS = tuple(
    name for api in APIS.values() if "forward" in api.broker for name in api.names
)
"""What a broker hands to the controller with KRaft: the answer has the controller's throttle."""

SHARED = pa.schema(
    [
        *REPLAYED,
        # Of the request, whichever of its decisions the row is.
        ("request_min_ms", I64),
        ("request_max_ms", I64),
        ("bandwidth_ms", I64),
    ]
)


def fix_shared_throttles(
    rules: Mapping[int, BrokerRules], tolerance_ms: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the ``mapInArrow`` function that turns SHARED into REPLAYED with final verdicts.

    The replayed throttle of a request quota becomes the one inside its interval that is nearest to
    what was logged, or the least where the other quota of the request explains the log.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if len(batch):
                yield _fixed(batch, rules, tolerance_ms)

    return run


def _fixed(
    batch: pa.RecordBatch, rules: Mapping[int, BrokerRules], tolerance_ms: int
) -> pa.RecordBatch:
    is_request = pc.equal(batch["quota_type"], "request_percentage").to_numpy(zero_copy_only=False)
    logged_ms = batch["logged_throttle_time_ms"].to_numpy().astype(np.int64)
    replayed_ms = _whole(batch["replayed_throttle_time_ms"], 0)
    least, most = _whole(batch["request_min_ms"], 0), _whole(batch["request_max_ms"], 0)
    # The controller's quotas have decisions of their own, on another broker.
    is_forwarded = pc.is_in(batch["api_name"], pa.array(FORWARDED_APIS))
    other_ms = np.maximum(
        _whole(batch["bandwidth_ms"], -1),
        np.where(is_forwarded.to_numpy(zero_copy_only=False), 0, -1),
    )
    is_known = bools(pc.is_valid(batch["request_min_ms"]))
    rows = SharedRows(
        is_request_quota=is_request,
        is_unrecorded=bools(batch["is_unrecorded"]),
        logged_ms=logged_ms,
        replayed_ms=replayed_ms,
        throttle_min_ms=least,
        throttle_max_ms=most,
        is_interval_known=is_known,
        throttle_likely_min_ms=_whole(batch["throttle_time_likely_min_ms"], 0),
        throttle_likely_max_ms=_whole(batch["throttle_time_likely_max_ms"], 0),
        other_ms=other_ms,
        window_ms=np.array([rules[b].window_ms for b in batch["broker_id"].to_pylist()], np.int64),
    )
    fixed = fix_shared(
        rows,
        _verdicts(batch, "verdict", "reason"),
        _verdicts(batch, "verdict_alone", "reason_alone"),
        tolerance_ms,
    )
    # What the other quota explains is not claimed for this one as well.
    by_other = (other_ms > 0) & (np.abs(logged_ms - other_ms) <= tolerance_ms)
    own_ms = np.where(by_other, least, np.clip(logged_ms, least, most))
    nearest_ms = np.where(is_request & is_known, own_ms, replayed_ms)
    own = {
        "verdict": fixed.verdict,
        "reason": fixed.reason,
        "replayed_throttle_time_ms": pa.array(
            nearest_ms, mask=~bools(pc.is_valid(batch["replayed_throttle_time_ms"]))
        ),
    }
    return pa.RecordBatch.from_arrays(
        [as_column(own.get(f.name, batch[f.name]), f.type) for f in REPLAYED], schema=REPLAYED
    )


def _verdicts(batch: pa.RecordBatch, verdict: str, reason: str) -> Verdicts:
    return Verdicts(*(np.asarray(batch[name].to_pylist(), object) for name in (verdict, reason)))


def _whole(column: pa.Array, missing: int) -> np.ndarray:
    return np.asarray(pc.fill_null(column, missing).to_numpy(), np.int64)
