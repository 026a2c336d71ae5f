from __future__ import annotations

import datetime as dt
import zoneinfo

import numpy as np
import pytest

from spark_jobs.check.clock import (
    AGREES,
    BROKER_TIME,
    DIFFERS,
    ENVELOPE,
    FILE_TIME,
    HINTED,
    JOURNAL,
    MIXED,
    NOT_TOLD,
    ClockAnswer,
    ClockSign,
    clock_answer,
    has_offsets,
    pairs_of_brokers,
    set_back,
    signs_of_block,
)
from tests.builders.log_lines import PRODUCED, log_line, message, text_line

HOUR_MS = 3_600_000
# 2026-11-21 02:40:47 UTC
AT_MS = 1_795_228_847_903


def answer(signs: list[ClockSign], read_as: str = "UTC") -> ClockAnswer:
    return clock_answer(signs, read_as, has_offsets=False)


def signs(kind: str, broker_id: int, *apart_ms: int) -> list[ClockSign]:
    return [ClockSign(kind, broker_id, apart, AT_MS) for apart in apart_ms]


def test_where_nothing_tells_the_zone_nothing_is_guessed() -> None:
    found = answer([])
    assert (found.state, found.ahead_minutes, found.example) == (NOT_TOLD, {}, None)


def test_stamps_with_an_offset_need_no_zone() -> None:
    assert clock_answer([], "UTC", has_offsets=True).state == AGREES
    assert has_offsets(b"[2026-11-21T02:40:47,903+0100] DEBUG x\n")
    assert not has_offsets(b"[2026-11-21 02:40:47,903] DEBUG x\n")


def test_a_container_runtimes_own_time_tells_the_zone() -> None:
    line = b"2026-11-21T01:40:47.91Z stdout F " + log_line(message()) + b"\n"
    found = signs_of_block(line, 1, dt.UTC)
    assert [(s.kind, s.broker_id, s.apart_ms) for s in found] == [(ENVELOPE, 1, HOUR_MS + 903)]
    told = answer(found)
    assert (told.state, told.ahead_minutes, told.example) == (DIFFERS, {1: 60}, "Europe/Berlin")


def test_dockers_own_time_tells_the_zone() -> None:
    line = log_line("x").decode()
    docker = f'{{"log":"{line}\\n","stream":"stdout","time":"2026-11-21T02:40:47.904Z"}}\n'
    told = answer(signs_of_block(docker.encode(), 1, dt.UTC))
    assert (told.state, told.ahead_minutes) == (AGREES, {1: 0})


def test_the_append_time_in_a_produces_answer_tells_the_zone() -> None:
    part = PRODUCED["responses"][0]["partitionResponses"][0] | {"logAppendTimeMs": AT_MS - 4}
    answered = PRODUCED | {"responses": [{"name": "orders", "partitionResponses": [part]}]}
    line = log_line(message(response=answered), "2026-11-21 08:10:47,903") + b"\n"
    found = signs_of_block(log_line(message()) + b"\n" + line, 2, dt.UTC)
    assert [(s.kind, s.apart_ms) for s in found] == [(BROKER_TIME, 5 * HOUR_MS + HOUR_MS // 2 + 4)]
    assert answer(found).example == "Asia/Kolkata"
    right = signs_of_block(line, 2, zoneinfo.ZoneInfo("Asia/Kolkata"))
    assert answer(right, "Asia/Kolkata").state == AGREES


def test_the_append_time_of_the_text_format_is_seen_too() -> None:
    line = text_line(response=f"{{responses=[{{log_append_time={AT_MS}}}],throttle_time_ms=0}}")
    assert [s.apart_ms for s in signs_of_block(line + b"\n", 1, dt.UTC)] == [0]


def test_brokers_in_different_zones_are_told_apart() -> None:
    found = answer(signs(ENVELOPE, 1, 0, 5) + signs(ENVELOPE, 2, HOUR_MS, HOUR_MS))
    assert (found.state, found.ahead_minutes) == (MIXED, {1: 0, 2: 60})


def test_signs_that_do_not_agree_tell_nothing() -> None:
    apart = [0, HOUR_MS, 5 * HOUR_MS, 7 * 60_000]
    assert answer(signs(BROKER_TIME, 1, *apart)).state == NOT_TOLD


def test_files_last_written_with_their_last_lines_tell_the_zone() -> None:
    assert answer(signs(FILE_TIME, 1, -900, 0, -2_000)).state == AGREES
    assert answer(signs(FILE_TIME, 1, *[2 * HOUR_MS - 900] * 3)).ahead_minutes == {1: 120}


def test_two_files_are_an_accident_and_files_copied_later_prove_nothing() -> None:
    assert answer(signs(FILE_TIME, 1, 0, 0)).state == NOT_TOLD
    assert answer(signs(FILE_TIME, 1, *[-HOUR_MS] * 9)).state == NOT_TOLD


def test_a_file_written_hours_before_its_last_line_is_a_hint() -> None:
    found = answer(signs(FILE_TIME, 1, 47 * 60_000))
    assert (found.state, found.ahead_minutes) == (HINTED, {})
    assert "47 minutes" in found.sentences[0]


def test_a_journal_of_changes_tells_the_zone() -> None:
    assert answer(signs(JOURNAL, 1, -8 * HOUR_MS)).example == "America/Los_Angeles"


def test_things_that_two_brokers_logged_hours_apart_show_different_zones() -> None:
    told = [(thing, broker, AT_MS + broker * HOUR_MS) for thing in "ab" for broker in (2, 1)]
    pairs = pairs_of_brokers([*told, ("alone", 1, 0), ("twice", 1, 0), ("twice", 1, 5)])
    assert [(s.broker_id, s.apart_ms) for s in pairs] == [(2, HOUR_MS), (2, HOUR_MS)]
    assert answer(pairs).state == MIXED
    assert answer(pairs[:1]).state == NOT_TOLD


def test_stamps_that_go_back_an_hour_are_of_a_zone_with_summer_time() -> None:
    times = np.array([AT_MS, AT_MS - 30, AT_MS - HOUR_MS + 5, AT_MS - HOUR_MS + 9])
    assert [s.apart_ms for s in set_back(times, 1, None)] == [HOUR_MS - 35]
    assert [s.apart_ms for s in set_back(times[:1], 1, AT_MS + HOUR_MS)] == [HOUR_MS]
    at = dt.datetime(2026, 10, 25, 2, 59, 59, tzinfo=dt.UTC)
    back = ClockSign("set_back", 1, HOUR_MS, int(at.timestamp() * 1000))
    found = answer([back])
    assert found.state == HINTED
    assert "as in Europe/Berlin" in found.sentences[0]


def test_lines_of_a_skipped_hour_speak_against_the_zone() -> None:
    found = clock_answer([], "Europe/Berlin", has_offsets=False, skipped_lines=3)
    assert found.state == HINTED
    assert "3 lines" in found.sentences[0]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xff\x00\n", b"[", b'{"log":1}\n', b"[2026"])
def test_garbage_has_no_signs(data: bytes) -> None:
    assert signs_of_block(data, None, dt.UTC) == []
    assert not has_offsets(data)
