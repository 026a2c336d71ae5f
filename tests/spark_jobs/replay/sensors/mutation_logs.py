"""Made logs of controller mutations: what a controller lets in, and the lines that tell of it."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from spark_jobs.quota.constants import EXPIRED_AFTER_MS
from spark_jobs.quota.controller_mutation import ControllerMutationQuota
from spark_jobs.quota.partition_inventory import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    NO_ERROR,
    THROTTLING_QUOTA_EXCEEDED,
    PartitionInventory,
)
from spark_jobs.quota.token_bucket import TokenBucket
from spark_jobs.replay.sensors.resolution_table import ResolutionTable
from tests.builders.tables_builder import NOON_MS
from tests.spark_jobs.replay.sensors.request_rows import quota, resolutions

Row = dict[str, Any]
VERSIONS = {CREATE_TOPICS: (5, 6), CREATE_PARTITIONS: (2, 3), DELETE_TOPICS: (4, 5)}
CHANGED_MS = 40_000
LATE_MAX_MS = 4_000
_QUOTA = {"quota_type": "controller_mutation_rate"}


def quotas() -> ResolutionTable:
    """Return those of alice, and of bob: his is another one after a while."""
    changed = NOON_MS + CHANGED_MS
    bob = _QUOTA | {"quota_user": "bob"}
    return resolutions(
        quota(1.0, **_QUOTA),
        quota(0.7, **bob, valid_until_ms=changed),
        quota(3.0, **bob, valid_from_ms=changed),
    )


def bound_of(user: str, at_ms: int) -> float:
    """Return the quota of a user ``at_ms`` after noon."""
    return 1.0 if user == "alice" else 0.7 if at_ms < CHANGED_MS else 3.0


class Controller:
    """Admits or refuses as Kafka does, and forgets a sensor after an hour."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, str], tuple[int, ControllerMutationQuota]] = {}
        self._inventory = PartitionInventory()

    def answer(self, row: Row, at_ms: int) -> Row:
        """Return ``row``, asked for then, with what became of its topics and the throttle."""
        key = row["broker_id"], row["user"]
        last_ms, sensor = self._held.get(key, (at_ms, None))
        if sensor is None or at_ms - last_ms > EXPIRED_AFTER_MS:
            sensor = ControllerMutationQuota(TokenBucket(11, 1000))
        self._held[key] = at_ms, sensor
        api, throttle_ms, answered = row["api_name"], 0, []
        is_strict = row["api_version"] == VERSIONS[api][1]
        for asked in row["mutations"]:
            spent = self._inventory.cost(api, asked["topic"], asked["partitions"])
            made = sensor.decide(
                math.nan if spent is None else spent,
                bound_of(row["user"], at_ms),
                NOON_MS + at_ms,
                is_strict=is_strict,
            )
            throttle_ms = made.throttle_time_ms or throttle_ms
            code = NO_ERROR if made.is_admitted else THROTTLING_QUOTA_EXCEEDED
            answered.append(asked | {"error_code": code})
            if made.is_admitted:
                self._inventory.apply(api, asked["topic"], asked["partitions"])
        return row | {"mutations": answered, "throttle_time_ms": throttle_ms}


GAPS_MS = st.sampled_from([0, 1, 3, 40, 300, 999, 1000, 2_000, 5_000, 11_000])
PAUSES_MS = st.sampled_from([0] * 20 + [60_000, 3_500_000, EXPIRED_AFTER_MS + 10_000])
OFF_MS = st.sampled_from([0, 0, 1, 4, 20])
WIDE_MS = st.sampled_from([20, 20, 35, 80])
LATE_MS = st.sampled_from([0, 1, 30, 900, LATE_MAX_MS - 100])
# A line of the controller, one of a broker that has a twin there, and one that has none.
KINDS = st.sampled_from(["decided"] * 5 + ["twin"] * 4 + ["told"])


@st.composite
def logs(draw: st.DrawFn) -> list[Row]:
    """Return rows of ``requests`` of two controllers' mutations, in order of their records."""
    controller, rows, at_ms = Controller(), [], 0
    for number in range(draw(st.integers(1, 30))):
        at_ms += draw(GAPS_MS) + draw(PAUSES_MS)
        row = _asked(draw, number)
        off_ms, wide_ms, late_ms = draw(OFF_MS), draw(WIDE_MS), draw(LATE_MS)
        kind = draw(KINDS)
        told = controller.answer(row, at_ms)
        if draw(st.integers(0, 19)) == 0:  # a lie
            told["mutations"][0]["error_code"] ^= THROTTLING_QUOTA_EXCEEDED
        estimate_ms = NOON_MS + at_ms + draw(st.sampled_from([-1, 1])) * off_ms
        told |= {
            "recorded_estimate_us": estimate_ms * 1000 + draw(st.sampled_from([0, 400])),
            "recorded_earliest_ms": estimate_ms - wide_ms,
            "recorded_latest_ms": estimate_ms + wide_ms,
            "log_time_ms": estimate_ms + wide_ms + late_ms,
            "send_time_us": late_ms * 1000,
        }
        by_broker = {"broker_id": 3, "is_forwarded": False, "listener": "PLAINTEXT"}
        if kind != "told":
            rows.append(told)
        if kind != "decided":
            late = {"log_time_ms": told["log_time_ms"] + draw(LATE_MS) // 50}
            rows.append(told | by_broker | late)
    return [row | {"source_line": line} for line, row in enumerate(rows, start=1)]


def _asked(draw: st.DrawFn, number: int) -> Row:
    api = draw(st.sampled_from([CREATE_TOPICS, CREATE_TOPICS, CREATE_PARTITIONS, DELETE_TOPICS]))
    topics = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True))
    partitions = None if api == DELETE_TOPICS else draw(st.integers(1, 9))
    return {
        "broker_id": draw(st.sampled_from([1, 1, 1, 2])),
        "user": draw(st.sampled_from(["alice", "alice", "bob"])),
        "client_id": "admin",
        "api_name": api,
        "api_version": draw(st.sampled_from([*VERSIONS[api], VERSIONS[api][1]])),
        "correlation_id": number,
        "connection": f"c{number}",
        "is_forwarded": True,
        "listener": "CONTROLLER",
        "validate_only": False,
        "mutations": [{"topic": t, "partitions": partitions, "error_code": 0} for t in topics],
    }
