"""A log of 1.0 or 1.1 is told from one of 2.0 by what its lines say of the broker."""

from __future__ import annotations

from spark_jobs.ingest.lines.chunk import (
    ChunkState,
    LineSource,
    LogOptions,
    parse_chunk,
)
from tests.builders.log_lines import log_line, message, text_line

API_VERSIONS = "apiKey=API_VERSIONS, apiVersion=1, clientId=svc, correlationId=7"


def knows_produce(version: int) -> bytes:
    keys = (
        f"{{api_key=0,min_version=0,max_version={version}}},"
        "{api_key=1,min_version=0,max_version=7}"
    )
    response = f"{{error_code=0,api_versions=[{keys}],throttle_time_ms=0}}"
    return text_line(API_VERSIONS, "{}", response)


def throttled(throttle_ms: int, spent: str) -> bytes:
    response = f"{{responses=[],throttle_time_ms={throttle_ms}}}"
    return text_line(response=response, throttleTime=spent)


def outcomes(*lines: bytes) -> str:
    """Return a letter per line: r for a request, b for one of a broker before 2.0."""
    data = b"".join(line + b"\n" for line in lines)
    options = LogOptions(timezone="UTC", prefix=None, listener_brokers={})
    parsed, _ = parse_chunk(data, LineSource("f", 1, 0), options, ChunkState(), is_last=True)
    letters = ["?"] * len(lines)
    for number in parsed.requests["source_line"].to_pylist():
        letters[number] = "r"
    for row in parsed.quarantine.to_pylist():
        assert row["reason"] == "before_2_0"
        letters[row["source_line"]] = "b"
    return "".join(letters)


def test_a_broker_that_knows_no_produce_6_is_older_than_2_0() -> None:
    assert outcomes(text_line(), knows_produce(5), text_line(), text_line()) == "rbbb"
    assert outcomes(text_line(), knows_produce(6), text_line()) == "rrr"


def test_a_broker_may_be_upgraded_in_the_middle_of_a_file() -> None:
    assert outcomes(knows_produce(5), text_line(), knows_produce(7), text_line()) == "bbrr"


def test_three_responses_in_a_row_that_waited_for_their_throttle_are_held() -> None:
    held = throttled(200, "201.5")
    assert outcomes(held, text_line(), held, held, text_line()) == "rrrbb"


def test_one_response_sent_at_once_shows_a_broker_since_2_0() -> None:
    held, sent = throttled(200, "201.5"), throttled(200, "0.3")
    assert outcomes(held, held, sent, held, held) == "rrrrr"


def test_2_6_prints_the_throttle_time_itself_without_decimals() -> None:
    assert outcomes(*[throttled(200, "200")] * 5) == "rrrrr"


def test_short_throttles_prove_nothing() -> None:
    assert outcomes(*[throttled(2, "33.105")] * 5) == "rrrrr"


def test_an_answer_that_names_no_versions_proves_nothing() -> None:
    refused = text_line(API_VERSIONS, "{}", "{error_code=35,api_versions=[]}")
    assert outcomes(knows_produce(5), refused, text_line()) == "bbb"
    assert outcomes(refused, text_line()) == "rr"


def test_json_lines_are_of_later_brokers_whatever_came_before() -> None:
    assert outcomes(knows_produce(5), log_line(message()), text_line()) == "brb"
