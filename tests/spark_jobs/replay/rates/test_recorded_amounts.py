"""Which bytes a request puts on which sensors of the bandwidth quotas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.quota.codes import QuotaType
from spark_jobs.replay.rates.recorded_amounts import API_KEYS, RecordedAmounts
from spark_jobs.replay.rates.sensor_codes import NO_LEVEL, SensorCodes
from spark_jobs.replay.rates.stream_rows import StreamRows
from spark_jobs.replay.rates.unsized_amounts import UnsizedAmounts
from spark_jobs.replay.sensors.line_lags import NO_STOPS, STAMP_STEPS_MS, Stops
from spark_jobs.replay.sensors.lost_requests import LostRequests
from spark_jobs.resolve.broker_log import KNOWN_MS, NOT_STAMPED, BrokerLog
from tests.builders.tables_builder import NOON_MS, row
from tests.spark_jobs.replay.sensors.request_rows import quota, requests, resolutions

PRODUCER, CONSUMER = API_KEYS
TIME = QuotaType.REQUEST_PERCENTAGE
FETCH = {"api_key": 1, "api_name": "FETCH", "response_bytes": 5_000}
ON_FETCHES = {"quota_type": "consumer_byte_rate"}
ON_TIME = {"quota_type": "request_percentage"}


class Found:
    """The rows of both streams of broker 1."""

    def __init__(
        self,
        rows: list[dict[str, Any]],
        *quotas: dict[str, Any],
        log: BrokerLog | None = None,
        stops: Stops = NO_STOPS,
    ) -> None:
        self.codes = {quota_type: SensorCodes() for quota_type in (*API_KEYS, TIME)}
        streams = RecordedAmounts(
            1,
            resolutions(*quotas),
            self.codes,
            frozenset({"CONTROLLER"}),
            log or BrokerLog(),
            LostRequests(),
            stops=stops,
        )
        self.rows: dict[QuotaType, StreamRows] = streams.rows(
            pa.Table.from_batches([requests(*rows)]), np.arange(len(rows))
        )

    def sensors(self, quota_type: QuotaType) -> list[tuple[str, str]]:
        return [self.codes[quota_type].names[s] for s in self.rows[quota_type].sensor.tolist()]

    def lines(self, quota_type: QuotaType) -> list[int]:
        found: list[int] = self.rows[quota_type].own_lines()["source_line"].to_pylist()
        return found


def test_a_produce_is_recorded_with_its_whole_size_on_the_users_sensor() -> None:
    found = Found([{"request_bytes": 1234}], quota(5e4))
    rows = found.rows[PRODUCER]
    assert (rows.amount.tolist(), rows.bound.tolist()) == ([1234.0], [5e4])
    assert found.sensors(PRODUCER) == [("alice", "")]
    assert [found.codes[PRODUCER].levels[i] for i in rows.level.tolist()] == ["user"]
    assert rows.at_ms.tolist() == [NOON_MS + 2]
    assert len(found.rows[CONSUMER]) == 0


def test_nothing_is_recorded_before_the_first_quota_of_a_type() -> None:
    early = {"recorded_estimate_us": (NOON_MS - 1) * 1000}
    found = Found([early, {}, FETCH], quota(5e4))
    assert found.lines(PRODUCER) == [2]
    assert found.lines(CONSUMER) == []


def test_a_client_without_a_quota_is_recorded_without_a_bound() -> None:
    found = Found([{"user": "bob", "client_id": None}], quota(5e4))
    rows = found.rows[PRODUCER]
    assert np.isnan(rows.bound).all()
    assert rows.level.tolist() == [NO_LEVEL]
    assert found.sensors(PRODUCER) == [("bob", "")]


def test_clients_of_one_name_but_another_pair_are_told_apart() -> None:
    pairs = [("alice", "a"), ("alice", None), ("bob", "a"), ("alice", "a")]
    rows = [{"user": user, "client_id": client_id} for user, client_id in pairs]
    both = quota(5e4, quota_client_id="<default>")
    found = Found(rows, both)
    assert found.sensors(PRODUCER) == [(user, client_id or "") for user, client_id in pairs]


def test_a_throttled_fetch_was_taken_back_and_its_size_is_not_in_the_log() -> None:
    throttled = FETCH | {"throttle_time_ms": 80, "response_bytes": 40}
    rows = Found([FETCH, throttled], quota(5e4, **ON_FETCHES)).rows[CONSUMER]
    assert rows.amount[0] == 5_000.0
    assert np.isnan(rows.amount[1])
    assert rows.logged_ms.tolist() == [0, 80]


@pytest.mark.parametrize(
    ("codes", "expected"), [([0], False), ([], False), (None, False), ([0, 74], True)]
)
def test_a_fetch_says_whether_a_partition_was_not_served(
    codes: list[int] | None, expected: bool
) -> None:
    rows = [FETCH | {"error_codes": [6]}, FETCH | {"error_codes": codes}]
    found = Found(rows, quota(5e4, **ON_FETCHES)).rows[CONSUMER]
    assert found.has_errors.tolist() == [True, expected]


@pytest.mark.parametrize(
    ("topics", "expected"),
    [(None, False), ([], False), ([0], False), ([None], False), ([0, 7], True)],
)
def test_a_fetch_says_whether_it_was_given_records(
    topics: list[int | None] | None, expected: bool
) -> None:
    told = topics and [{"topic": "t", "records_bytes": size} for size in topics]
    found = Found([FETCH | {"topics": told}], quota(5e4, **ON_FETCHES)).rows[CONSUMER]
    assert found.has_records.tolist() == [expected]


@pytest.mark.parametrize(
    "of_a_broker",
    [{"is_replica": True}, {"is_forwarded": True}, {"listener": "CONTROLLER"}],
    ids=["follower", "forwarded", "controller listener"],
)
def test_what_brokers_ask_of_each_other_is_exempt(of_a_broker: dict[str, Any]) -> None:
    found = Found([FETCH | of_a_broker, of_a_broker], quota(5e4), quota(5e4, **ON_FETCHES))
    assert [len(rows) for rows in found.rows.values()] == [0, 0, 0]


def test_a_request_quota_that_is_in_force_too_is_told() -> None:
    rows = Found([{}, {"user": "bob"}], quota(5e4), quota(10.0, **ON_TIME)).rows[PRODUCER]
    assert rows.has_request_bound.tolist() == [True, False]


def test_a_request_quota_that_comes_or_goes_may_have_been_met() -> None:
    held = quota(10.0, **ON_TIME, valid_from_ms=NOON_MS + 2_000, valid_until_ms=NOON_MS + 5_000)
    times_ms = (900, 1_100, 3_000, 5_900, 6_100)
    rows = [{"recorded_estimate_us": (NOON_MS + ms) * 1000} for ms in times_ms]
    found = Found(rows, quota(5e4), held).rows[PRODUCER]
    assert found.has_request_bound.tolist() == [False, True, True, True, False]


def test_an_unknown_size_stays_unknown() -> None:
    unknown = {"request_bytes": None, "request_bytes_known": False}
    assert np.isnan(Found([unknown], quota(5e4)).rows[PRODUCER].amount).all()


def test_the_sensors_past_is_known_from_the_logs_begin_at_the_earliest() -> None:
    rows = Found([{}], quota(5e4, valid_from_ms=0)).rows[PRODUCER]
    assert rows.known_for_ms.tolist() == [2]


def test_a_sensor_may_hold_what_its_clients_sent_before_its_quota_was_set() -> None:
    """Each of two clients of one user, before and after the user's quota was set."""
    set_at_ms = NOON_MS + 20_000
    everyones = quota(9e4, quota_user=None, quota_client_id="<default>", valid_from_ms=0)

    def known_since_ms(*sent: tuple[str, int]) -> int:
        rows = [
            {"client_id": client, "recorded_estimate_us": (NOON_MS + ms) * 1000}
            for client, ms in (*sent, ("a", 25_000))
        ]
        found = Found(rows, everyones, quota(5e4, valid_from_ms=set_at_ms)).rows[PRODUCER]
        return int(found.at_ms[-1] - found.known_for_ms[-1]) - NOON_MS

    assert known_since_ms(("b", 21_000)) == 0
    assert known_since_ms(("a", 8_000), ("b", 21_000)) == 8_000
    # Whoever is sent to the sensor from then on, and never sends again.
    assert known_since_ms(("a", 8_000), ("b", 9_000)) == 9_000


