"""Amounts in recording order → decisions: one pass over Arrow batches, the open sensor carried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_jobs.quota.constants import EXPIRED_AFTER_MS
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.quota.states import BucketState
from spark_jobs.warehouse.tables import BOOL, BUCKET, DECISIONS, I64, QUOTA_STATE, STR

DECISION, STATE = "decision", "state"
Place = tuple[int, str, int]
"""A request's estimate in ms, its file and line."""


@dataclass(frozen=True, slots=True)
class BrokerRules:
    """How one broker keeps its rates: the profile of its version and its window settings."""

    profile: RateProfile
    samples: int
    window_ms: int
    controller_samples: int
    controller_window_ms: int
    throttle_max_ms: int | None = None
    """Of byte rates; None: a longer throttle is cut to 32 bits."""

    def of_type(self, quota_type: str) -> tuple[int, int]:
        """Return (samples, window_ms) of a quota type's sensors."""
        if quota_type == "controller_mutation_rate":
            return self.controller_samples, self.controller_window_ms
        return self.samples, self.window_ms


@dataclass(frozen=True, slots=True)
class CarriedState:
    """One sensor as the day before hands it on (a row of ``quota_state``)."""

    sensor_epoch: int
    sensor_seq: int
    sample_index: int
    samples: tuple[tuple[int, int, float], ...]
    bucket: BucketState | None = None
    resumes_at: Place | None = None
    """The first amount of the day before that is not in it; None: all are."""
    intervals: Mapping[str, Any] | None = None
    """Of a request quota: what its samples may be (``quota_state.intervals``); None: not said."""

    def is_lost(self, slots: int, restart_ms: int, recorded_at_ms: int) -> bool:
        """Return True if a sensor of ``slots`` samples begins anew at ``recorded_at_ms``.

        ``restart_ms`` is the start of the broker's epoch then. More samples than slots were kept
        under other settings or by another version: the broker was restarted.
        """
        ends_ms = [last for _, last, _ in self.samples]
        # A bucket stays untouched by mutations that met another sensor (``OTHER_SENSOR``).
        if self.bucket is not None and self.bucket.last_update_ms:
            ends_ms.append(self.bucket.last_update_ms)
        if not ends_ms:
            return False  # the sensor had not recorded anything
        last_ms = max(ends_ms)
        is_forgotten = restart_ms > last_ms or recorded_at_ms - last_ms > EXPIRED_AFTER_MS
        return len(self.samples) > slots or is_forgotten

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> tuple[SensorKey, CarriedState]:
        """Return a row of ``quota_state`` as the sensor's key and its state at the day's end."""
        key = SensorKey.of(row)
        return key, cls(
            sensor_epoch=row["sensor_epoch"],
            sensor_seq=row["sensor_seq"],
            sample_index=row["sample_index"],
            samples=_samples(row),
            bucket=(
                None
                if row["tokens"] is None
                else BucketState.of(row["tokens"], row["last_update_ms"])
            ),
            intervals=row["intervals"],
        )

    @classmethod
    def handed_on(cls, row: Mapping[str, Any]) -> tuple[SensorKey, CarriedState]:
        """Return a row of ``quota_state`` as the sensor's key and where the next day resumes."""
        key, at_the_end = cls.of_row(row)
        resumed = row["resumes_from"]
        if resumed is None:
            return key, at_the_end
        return key, cls(
            sensor_epoch=resumed["sensor_epoch"],
            sensor_seq=resumed["sensor_seq"],
            sample_index=resumed["sample_index"],
            samples=_samples(resumed),
            bucket=BucketState(**resumed["bucket"]) if resumed["bucket"] else None,
            resumes_at=(resumed["at_ms"], resumed["source_file"], resumed["source_line"]),
        )


def _samples(row: Mapping[str, Any]) -> tuple[tuple[int, int, float], ...]:
    return tuple((s["start_ms"], s["last_event_ms"], s["value"]) for s in row["samples"])


def _replayed_schema() -> pa.Schema:
    fields = {"row_kind": pa.field("row_kind", pa.string())}
    for schema in (DECISIONS, QUOTA_STATE):
        for column in schema:
            fields.setdefault(column.name, column.with_nullable(True))
    return pa.schema([*fields.values(), *_MORE])


_MORE = (
    # What two quotas of one request have to say to each other (sensors.shared_throttles).
    pa.field("has_request_bound", BOOL),
    pa.field("throttle_time_min_ms", I64),
    pa.field("throttle_time_max_ms", I64),
    pa.field("throttle_time_likely_min_ms", I64),
    pa.field("throttle_time_likely_max_ms", I64),
    pa.field("verdict_alone", STR),
    pa.field("reason_alone", STR),
    # A mutation sensor's state, with what the log leaves open.
    pa.field("bucket", BUCKET),
)
REPLAYED = _replayed_schema()
