from __future__ import annotations

import datetime as dt
import zoneinfo
from typing import Any

import pytest

from spark_jobs.ingest.quota_sources.server_log import ServerLog, read_server_log
from spark_jobs.quota.codes import DEFAULT

LOGGER = " (kafka.server.ClientQuotaManager)"
PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
TEN_MS = 1_793_527_200_000  # 2026-11-01 10:00:00 UTC


def read(*lines: str, timezone: dt.tzinfo = dt.UTC) -> ServerLog:
    return read_server_log([line + "\n" for line in lines], 1, "server.log", timezone)


def logged(text: str, stamp: str = "2026-11-01 10:00:00,000", level: str = "INFO") -> str:
    return f"[{stamp}] {level} {text}{LOGGER}"


def changes(log: ServerLog) -> list[tuple[Any, ...]]:
    return [(e.quota_type, e.quota_user, e.quota_client_id, e.bound) for e in log.quota_events]


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (
            "Changing PRODUCE quota for user alice client-id svc to 180000.0",
            (PRODUCE, "alice", "svc", 180_000.0),
        ),
        ("Changing Fetch quota for user bob to 3.0E7", (FETCH, "bob", None, 30_000_000.0)),
        (
            "Changing PRODUCE quota for default user client-id sink to 1.0",
            (PRODUCE, DEFAULT, "sink", 1.0),
        ),
        (
            "Changing REQUEST quota for default user default client-id to 1.0",
            ("request_percentage", DEFAULT, DEFAULT, 1.0),
        ),
        (
            "Changing CONTROLLER_MUTATION quota for default client-id to 1.5",
            ("controller_mutation_rate", None, DEFAULT, 1.5),
        ),
        (
            "Changing ControllerMutation quota for user CN%3Dx%2CO%3Dy to 1.5",
            ("controller_mutation_rate", "CN=x,O=y", None, 1.5),
        ),
        (
            "Removing PRODUCE quota for user alice client-id a to b",
            (PRODUCE, "alice", "a to b", None),
        ),
        ("Removing Produce quota for client-id loader", (PRODUCE, None, "loader", None)),
    ],
)
def test_each_wording_is_read(text: str, change: tuple[Any, ...]) -> None:
    log = read(logged(text))
    assert changes(log) == [change]
    (event,) = log.quota_events
    assert (event.earliest_ms, event.latest_ms, event.source_line) == (TEN_MS, TEN_MS, 1)
    assert (event.broker_id, event.source, event.source_file) == (1, "server_log", "server.log")


def test_of_two_lines_of_one_change_the_brokers_is_the_second() -> None:
    text = "Changing PRODUCE quota for user bob to 120000.0"
    log = read(logged(text), logged(text, "2026-11-01 10:00:00,015"))
    assert [e.earliest_ms for e in log.quota_events] == [TEN_MS + 15]


def test_of_two_lines_of_a_mutation_quota_the_controllers_is_the_first() -> None:
    text = "Changing CONTROLLER_MUTATION quota for user bob to 1.5"
    log = read(logged(text), logged(text, "2026-11-01 10:00:00,015"))
    assert [e.earliest_ms for e in log.quota_events] == [TEN_MS]


def test_a_value_set_back_is_a_change_of_its_own() -> None:
    bounds = ("1.0", "2.0", "1.0")
    log = read(*(logged(f"Changing PRODUCE quota for user bob to {b}") for b in bounds))
    assert [e.bound for e in log.quota_events] == [1.0, 2.0, 1.0]


def test_throttled_requests_are_read() -> None:
    log = read(
        logged("Quota violated for sensor (Produce-dave:sink:1). Delay time: (8)", level="DEBUG"),
        logged("Quota violated for sensor (Request-CN%3Dx:). Delay time: (9)", level="DEBUG"),
    )
    assert [t.row() for t in log.throttles] == [
        {
            "broker_id": 1,
            "at_ms": TEN_MS,
            "quota_type": quota_type,
            "quota_user": user,
            "quota_client_id": client_id,
            "throttle_time_ms": delay_ms,
            "source_file": "server.log",
            "source_line": line,
        }
        for quota_type, user, client_id, delay_ms, line in (
            (PRODUCE, "dave", "sink:1", 8, 1),
            ("request_percentage", "CN=x", "", 9, 2),
        )
    ]


RAFT = (
    "INFO [controller-1-ThrottledChannelReaper-Fetch]: Starting (kafka.server.ClientQuotaManager$)",
    "INFO [BrokerServer id=1] Transition from SHUTDOWN to STARTING (kafka.server.BrokerServer)",
    "INFO [broker-1-ThrottledChannelReaper-Fetch]: Starting (kafka.server.ClientQuotaManager$)",
    "INFO [KafkaRaftServer nodeId=1] Kafka Server started (kafka.server.KafkaRaftServer)",
)
ZOOKEEPER = (
    "INFO [KafkaServer id=1] starting (kafka.server.KafkaServer)",
    "INFO [ThrottledChannelReaper-Fetch]: Starting (kafka.server.ClientQuotaManager$)",
    "INFO [KafkaServer id=1] started (kafka.server.KafkaServer)",
)
STOPPED = "INFO [BrokerServer id=1] shut down completed (kafka.server.BrokerServer)"


def starts_of(*texts: str, step_s: int = 1) -> list[int]:
    """Return which of the lines, ``step_s`` apart, are starts."""
    times = (dt.datetime(2026, 11, 1, 10) + dt.timedelta(seconds=i * step_s) for i in range(99))
    lines = [f"[{at:%Y-%m-%d %H:%M:%S},000] {t}" for at, t in zip(times, texts, strict=False)]
    log = read(*lines)
    assert all(s.evidence == texts[(s.source_line or 0) - 1] for s in log.starts)
    assert [s.started_ms for s in log.starts] == [
        TEN_MS + 1_000 * step_s * ((s.source_line or 0) - 1) for s in log.starts
    ]
    return [(s.source_line or 0) - 1 for s in log.starts]


