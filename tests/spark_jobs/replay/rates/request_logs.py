"""Requests on one request quota, as logged, and what a broker would throttle of them."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.request_time import PERCENT_PER_US
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.quota.throttle_time import is_acceptable, throttle_time_ms
from spark_jobs.replay.rates.fixed_times import RequestTimeFixing
from spark_jobs.replay.rates.rate_stream import RateStream
from spark_jobs.replay.rates.request_intervals import HANDSHAKE_US
from spark_jobs.replay.rates.sensor_codes import SensorCodes
from spark_jobs.replay.rates.stream_states import StreamStates
from spark_jobs.replay.sensors.sensor_states import BrokerRules, CarriedState
from spark_jobs.replay.verdicts.verdicts import Tolerances
from tests.spark_jobs.replay.rates.stream_logs import decided
from tests.spark_jobs.replay.sensors.amount_rows import amount

REQUEST_PERCENTAGE = "request_percentage"
WINDOW_MS = 1000
Row = dict[str, Any]


def request(at_ms: int, handler_us: int, network_us: float = 0.0, **columns: Any) -> Row:
    """Return a request whose handler time took ``handler_us``; its line came 2 ms later."""
    of_request = {
        "quota_type": REQUEST_PERCENTAGE,
        "log_time_ms": at_ms + 2,
        "bound": 5.0,
        "unlogged_amount_max": network_us * PERCENT_PER_US,
    }
    return amount(at_ms, handler_us * PERCENT_PER_US, **of_request | columns)


def opened(
    *,
    samples: int = 11,
    profile: RateProfile = RateProfile.RATE_3_8,
    carried: dict[SensorKey, CarriedState] | None = None,
) -> RateStream:
    """Return a request quota of windows of a second."""
    held = StreamStates(BrokerRules(profile, samples, WINDOW_MS, 11, 1000), REQUEST_PERCENTAGE)
    fixing, tolerances = RequestTimeFixing(), Tolerances(2, 0, 0)
    return RateStream(1, SensorCodes(), held, fixing, tolerances, carried or {}, unrecords=False)


def intervals(
    rows: list[Row], cuts: set[int] | None = None, *, is_state_known: bool = True, **held: Any
) -> list[Row]:
    """Return the decisions on ``rows``, taken in pieces that end at ``cuts``."""
    known = rows if is_state_known else [rows[0] | {"known_for_ms": WINDOW_MS - 1}, *rows[1:]]
    return decided(opened(**held), known, cuts, shared=True)


def bounds_ms(rows: list[Row]) -> list[tuple[int | None, int | None]]:
    return [(row["throttle_time_min_ms"], row["throttle_time_max_ms"]) for row in rows]


GAPS_MS = st.one_of(
    st.integers(0, 30),
    st.sampled_from([400, 998, 999, 1000, 1001, 1999, 5_000, 9_990, 11_000, 12_000]),
)
# (ms since the request before, handler time, network time at most, connection, interval, lag)
REQUEST = st.tuples(
    GAPS_MS,
    st.integers(0, 600_000),
    st.integers(0, 100_000),
    st.sampled_from("abc"),
    st.integers(0, 15),
    st.integers(0, 5),
)
REQUESTS = st.lists(REQUEST, min_size=1, max_size=25)


def rows_logged(sent: list[tuple[Any, ...]], bound: float) -> list[Row]:
    """Return the rows of ``sent``, the estimates at the begin of the admissible times."""
    rows, at_ms = [], 0
    for line, (gap_ms, handler_us, network_us, connection, width_ms, lag_ms) in enumerate(sent):
        at_ms += gap_ms
        rows.append(
            request(
                at_ms, handler_us, network_us, latest_ms=at_ms + width_ms, bound=bound,
                log_time_ms=at_ms + width_ms + lag_ms + 1, connection=connection, source_line=line,
            )
        )  # fmt: skip
    return rows


def broker_throttles_ms(rows: list[Row], profile: RateProfile, chance: random.Random) -> list[int]:
    """Return what a broker would throttle, one way in which ``rows`` can have come about."""

    def somewhere(most: float) -> float:
        return most * chance.choice((0.0, 1.0, chance.random()))

    # (time, among equal ones, is of the network, request, percent)
    events: list[tuple[int, float, bool, int, float]] = []
    greeted: set[str] = set()
    for i, row in enumerate(rows):
        at_ms = row["earliest_ms"] + round(somewhere(row["latest_ms"] - row["earliest_ms"]))
        turn = chance.random()
        uncut = row["amount"] + somewhere(PERCENT_PER_US)
        events.append((at_ms, turn, False, i, uncut))
        network = somewhere(row["unlogged_amount_max"])
        if row["connection"] not in greeted:
            network += somewhere(HANDSHAKE_US * PERCENT_PER_US)
        greeted.add(row["connection"])
        sent_ms = max(at_ms, row["log_time_ms"] - chance.randint(0, 1))
        events.append((sent_ms, turn + (1.0 - turn) * chance.random(), True, i, network))
    rate, found = Rate(profile), [0] * len(rows)
    for at_ms, _, is_of_network, i, percent in sorted(events):
        rate.record(percent, at_ms)
        if is_of_network:
            continue
        measured, bound = rate.measure(at_ms), rows[i]["bound"]
        if not is_acceptable(measured, bound):
            found[i] = throttle_time_ms(measured, bound, rate.window_size_ms(at_ms), WINDOW_MS)
    return found
