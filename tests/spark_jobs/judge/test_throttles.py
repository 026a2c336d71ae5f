from __future__ import annotations

from pathlib import Path

from spark_jobs.judge.throttles import ThrottledSensor, throttled_by_second, throttled_seconds
from spark_jobs.publish.read_facts import gather
from tests.builders.day_builder import decision, throttled
from tests.builders.tables_builder import NOON_MS, Row, scope_in, write_day, write_rows


def throttled_of(tmp_path: Path, rows: list[Row]) -> tuple[ThrottledSensor, ...]:
    scope = write_day(scope_in(tmp_path))
    write_rows(scope, "decisions", rows)
    return gather(scope).throttled


def test_a_request_on_two_sensors_counts_once_for_the_longer_throttle(tmp_path: Path) -> None:
    shorter = throttled(0, 700, replayed_throttle_time_ms=700)
    longer = throttled(0, 700, replayed_throttle_time_ms=900, quota_type="request_percentage")
    (only,) = throttled_of(tmp_path, [shorter, longer])
    assert only.sensor.quota_type == "request_percentage"
    assert (only.requests, only.throttle_time_ms) == (1, 700)


def test_in_doubt_a_throttle_belongs_to_the_bandwidth_quota(tmp_path: Path) -> None:
    request_time = throttled(0, 700, quota_type="request_percentage")
    (only,) = throttled_of(tmp_path, [request_time, throttled(0, 700)])
    assert only.sensor.quota_type == "producer_byte_rate"


def test_a_throttle_that_no_quota_explains_belongs_to_the_request_quota(tmp_path: Path) -> None:
    request_time = throttled(0, 700, quota_type="request_percentage", replayed_throttle_time_ms=0)
    bandwidth = throttled(0, 700, replayed_throttle_time_ms=0)
    (only,) = throttled_of(tmp_path, [bandwidth, request_time])
    assert only.sensor.quota_type == "request_percentage"


def test_lines_with_one_number_in_two_files_are_two_requests(tmp_path: Path) -> None:
    files = ["broker=1/kafka-request.log", "broker=1/kafka-request.log.1"]
    (only,) = throttled_of(tmp_path, [throttled(0, 500, source_file=f) for f in files])
    assert (only.requests, only.throttle_time_ms, only.longest_ms) == (2, 1000, 500)


def test_every_refused_topic_of_a_mutation_request_counts_as_refused(tmp_path: Path) -> None:
    mutation = {
        "quota_type": "controller_mutation_rate",
        "logged_admitted": False,
        "replayed_admitted": False,
    }
    topics = [throttled(0, 300, resource=name, **mutation) for name in ("a", "b", "c")]
    (only,) = throttled_of(tmp_path, topics)
    assert (only.requests, only.refused, only.throttle_time_ms) == (1, 3, 300)


def test_throttles_of_one_second_are_one_second(tmp_path: Path) -> None:
    times = (NOON_MS + 10, NOON_MS + 990, NOON_MS + 1000)
    rows = [throttled(n, 100, recorded_at_ms=t) for n, t in enumerate(times)]
    (only,) = throttled_of(tmp_path, rows)
    assert (only.seconds, only.first_ms, only.last_ms) == (2, times[0], times[2])


def test_the_longest_total_comes_first(tmp_path: Path) -> None:
    little = throttled(0, 100, quota_user="little")
    much = [throttled(n, 100, quota_user="much") for n in (1, 2)]
    names = [t.sensor.quota_user for t in throttled_of(tmp_path, [little, *much])]
    assert names == ["much", "little"]


def test_a_throttle_without_any_quota_still_names_whom_it_hit(tmp_path: Path) -> None:
    unbound = {"bound": None, "verdict": "no_quota", "reason": "throttled_without_quota"}
    (only,) = throttled_of(tmp_path, [throttled(0, 100, **unbound)])
    assert only.use.bound_max is None


def test_a_client_that_shares_a_throttled_request_but_has_no_bound_did_not_throttle_it(
    tmp_path: Path,
) -> None:
    recorded_only = throttled(
        0, 700, quota_type="request_percentage", bound=None, verdict="no_quota"
    )
    (only,) = throttled_of(tmp_path, [recorded_only, throttled(0, 700)])
    assert only.sensor.quota_type == "producer_byte_rate"


def test_the_seconds_of_a_sensor_are_those_in_which_it_throttled(tmp_path: Path) -> None:
    scope = write_day(scope_in(tmp_path))
    write_rows(scope, "decisions", [decision(0), throttled(1, 50), decision(2), throttled(3, 50)])
    by_second = throttled_by_second(scope)
    (client,) = gather(scope).throttled
    seconds = throttled_seconds(by_second, [client.sensor])
    assert seconds == {client.sensor: {NOON_MS + 1000, NOON_MS + 3000}}


def test_nothing_throttled_is_no_row(tmp_path: Path) -> None:
    assert throttled_of(tmp_path, [decision(0)]) == ()