def test_request_times_of_a_process_that_has_just_begun_are_not_known() -> None:
    started = BrokerLog.of_rows([row("broker_starts", started_ms=NOON_MS + 1)])
    both = quota(5e4), quota(10.0, **ON_TIME)
    found = Found([{}], *both, log=started).rows
    assert found[PRODUCER].known_for_ms.tolist() == [KNOWN_MS]
    assert found[TIME].known_for_ms.tolist() == [1]


def test_the_distance_to_the_next_or_last_change_is_told() -> None:
    quotas = (
        quota(5e4, valid_until_ms=NOON_MS + 10),
        quota(7e4, valid_from_ms=NOON_MS + 10),
    )
    at = [{"recorded_estimate_us": (NOON_MS + ms) * 1000} for ms in (3, 8, 14)]
    rows = Found(at, *quotas).rows[PRODUCER]
    assert rows.change_distance_ms.tolist() == [3, 2, 4]
    assert rows.bound.tolist() == [5e4, 5e4, 7e4]


def test_the_bound_beside_is_that_on_the_other_side_of_the_nearest_change() -> None:
    """Of a user's quota that held for 10 s, for 2 s and ever after, after that of all users."""
    everyones = quota(9e4, quota_user="<default>", valid_from_ms=0)
    begins_ms = [NOON_MS + ms for ms in (10_000, 20_000, 22_000)]
    own = [
        quota(bound, valid_from_ms=begin_ms, valid_until_ms=until_ms)
        for bound, begin_ms, until_ms in zip(
            (5e4, 6e4, 7e4), begins_ms, [*begins_ms[1:], None], strict=True
        )
    ]
    at_ms = (9_000, 11_000, 19_900, 20_900, 21_900, 23_900)
    rows = [{"recorded_estimate_us": (NOON_MS + ms) * 1000} for ms in at_ms]
    found = Found(rows, everyones, *own).rows[PRODUCER]
    assert found.bound.tolist() == [9e4, 5e4, 5e4, 6e4, 6e4, 7e4]
    # Neither where another entity's began, nor beside one that held for less than 3 s, nor in it.
    assert np.isnan(found.bound_beside).tolist() == [True] * 6
    lasting = quota(5e4, valid_until_ms=begins_ms[1]), quota(6e4, valid_from_ms=begins_ms[1])
    found = Found(rows, *lasting).rows[PRODUCER]
    assert found.bound_beside.tolist()[2:4] == [6e4, 5e4]


