"""Every line of a file becomes a request, a quarantined line with its reason, or another line."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.ingest.lines.chunk import (
    LINE_BYTES_MAX,
    ChunkState,
    LineSource,
    LogOptions,
    ParsedChunk,
    parse_chunk,
)
from tests.builders.log_lines import PRODUCE, log_line, message, text_line

OPTIONS = LogOptions(timezone="UTC", prefix=None, listener_brokers={"127.0.0.1:9092": 4})
GOOD = log_line(message())
ENTITY = [{"entityType": "user", "entityName": "bob"}]
ALTERED = log_line(
    message(
        "ALTER_CLIENT_QUOTAS",
        1,
        {
            "entries": [
                {
                    "entity": ENTITY,
                    "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
                }
            ],
            "validateOnly": False,
        },
        {"throttleTimeMs": 0, "entries": [{"errorCode": 0, "errorMessage": None}]},
    )
)
DELETED = log_line(
    message(
        "DELETE_TOPICS",
        6,
        {"topics": [{"name": "old", "topicId": "AAAAAAAAAAAAAAAAAAAAAA"}], "timeoutMs": 30000},
        {"throttleTimeMs": 0, "responses": [{"errorCode": 0, "name": "old", "topicId": "B"}]},
    )
)
CREATED = log_line(
    message(
        "CREATE_TOPICS",
        5,
        {
            "topics": [{"name": "new", "numPartitions": 3, "assignments": [], "configs": []}],
            "timeoutMs": 30000,
            "validateOnly": False,
        },
        {"throttleTimeMs": 0, "topics": []},
    )
)
METADATA_TEXT = text_line(
    "apiKey=METADATA, apiVersion=8, clientId=svc, correlationId=7",
    "{topics=[]}",
    "{throttle_time_ms=17,brokers=[]}",
)
OTHER = b"[2026-11-21 02:40:48,000] INFO Updated connection (kafka.network.SocketServer)"


def parse(*lines: bytes, broker_id: int | None = 1, options: LogOptions = OPTIONS) -> ParsedChunk:
    source = LineSource("broker=1/kafka-request.log", broker_id, 1)
    data = b"".join(line + b"\n" for line in lines)
    parsed, _ = parse_chunk(data, source, options, ChunkState(), is_last=True)
    assert parsed.lines_read == len(lines)
    assert parsed.lines_read == len(parsed.requests) + len(parsed.quarantine) + parsed.other
    return parsed


def reasons(parsed: ParsedChunk) -> list[tuple[int, str]]:
    rows = parsed.quarantine.to_pylist()
    return [(row["source_line"], row["reason"]) for row in rows]


def test_a_line_becomes_a_row_with_its_times_in_microseconds() -> None:
    (row,) = parse(GOOD).requests.to_pylist()
    assert row["log_time_ms"] == 1_795_228_847_903
    assert (row["handler_time_us"], row["remote_time_us"]) == (295, 77)
    assert row["recorded_estimate_us"] == 1_795_228_847_902_000
    assert (row["user"], row["principal"], row["client_id"]) == ("alice", "User:alice", "svc")
    assert (row["broker_id"], row["source_line"], row["throttle_time_ms"]) == (1, 1, 17)
    assert (row["request_bytes_known"], row["response_bytes"]) == (True, None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (GOOD[:400], "cut"),
        (GOOD[: GOOD.index(b"{")], "cut"),
        (GOOD[:300] + GOOD, "interleaved"),
        (GOOD.replace(b'"acks":1', b'"acks":'), "broken_json"),
        (GOOD.replace(b":alice", b":ali\xff"), "broken_json"),
        (GOOD.replace(b'"acks":1', b'"acks":"1"'), "unexpected_field"),
        (GOOD.replace(b'"correlationId":7', b'"correlationId":3000000000'), "unexpected_field"),
        (GOOD.replace(b'"sendTimeMs":0.045', b'"sendTimeMs":-1'), "unexpected_field"),
        (GOOD.replace(b"localTimeMs", b"localTime"), "unexpected_field"),
        (GOOD.replace(b'"throttleTimeMs":0', b'"throttleTimeMs":1e11'), "unexpected_field"),
        (GOOD.replace(b"errorCode", b"error"), "unexpected_field"),
        (GOOD.replace(b'"errorCode":0', b'"errorCode":null'), "unexpected_field"),
        (DELETED.replace(b'"errorCode":0,', b""), "unexpected_field"),
        (CREATED.replace(b'"name":"new",', b""), "unexpected_field"),
        (ALTERED.replace(b'"key":"producer_byte_rate",', b""), "unexpected_field"),
        (ALTERED.replace(b'"value":1000.0,', b""), "unexpected_field"),
        (GOOD.replace(b'"acks":1', b'"acks":1,"x":' + b"[" * 9000 + b"]" * 9000), "broken_json"),
        (b'{"log":' + b"[" * 9000 + b"]" * 9000 + b"}", "foreign"),
        (text_line(throttleTime="99999999999"), "unexpected_field"),
        (METADATA_TEXT.replace(b"ms=17", b"ms=9999999999"), "unexpected_field"),
        (GOOD.replace(b"2026-11-21", b"2026-13-21"), "bad_time"),
        (b"\xa9PNG nothing of Kafka's", "foreign"),
        (b'{"level":"info","msg":"hello"}', "foreign"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_line_that_cannot_be_read_is_kept_with_the_reason(line: bytes, reason: str) -> None:
    parsed = parse(GOOD, line, GOOD)
    assert reasons(parsed) == [(2, reason)]
    assert parsed.requests["source_line"].to_pylist() == [1, 3]


def test_lines_with_every_field_are_requests() -> None:
    parsed = parse(ALTERED, DELETED, CREATED, METADATA_TEXT)
    assert (len(parsed.requests), reasons(parsed)) == (4, [])


def test_lines_of_other_loggers_and_their_stack_traces_are_no_errors() -> None:
    trace = [b"java.io.IOException: Broken pipe", b"\tat java.base/java.lang.Thread.run(1)"]
    parsed = parse(GOOD, OTHER, *trace, b"", GOOD)
    assert (len(parsed.requests), parsed.other, reasons(parsed)) == (2, 4, [])


def test_a_broker_is_known_by_its_listener_where_the_path_does_not_say_it() -> None:
    elsewhere = log_line(message(connection="10.0.0.1:9092-10.0.0.2:5000-0"))
    parsed = parse(GOOD, elsewhere, broker_id=None)
    assert parsed.requests["broker_id"].to_pylist() == [4]
    assert reasons(parsed) == [(2, "unknown_broker")]


def test_a_null_client_id_stays_null() -> None:
    (row,) = parse(log_line(message(client_id=None))).requests.to_pylist()
    assert row["client_id"] is None


def test_a_long_line_is_kept_cut() -> None:
    topics = [{"name": f"topic-{i}", "partitionData": []} for i in range(500)]
    broken = log_line(message(request=PRODUCE | {"topicData": topics}))[:5000]
    (row,) = parse(broken).quarantine.to_pylist()
    assert broken.decode().startswith(row["text"])
    assert len(row["text"]) == 500


def test_the_hour_of_a_zone_is_taken_off() -> None:
    zoned = LogOptions(timezone="Europe/Berlin", prefix=None, listener_brokers={})
    (row,) = parse(GOOD, options=zoned).requests.to_pylist()
    assert row["log_time_ms"] == 1_795_228_847_903 - 3_600_000


def test_a_prefix_before_every_line_is_taken_off() -> None:
    prefixed = LogOptions(timezone="UTC", prefix=r"<\d+>\S+ kafka: ", listener_brokers={})
    parsed = parse(b"<14>host-1 kafka: " + GOOD, GOOD, options=prefixed)
    assert len(parsed.requests) == 2


def test_a_container_runtimes_envelope_is_taken_off_and_its_parts_joined() -> None:
    cri = b"2026-11-21T02:40:47.903111222Z stdout "
    parsed = parse(cri + b"F " + GOOD, cri + b"P " + GOOD[:200], cri + b"F " + GOOD[200:])
    assert len(parsed.requests) == 2
    assert parsed.other == 1


def test_a_part_whose_rest_never_came_is_quarantined() -> None:
    parsed = parse(GOOD, b"2026-11-21T02:40:47.903111222Z stdout P " + GOOD[:200])
    assert [reason for _, reason in reasons(parsed)] == ["cut"]


def test_a_line_longer_than_any_request_is_not_read_and_counts_as_one() -> None:
    long = GOOD.replace(b'"svc"', b'"%b"' % (b"x" * (LINE_BYTES_MAX - len(GOOD) + 3)))
    longer = long.replace(b"xxx", b"xxxx", 1)
    parsed = parse(long, longer, b"x" * (LINE_BYTES_MAX + 1), GOOD)
    assert (len(long), len(longer)) == (LINE_BYTES_MAX, LINE_BYTES_MAX + 1)
    assert parsed.requests["source_line"].to_pylist() == [1, 4]
    assert reasons(parsed) == [(2, "too_long"), (3, "too_long")]
    at_ms = parsed.requests["log_time_ms"][0].as_py()
    assert parsed.quarantine["log_time_ms"].to_pylist() == [at_ms, None]
    assert {len(text) for text in parsed.quarantine["text"].to_pylist()} == {500}


def test_parts_that_never_end_are_kept_up_to_the_longest_line() -> None:
    part = b"2026-11-21T02:40:47.903111222Z stdout P " + b"x" * (LINE_BYTES_MAX // 4)
    state, source = ChunkState(), LineSource("f", 1, 1)
    for _ in range(20):
        _, state = parse_chunk(part + b"\n", source, OPTIONS, state, is_last=False)
    assert [len(begin) for begin in state.envelope.parts.values()] == [LINE_BYTES_MAX + 1]
    end = part.replace(b" P ", b" F ") + b"\n"
    parsed, _ = parse_chunk(end, source, OPTIONS, state, is_last=True)
    assert [reason for _, reason in reasons(parsed)] == ["too_long"]


def test_only_the_streams_of_a_container_hold_parts() -> None:
    time = '"time":"2026-11-21T02:40:47Z"'
    lines = [f'{{"log":"x","stream":"s{i}",{time}}}'.encode() for i in range(50)]
    parsed = parse(*lines)
    assert (parsed.other, len(parsed.quarantine)) == (0, 50)


@given(
    st.lists(st.sampled_from([GOOD, OTHER, GOOD[:100], b"", b"\tat x", b" \r", b"?"]), max_size=30),
    st.lists(st.integers(0, 30), max_size=4),
)
def test_where_a_file_is_cut_into_blocks_changes_nothing(
    lines: list[bytes], cuts: list[int]
) -> None:
    source = LineSource("f", 1, 1)
    whole = parse(*lines)
    state, requests, quarantine, other, read = ChunkState(), [], [], 0, 0
    bounds = [0, *sorted(min(c, len(lines)) for c in cuts), len(lines)]
    for begin, end in itertools.pairwise(bounds):
        data = b"".join(line + b"\n" for line in lines[begin:end])
        source = LineSource("broker=1/kafka-request.log", 1, begin + 1)
        parsed, state = parse_chunk(data, source, OPTIONS, state, is_last=end == len(lines))
        requests += parsed.requests.to_pylist()
        quarantine += parsed.quarantine.to_pylist()
        other, read = other + parsed.other, read + parsed.lines_read
    assert requests == whole.requests.to_pylist()
    assert quarantine == whole.quarantine.to_pylist()
    assert (other, read) == (whole.other, whole.lines_read)
