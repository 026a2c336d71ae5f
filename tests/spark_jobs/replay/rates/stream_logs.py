"""Made logs of one stream, and what a stream decides of them."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import strategies as st

from spark_jobs.quota.codes import WRONG_VERDICTS
from spark_jobs.quota.constants import EXPIRED_AFTER_MS
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.replay.alignment.events import Window
from spark_jobs.replay.rates.fixed_times import FetchFixing, Fixing, ProduceFixing
from spark_jobs.replay.rates.rate_stream import RateStream
from spark_jobs.replay.rates.sensor_codes import SensorCodes
from spark_jobs.replay.rates.stream_rows import Decided
from spark_jobs.replay.rates.stream_states import StreamStates
from spark_jobs.replay.rates.stream_tables import decisions
from spark_jobs.replay.sensors.sensor_states import BrokerRules, CarriedState
from spark_jobs.replay.verdicts.verdicts import Tolerances
from tests.builders.tables_builder import NOON_MS
from tests.spark_jobs.replay.rates.stream_rows_made import stream_rows
from tests.spark_jobs.replay.sensors.amount_rows import amount

RULES = BrokerRules(RateProfile.RATE_3_8, 11, 1000, 11, 1000)
WINDOW = Window(11, 1000, True)
TOLERANCES = Tolerances(throttle_ms=5, warm_up_ms=13_000, change_ms=1_000)
PRODUCES, FETCHES = ProduceFixing.of(WINDOW), FetchFixing.of(WINDOW)
PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
Row = dict[str, Any]


def opened(
    fixing: Fixing = PRODUCES,
    carried: dict[SensorKey, CarriedState] | None = None,
    rules: BrokerRules = RULES,
) -> RateStream:
    quota_type = CONSUMER if isinstance(fixing, FetchFixing) else PRODUCER
    held = StreamStates(rules, quota_type)
    is_fetch = quota_type == CONSUMER
    return RateStream(1, SensorCodes(), held, fixing, TOLERANCES, carried or {}, unrecords=is_fetch)


def produces_of(
    rules: BrokerRules, carried: dict[SensorKey, CarriedState] | None = None
) -> RateStream:
    """Return a stream of produces on a broker with these rules, such as three samples."""
    window = Window(rules.samples, rules.window_ms, rules.profile.keeps_overlapping_sample)
    return opened(ProduceFixing.of(window), carried, rules)


def produce(at_ms: int, size: float, **columns: Any) -> Row:
    """Return a produce ``at_ms`` after noon whose record time is known to 2 ms."""
    earlier = dict.fromkeys(("earliest_ms", "likely_from_ms"), at_ms - 2)
    return amount(at_ms, size, **earlier | {"source_line": at_ms} | columns)


def fetch(at_ms: int, size: float, throttle_ms: int = 0, **columns: Any) -> Row:
    of_fetch = {
        "quota_type": CONSUMER,
        "api_name": "FETCH",
        "logged_throttle_time_ms": throttle_ms,
        "has_records": not throttle_ms,
        "request_bytes": 90,
        "fetch_max_bytes": 52_428_800,
        "source_line": at_ms,
    }
    return amount(at_ms, float("nan") if throttle_ms else size, **of_fetch | columns)


def throttled_log(rows: list[Row]) -> list[Row]:
    """Return ``rows`` with the throttles that Kafka's rule gives at their times."""
    rates: dict[str, Rate] = {}
    told = []
    for row in rows:
        rate = rates.setdefault(row["quota_user"], Rate(RULES.profile))
        at_ms = row["recorded_at_ms"]
        rate.record(row["amount"], at_ms)
        measured = rate.measure(at_ms)
        window_ms = rate.window_size_ms(at_ms)
        over = max(measured - row["bound"], 0.0) / row["bound"] * window_ms
        told.append(row | {"logged_throttle_time_ms": int(over + 0.5)})
    return told


def decided(
    stream: RateStream,
    rows: list[Row],
    cuts: set[int] | None = None,
    *,
    is_over: bool = True,
    shared: bool = False,
) -> list[Row]:
    """Return the decisions of ``rows``, in order of time, taken in pieces that end at ``cuts``."""
    inside = sorted(cut for cut in cuts or () if 0 < cut < len(rows))
    found: list[Decided] = []
    for begin, end in itertools.pairwise([0, *inside, len(rows)]):
        stream.take(stream_rows(rows[begin:end], stream.codes))
        is_last = is_over and end == len(rows)
        until_ms = None if is_last else rows[min(end, len(rows) - 1)]["recorded_at_ms"]
        part = stream.decide(until_ms)
        found += [part] if part is not None else []
    if is_over and (rest := stream.decide(None)) is not None:
        found.append(rest)
    return [row for part in found for row in decisions(part, stream, shared=shared).to_pylist()]


def by_sensor(rows: list[Row]) -> list[Row]:
    """Return decisions sensor by sensor, each in its order."""
    return sorted(rows, key=lambda r: (r["quota_user"], r["sensor_epoch"], r["sensor_seq"]))


GAPS = st.sampled_from([0, 1, 3, 300, 999, 1000, 5_000, 23_000, EXPIRED_AFTER_MS + 1])
SIZES = st.integers(1, 9_000)


@st.composite
def logs(draw: st.DrawFn) -> list[Row]:
    """Return produces of three users in order of time; one user is never near its bound."""
    rows: list[Row] = []
    at_ms = restart_ms = 0
    for gap_ms, user, size, restarts in draw(
        st.lists(
            st.tuples(GAPS, st.sampled_from("abc"), SIZES, st.sampled_from([False] * 9 + [True])),
            max_size=60,
        )
    ):
        at_ms += gap_ms
        # A broker ends before it starts again: not between two requests of one millisecond.
        restart_ms = NOON_MS + at_ms if restarts and gap_ms else restart_ms
        bound = 1e9 if user == "c" else 1000.0
        rows.append(
            produce(at_ms, float(size), quota_user=user, bound=bound, restart_ms=restart_ms)
            | {"source_line": len(rows)}
        )
    told = throttled_log(rows)
    lie = draw(st.integers(0, 400))
    return [r | {"logged_throttle_time_ms": lie} if i % 17 == 16 else r for i, r in enumerate(told)]


@st.composite
def reads(draw: st.DrawFn) -> list[Row]:
    rows: list[Row] = []
    at_ms = 0
    steps = st.tuples(GAPS, st.sampled_from("ab"), SIZES, st.sampled_from([0, 0, 40, 2_000]))
    for gap_ms, user, size, throttle_ms in draw(st.lists(steps, max_size=60)):
        at_ms += gap_ms
        rows.append(
            fetch(at_ms, float(size), throttle_ms, quota_user=user, connection=user)
            | {"source_line": len(rows)}
        )
    return rows


def wrong_rows(rows: list[Row]) -> list[Row]:
    """Return the decisions on produces that are called wrong."""
    return [row for row in decided(opened(), rows) if row["verdict"] in WRONG_VERDICTS]