@pytest.mark.parametrize("start", [RAFT, ZOOKEEPER], ids=["raft", "zookeeper"])
def test_a_start_is_its_first_line(start: tuple[str, ...]) -> None:
    assert starts_of(*start) == [0]
    assert starts_of(*start, STOPPED, *start) == [0, len(start) + 1]


def test_a_start_whose_end_is_not_logged_is_another_one_once_its_lines_come_again() -> None:
    reapers = [text for text in RAFT if "Reaper" in text]
    assert starts_of(*reapers, *reapers, step_s=10) == [0, 2]
    assert starts_of(*reapers, *reapers, step_s=4) == [0]


def test_a_broker_that_logs_only_that_it_has_started_was_started_then() -> None:
    assert starts_of(RAFT[-1], RAFT[-1]) == [0, 1]


def test_other_starts_and_stops_are_no_starts_of_a_broker() -> None:
    assert (
        starts_of("INFO [ExpirationReaper-1-Fetch]: Starting (x)", "INFO Starting log", STOPPED)
        == []
    )


def test_an_unknown_wording_of_a_quota_is_counted() -> None:
    log = read("no stamp", logged("Changing PRODUCE quota for user bob to upperBound.bound}"))
    assert (log.quota_events, log.unread_lines) == ((), (2,))


def test_other_lines_say_nothing() -> None:
    log = read(logged("Changing connection rate quota for 10.0.0.1 to 5"), "  at java.lang.X", "")
    assert log == ServerLog((), (), (), ())


@pytest.mark.parametrize("around", ["2026-11-01T10:00:00.1Z stdout F ", "kafka-1 kafka: "])
def test_what_stands_before_a_line_changes_nothing(around: str) -> None:
    lines = [
        logged("Changing PRODUCE quota for user alice to 1.0"),
        logged("Removing PRODUCE quota for user alice", "2026-11-01 10:00:05,000"),
        logged("Quota violated for sensor (Produce-alice:). Delay time: (8)", level="DEBUG"),
        *(f"[2026-11-01 10:01:00,000] {text}" for text in RAFT),
    ]
    bare, wrapped = read(*lines), read(*(around + line for line in lines))
    assert (len(bare.quota_events), len(bare.throttles), len(bare.starts)) == (2, 1, 1)
    assert wrapped == bare


def test_the_zone_of_the_stamps_is_an_input_and_the_repeated_hour_keeps_its_order() -> None:
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    stamps = ("2026-10-25 02:30:00,000", "2026-10-25 02:10:00,000", "2026-10-25 02:05:00,000")
    bounds = ("1.0", "2.0", "3.0")
    lines = [
        logged(f"Changing PRODUCE quota for user bob to {bound}", stamp)
        for bound, stamp in zip(bounds, (stamps[0], stamps[2], stamps[1]), strict=True)
    ]
    times = [e.earliest_ms for e in read(*lines, timezone=berlin).quota_events]
    half_past_0_utc = 1_792_888_200_000  # 2026-10-25 00:30:00 UTC
    assert times == [
        half_past_0_utc,
        half_past_0_utc + 35 * 60_000,
        half_past_0_utc + 40 * 60_000,
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Changing PRODUCE quota for user alice to NaN",
        "Quota violated for sensor (Produce-dave:sink). Delay time: (99999999999)",
        "Quota violated for sensor (Produce-dave:sink). Delay time: ()",
        "Changing PRODUCE quota for ",
        "Removing PRODUCE quota for ",
    ],
)
def test_a_line_that_is_no_ones_tells_of_no_quota(text: str) -> None:
    found = read_server_log([f"[2026-11-21 03:26:45,230] INFO {text} (a.B)"], 1, "f", dt.UTC)
    assert (found.quota_events, found.throttles, found.starts) == ((), (), ())


@pytest.mark.parametrize("stamp", ["2026-13-21 03:26:45,230", "0000-00-00 99:99:99,999"])
def test_a_stamp_that_is_no_time_is_passed_over(stamp: str) -> None:
    change = "INFO Changing PRODUCE quota for user alice to 180000.0"
    lines = [f"[{at}] {change}" for at in ("2026-11-21 03:26:45,230", stamp)]
    found = read_server_log([*lines, lines[1]], 1, "f", dt.UTC)
    assert len(found.quota_events) == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        "Changing PRODUCE quota for ",
        "Removing PRODUCE quota for x ",
        "Quota violated for sensor (a-b",
        "started a",
        "[KafkaServer id=1",
        " ",
    ],
)
def test_a_line_made_to_be_slow_is_not(text: str) -> None:
    line = f"[2026-11-21 03:26:45,230] INFO Removing {text * 50_000}started"
    assert read_server_log([line], 1, "f", dt.UTC).throttles == ()


@pytest.mark.parametrize(("uses_zookeeper", "at_ms"), [(True, [0, 900]), (False, [900])])
def test_with_zookeeper_a_value_logged_again_was_set_again(
    uses_zookeeper: bool, at_ms: list[int]
) -> None:
    text = "Changing PRODUCE quota for default user to 44000.0"
    lines = [logged(text, f"2026-11-01 10:00:00,{ms:03d}") for ms in (0, 900)]
    found = read_server_log(lines, 1, "server.log", dt.UTC, uses_zookeeper=uses_zookeeper)
    assert [event.latest_ms - TEN_MS for event in found.quota_events] == at_ms
