"""What a day's replay reads of the days beside it: the end of the one, the beginning of the other.

The day before hands its sensors on as they were some time before its end, so its last requests are
read again. The day after, where it was ingested, tells how the last throttles came about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.ingest.ingested_files import AHEAD
from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.replay.broker_stream import (
    RowGroup,
    groups_before,
    groups_since,
    read_group,
    row_groups,
)
from spark_jobs.replay.sensors.lost_requests import LostRequests
from spark_jobs.replay.sensors.resolution_table import ResolutionTable
from spark_jobs.replay.sensors.sensor_states import CarriedState
from spark_jobs.warehouse.days import DAY_MS, Interval, day_number
from spark_jobs.warehouse.read import read_table, whole_folder
from spark_jobs.warehouse.scope import RunScope


def interval_of(scope: RunScope) -> Interval:
    """Return the scope's day."""
    from_ms = day_number(scope.day) * DAY_MS
    return Interval(from_ms, from_ms + DAY_MS)


def handed_on(scope: RunScope) -> dict[SensorKey, CarriedState]:
    """Return the sensors' states that a day hands on to the next.

    Where its requests were removed since, which would have to be read again, those at its end.
    """
    rows = read_table(scope, "quota_state").to_pylist()
    state = CarriedState.handed_on if is_read_again(scope) else CarriedState.of_row
    return dict(state(row) for row in rows)


def is_read_again(scope: RunScope) -> bool:
    """Return True if the day was replayed and its requests are still there."""
    return all(scope.partition_dir(table).is_dir() for table in ("quota_state", "requests"))


def open_groups(
    scope: RunScope, handed_on: Mapping[SensorKey, CarriedState]
) -> dict[int, list[RowGroup]]:
    """Return, by broker, the row groups of a day's requests that the states it hands on lack.

    Mutations are left out: they are gathered from all brokers.
    """
    since_ms: dict[int, int] = {}
    for (broker_id, quota_type, *_), state in handed_on.items():
        if state.resumes_at is not None and quota_type != QuotaType.CONTROLLER_MUTATION_RATE:
            since_ms[broker_id] = min(state.resumes_at[0], since_ms.get(broker_id, 1 << 62))
    if not since_ms:
        return {}
    groups = row_groups(whole_folder(scope, "requests"))
    return {
        broker_id: groups_since(groups.get(broker_id, ()), at_ms * 1000)
        for broker_id, at_ms in since_ms.items()
    }


def around_day(
    scope: RunScope, handed_on: Mapping[SensorKey, CarriedState]
) -> dict[int, Sequence[RowGroup]]:
    """Return, by broker, the row groups of the neighbouring days that a day's replay reads."""
    found: defaultdict[int, list[RowGroup]] = defaultdict(list)
    for broker_id, groups in open_groups(scope.day_before, handed_on).items():
        found[broker_id] += groups
    for broker_id, groups in groups_ahead(scope).items():
        found[broker_id] += groups
    return dict(found)


def groups_ahead(scope: RunScope) -> dict[int, list[RowGroup]]:
    """Return, by broker, the row groups of the requests after a day that tell of it."""
    day_after = scope.day_after
    if day_after is None:
        return {}
    after = whole_folder(day_after, "requests")
    if not after.is_dir():
        after = scope.partition_dir("requests") / AHEAD
    if not after.is_dir():
        return {}
    until_us = interval_of(scope).ahead_until_us
    return {broker: groups_before(each, until_us) for broker, each in row_groups(after).items()}


def known_from_ms(scope: RunScope, first_ms: Mapping[int, int]) -> Mapping[int, int]:
    """Return the time (ms) since when each broker's requests are in the log; empty: since ever.

    ``first_ms`` is when those of the day of ``scope`` begin. Of the days before only the one
    before is looked at: a window is shorter than a day.
    """
    before = scope.day_before
    if not before.partition_dir("quota_state").is_dir():
        return first_ms
    carried = before.carried()
    if carried is None or carried["before"] is not None:
        return {}
    groups = row_groups(whole_folder(before, "requests"))
    return {broker_id: min(g.first_us for g in each) // 1000 for broker_id, each in groups.items()}


def open_requests(scope: RunScope, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the requests of a day that the states it hands on lack, broker by broker."""
    files: dict[str, pq.ParquetFile] = {}
    for broker_id, groups in sorted(open_groups(scope, handed_on(scope)).items()):
        parts = [read_group(group, broker_id, columns, files) for group in groups]
        if parts:
            yield pa.concat_tables(parts)


def read_lost_requests(scope: RunScope, resolutions: ResolutionTable) -> LostRequests:
    """Return the lookup of a day's gaps, and of those before that its first rates rest on."""
    before = scope.day_before
    gaps = pa.concat_tables([read_table(before, "log_gaps"), read_table(scope, "log_gaps")])
    brokers = read_table(scope, "brokers", ["broker_id", "samples", "window_ms"]).to_pylist()
    # The oldest sample may have begun up to a window before the oldest event that counts.
    window_ms = {b["broker_id"]: (b["samples"] + 1) * b["window_ms"] for b in brokers}
    return LostRequests.of(gaps, resolutions, window_ms)