@pytest.mark.parametrize(
    ("throttle_time_ms", "span_ms", "bounds"),
    [
        # Let through, it had no quota, and throttled, it had one, where its line admits that.
        (0, (0, 2), [None, None]),
        (90, (0, 2), [5e4, 5e4]),
        (0, (1, 2), [None, 5e4]),
        (90, (0, 0), [None, 5e4]),
    ],
)
def test_a_throttle_tells_on_which_side_of_a_first_quota_a_request_was(
    throttle_time_ms: int, span_ms: tuple[int, int], bounds: list[float | None]
) -> None:
    set_ms = NOON_MS + 20_001
    rows = [
        {
            "recorded_earliest_ms": NOON_MS + 20_000 + span_ms[0],
            "recorded_estimate_us": (NOON_MS + 20_000 + estimate_ms) * 1000,
            "recorded_latest_ms": NOON_MS + 20_000 + max(span_ms[1], estimate_ms),
            "throttle_time_ms": throttle_time_ms,
        }
        for estimate_ms in (0, 1)
    ]
    others = quota(9e4, quota_user="bob", valid_from_ms=0)
    found = Found(rows, others, quota(5e4, valid_from_ms=set_ms)).rows[PRODUCER]
    assert [None if np.isnan(each) else each for each in found.bound.tolist()] == bounds
    assert len(set(found.sensor.tolist())) == 1


