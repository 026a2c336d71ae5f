"""What alignment costs a request in the replay: in its stream alone, and in the whole step.

In the stream, one sensor's requests are fixed as the replay fixes them, and once more as
estimated, without looking for record times; the sensor is throttled, or never near its bound. In
the step, Parquet to Parquet, every client is near its bound, or none is; what starting costs is
taken out by a replay of fewer requests.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.growth import measured
from benchmarks.made_traffic import PRODUCES, Traffic
from spark_jobs.quota.codes import QuotaType
from spark_jobs.replay.rates.fixed_times import Fixing, ProduceFixing
from spark_jobs.replay.rates.rate_stream import RateStream
from spark_jobs.replay.rates.sensor_codes import SensorCodes
from spark_jobs.replay.rates.stream_rows import LINE_COLUMNS, StreamRows
from spark_jobs.replay.rates.stream_states import StreamStates
from spark_jobs.replay.replay_quotas import tolerances
from spark_jobs.replay.sensors.sensor_states import BrokerRules
from spark_jobs.resolve.broker_log import NOT_STAMPED
from spark_jobs.settings import JudgeSettings
from spark_jobs.warehouse.tables import REQUESTS
from tests.builders.synthetic_broker import Log, profile_of

ROUNDS_S = 0.5
STEP_REQUESTS, STEP_REQUESTS_MIN = 5_000_000, 500_000
STEP_BROKERS, STEP_CLIENTS = 4, 40
STEP_ROUNDS = 3
FAR = 1e12
SENSOR = ("alice", "")


def stream_rows(log: Log, codes: SensorCodes, *, is_throttled: bool) -> StreamRows:
    """Return a log's requests as amounts of one sensor, with its bound and throttles or far off."""
    events, n = log.events, len(log.turn)
    at_ms = (events.likely_from_ms + events.likely_until_ms + 1) // 2
    order = np.argsort(at_ms, kind="stable")
    nothing = np.zeros(n, np.int64)
    never = np.zeros(n, bool)
    return StreamRows(
        lines=_lines(log.events.connection[order]),
        line=np.arange(n),
        log_time_ms=events.latest_ms[order],
        sensor=np.full(n, codes.code(SENSOR), np.int32),
        level=np.full(n, -1, np.int8),
        restart_ms=nothing,
        at_ms=at_ms[order],
        earliest_ms=events.earliest_ms[order],
        latest_ms=events.latest_ms[order],
        likely_from_ms=events.likely_from_ms[order],
        line_lag_max_ms=events.line_lag_max_ms[order],
        stamp_ms=np.full(n, NOT_STAMPED),
        amount=events.amount[order],
        bound=events.bound[order] if is_throttled else np.full(n, FAR),
        logged_ms=events.logged_throttle_time_ms[order] if is_throttled else nothing,
        joined_ms=nothing,
        may_precede=never,
        known_for_ms=np.full(n, 10**9),
        change_distance_ms=np.full(n, 10**9),
        bound_beside=np.full(n, np.nan),
        has_request_bound=never,
        lost_requests=nothing,
        request_bytes=np.full(n, np.nan),
        fetch_max_bytes=np.full(n, np.nan),
        has_records=never,
        has_errors=never,
        unlogged_amount_max=np.zeros(n),
        unlogged_likely=np.zeros(n),
        short_send_us=np.zeros(n),
        lost_amount_max=np.zeros(n),
    )


def _lines(connection: np.ndarray) -> pa.Table:
    texts = {"api_name": "PRODUCE", "user": "alice", "client_id": "app"}
    columns = []
    for name in LINE_COLUMNS:
        kind = REQUESTS.field(name).type
        same = texts.get(name, "f") if pa.types.is_string(kind) else 0
        columns.append(pa.repeat(pa.scalar(same, kind), len(connection)))
    columns[LINE_COLUMNS.index("connection")] = pc.cast(pa.array(connection), pa.string())
    return pa.table(columns, names=LINE_COLUMNS)


def stream_us(log: Log, fixing: Fixing, *, is_throttled: bool) -> float:
    """Return the processor microseconds of a request in the stream; compiled code is there."""
    codes = SensorCodes()
    rows = stream_rows(log, codes, is_throttled=is_throttled)
    rules = BrokerRules(profile_of(log.window), log.window.samples, log.window.window_ms, 11, 1000)

    within = tolerances(JudgeSettings())

    def decided() -> None:
        states = StreamStates(rules, QuotaType.PRODUCER_BYTE_RATE)
        stream = RateStream(1, codes, states, fixing, within, {}, unrecords=False)
        stream.take(rows)
        found = stream.decide(None)
        assert found is not None
        assert len(found) == len(rows)

    decided()
    return best_s(decided) / len(rows) * 1e6


def best_s(work: Callable[[], object]) -> float:
    """Return the least processor seconds of this thread, of runs of ROUNDS_S in all."""
    times: list[float] = []
    while sum(times) < ROUNDS_S:
        started = time.thread_time()
        work()
        times.append(time.thread_time() - started)
    return min(times)


def in_stream(log: Log) -> dict[str, dict[str, float]]:
    """Return microseconds of a request as estimated and aligned, and how many times that is."""
    found = {}
    for name, is_throttled in (("throttled", True), ("never near its bound", False)):
        plain = stream_us(log, Fixing(), is_throttled=is_throttled)
        aligned = stream_us(log, ProduceFixing.of(log.window), is_throttled=is_throttled)
        found[name] = {
            "estimated_us": round(plain, 3),
            "aligned_us": round(aligned, 3),
            "times": round(aligned / plain, 2),
        }
    return found


def in_step(requests: int = STEP_REQUESTS) -> dict[str, Any]:
    """Return microseconds of a request in the step: of sensors far from their bound, and near it.

    Only produces are aligned, so a fetch costs what it does where nobody is near. Each is the
    median of STEP_ROUNDS: other users of the machine make single runs differ by several times.
    """
    rounds = [[_marginal_us(requests, throttled) for throttled in (0, STEP_CLIENTS)]
              for _ in range(STEP_ROUNDS)]  # fmt: skip
    far, near = map(median, zip(*rounds, strict=True))
    aligned = (near - (1 - PRODUCES) * far) / PRODUCES
    return {
        "plain_us": round(far, 2),
        "aligned_us": round(aligned, 2),
        "times": round(aligned / far, 1),
        "requests": requests,
    }


def _marginal_us(requests: int, throttled: int) -> float:
    few, many = (
        measured(Traffic(n, STEP_BROKERS, STEP_CLIENTS, throttled_clients=throttled))
        for n in (STEP_REQUESTS_MIN, requests)
    )
    return float((many["cpu_s"] - few["cpu_s"]) / (many["requests"] - few["requests"]) * 1e6)