def test_one_that_was_handled_as_its_quota_came_may_have_been_counted_before() -> None:
    def may_precede(set_ms: int) -> list[bool]:
        rows = [
            {"recorded_estimate_us": until_ms * 1000, "recorded_earliest_ms": from_ms}
            for from_ms, until_ms in (
                (NOON_MS + 1_000, NOON_MS + 1_001),
                (NOON_MS + 20_000, NOON_MS + 20_100),
            )
        ]
        everyones = quota(9e4, quota_user=None, quota_client_id="<default>", valid_from_ms=0)
        found = Found(rows, everyones, quota(5e4, valid_from_ms=NOON_MS + set_ms)).rows[PRODUCER]
        return [bool(may) for may in found.may_precede]

    assert may_precede(20_050) == [False, True]
    # Its handler had not begun by then, were its line as late as a line may be.
    assert may_precede(19_000) == [False, False]


@pytest.mark.parametrize(("silent_ms", "distance_ms"), [(3_100, 0), (2_900, 3_000)])
def test_one_whose_process_may_have_been_stopped_since_before_a_change_is_at_the_change(
    silent_ms: int, distance_ms: int
) -> None:
    changed_ms = NOON_MS + 60_000
    quotas = quota(5e4, valid_until_ms=changed_ms), quota(7e4, valid_from_ms=changed_ms)
    after_ms = changed_ms + 3_000
    at = [
        {"recorded_estimate_us": ms * 1000, "recorded_earliest_ms": ms, "log_time_ms": ms}
        for ms in (after_ms - silent_ms, after_ms)
    ]
    stopped = Stops(np.array([[after_ms - silent_ms, after_ms]]))
    rows = Found(at, *quotas, stops=stopped).rows[PRODUCER]
    assert rows.change_distance_ms[1] == distance_ms
    assert rows.line_lag_max_ms[1] == silent_ms + STAMP_STEPS_MS


@pytest.mark.parametrize(
    ("stop_ms", "distance_ms"), [((-500, 2_000), 1_000), ((100, 2_000), 3_000)]
)
def test_a_change_that_came_while_the_process_was_stopped_is_as_of_when_it_ran_on(
    stop_ms: tuple[int, int], distance_ms: int
) -> None:
    changed_ms = NOON_MS + 60_000
    quotas = quota(5e4, valid_until_ms=changed_ms), quota(7e4, valid_from_ms=changed_ms)
    at = [
        {"recorded_estimate_us": ms * 1000, "recorded_earliest_ms": ms, "log_time_ms": ms}
        for ms in (changed_ms + 2_500, changed_ms + 2_900, changed_ms + 3_000)
    ]
    stopped = Stops(changed_ms + np.array([stop_ms]))
    rows = Found(at, *quotas, stops=stopped).rows[PRODUCER]
    assert rows.change_distance_ms[-1] == distance_ms


def test_the_brokers_own_stamp_of_a_throttled_request_is_taken() -> None:
    record = {
        "broker_id": 1, "at_ms": NOON_MS + 1, "quota_type": "producer_byte_rate",
        "quota_user": "alice", "quota_client_id": "", "throttle_time_ms": 70,
    }  # fmt: skip
    log = BrokerLog.of_rows([], pa.Table.from_pylist([record]))
    rows = Found([{}, {"throttle_time_ms": 70}], quota(5e4), log=log).rows[PRODUCER]
    assert rows.stamp_ms.tolist() == [NOT_STAMPED, NOON_MS + 1]


def test_handler_time_counts_in_percent_of_a_second() -> None:
    asked = [{"api_name": "METADATA", "api_key": 3, "handler_time_us": 2_500}]
    found = Found(asked, quota(10.0, **ON_TIME))
    rows = found.rows[TIME]
    assert found.sensors(TIME) == [("alice", "")]
    assert (rows.amount.tolist(), rows.bound.tolist()) == ([2_500 * 1000 * 1e-7], [10.0])
    assert rows.has_request_bound.tolist() == [True]


@pytest.mark.parametrize(
    "row",
    [{"api_name": "ALTER_PARTITION", "api_key": 56}, {"acks": 0}, {"is_replica": True}],
    ids=["exempt", "without a response", "follower"],
)
def test_some_requests_take_no_request_time(row: dict[str, Any]) -> None:
    assert Found([row], quota(10.0, **ON_TIME)).lines(TIME) == []


def test_no_request_time_is_recorded_before_the_first_request_quota() -> None:
    early = {"recorded_estimate_us": (NOON_MS - 1) * 1000}
    assert Found([early], quota(10.0, **ON_TIME)).lines(TIME) == []
    assert Found([{}], quota(5e4)).lines(TIME) == []


def share_fetch(at_ms: int, **columns: Any) -> dict[str, Any]:
    api = {"api_key": 78, "api_name": "SHARE_FETCH", "response_bytes": None}
    return api | {"recorded_estimate_us": at_ms * 1000, **columns}


def test_after_a_fetch_without_a_size_its_sensor_is_not_known() -> None:
    rows = [
        FETCH | {"recorded_estimate_us": NOON_MS * 1000},
        share_fetch(NOON_MS + 100),
        FETCH | {"recorded_estimate_us": (NOON_MS + 400) * 1000},
        FETCH | {"recorded_estimate_us": (NOON_MS + 500) * 1000, "user": "bob"},
        share_fetch(NOON_MS + 700, throttle_time_ms=60, response_bytes=18),
        FETCH | {"recorded_estimate_us": (NOON_MS + 9_100) * 1000},
    ]
    known_ms = Found(rows, quota(5e4, **ON_FETCHES)).rows[CONSUMER].known_for_ms.tolist()
    # All sensors are known since noon, this one not before the last amount without a size.
    assert known_ms == [0, 0, 300, 500, 600, 9_000]


def test_what_is_not_known_goes_from_chunk_to_chunk() -> None:
    unsized = UnsizedAmounts()
    known, sensor = np.full(3, 10**9), np.array([4, 2, 4])
    first = unsized.known_for_ms(
        known, sensor, np.array([100, 110, 120]), np.array([True, False, False])
    )
    assert first.tolist() == [0, 10**9, 20]
    later = unsized.known_for_ms(known, sensor, np.array([500, 510, 520]), np.zeros(3, bool))
    assert later.tolist() == [400, 10**9, 420]
    assert known.tolist() == [10**9] * 3


@pytest.mark.parametrize(
    "by_controller", [{"listener": "CONTROLLER"}, {"is_forwarded": True}], ids=["own", "forwarded"]
)
def test_of_a_user_whom_the_controller_of_the_node_has_met_no_request_time_is_known(
    by_controller: dict[str, Any],
) -> None:
    later = {"recorded_estimate_us": (NOON_MS + 50) * 1000}
    other = later | {"user": "bob"}
    rows = [{}, later | by_controller, later, other]
    found = Found(rows, quota(5.0, **ON_TIME), quota(5.0, quota_user="bob", **ON_TIME))
    assert found.sensors(TIME) == [("alice", ""), ("alice", ""), ("bob", "")]
    assert (found.rows[TIME].known_for_ms == 0).tolist() == [False, True, False]
