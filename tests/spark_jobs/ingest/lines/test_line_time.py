"""A stamp of a log line is the moment at which the broker's clock showed it."""

from __future__ import annotations

import datetime as dt
import pickle
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.ingest.lines.line_time import STAMP, LineClock

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
LORD_HOWE = zoneinfo.ZoneInfo("Australia/Lord_Howe")  # its clocks change by half an hour
ZONES = [
    dt.UTC,
    BERLIN,
    LORD_HOWE,
    *map(
        zoneinfo.ZoneInfo,
        ("America/St_Johns", "Asia/Kathmandu", "Pacific/Apia", "Africa/Casablanca"),
    ),
]
MOMENT_MS = 1_795_231_605_230
# Berlin put its clocks back at 2026-10-25 01:00 UTC and forward at 2026-03-29 01:00 UTC.
BACK_MS = 1_792_890_000_000
MINUTE_MS = 60_000
moments_ms = st.integers(946_684_800_000, 2_145_916_800_000)  # 2000 to 2037


def stamp_of(epoch_ms: int, zone: dt.tzinfo = dt.UTC) -> bytes:
    """Return what a broker in ``zone`` prints at ``epoch_ms``."""
    seconds, ms = divmod(epoch_ms, 1000)
    shown = dt.datetime.fromtimestamp(seconds, zone)
    return f"{shown:%Y-%m-%d %H:%M:%S},{ms:03d}".encode()


@pytest.mark.parametrize(
    "stamp",
    [
        b"2026-11-21 03:26:45,230",
        b"2026-11-21T03:26:45,230",
        b"2026-11-21 03:26:45.230",
        b"2026-11-21T03:26:45.230",
        b"2026-11-21 03:26:45,230999",
        b"2026-11-21T03:26:45.230999999",
        b"20261121T032645,230",
        b"20261121 032645.230",
        b"20261121032645230",
        b"2026-11-21T03:26:45,230Z",
        b"2026-11-21T04:26:45,230+01",
        b"2026-11-20T23:56:45,230-0330",
        b"2026-11-21 09:11:45.230123+05:45",
    ],
)
def test_every_layout_of_log4j_means_the_same_moment(stamp: bytes) -> None:
    clock = LineClock(dt.UTC)
    assert [clock.epoch_ms(stamp), clock.epoch_ms(stamp)] == [MOMENT_MS, MOMENT_MS]
    for line in (b"[" + stamp + b"] DEBUG Completed", stamp + b" DEBUG Completed", stamp):
        found = STAMP.match(line)
        assert found is not None
        assert found[1] == stamp


def test_an_offset_in_the_stamp_counts_instead_of_the_time_zone() -> None:
    clock = LineClock(BERLIN)
    assert clock.epoch_ms(b"2026-11-21T03:26:45,230Z") == MOMENT_MS
    assert clock.epoch_ms(b"2026-11-21T03:26:45,230") == MOMENT_MS - 60 * MINUTE_MS


@pytest.mark.parametrize(
    "stamp",
    [
        b"",
        b"2026-11-21 03:26:45",
        b"2026-13-21 03:26:45,230",
        b"2026-02-29 03:26:45,230",
        b"2026-11-21 24:26:45,230",
        b"2026-11-21 03:60:45,230",
        b"2026-11-21 03:26:60,230",
        b"2026-11-21 03:26:45,23",
        b"2026-11-21 03:26:45,2300",
        b"2026-11-21 03:26: 5,230",
        b"2026-11-21 03:26:45,+23",
        b"2026-11-21 03:26:45;230",
        b"2026-11-21_03:26:45,230",
        b"0000-11-21 03:26:45,230",
        b"9999-12-31 23:59:00,000",
        b"[2026-11-21 03:26:45,230",
        b"\xd9\xa2026-11-21 03:26:45,230",
    ],
)
def test_what_is_no_stamp_has_no_time_and_does_no_harm(stamp: bytes) -> None:
    clock = LineClock(zoneinfo.ZoneInfo("America/New_York"))
    good = b"2026-11-21 03:26:45,230"
    before = clock.epoch_ms(good)
    assert clock.epoch_ms(stamp) is None
    assert clock.epoch_ms(good) == before == MOMENT_MS + 5 * 60 * MINUTE_MS


@pytest.mark.parametrize(
    "line",
    [
        b"at java.base/java.lang.Thread.run(1)",
        b"2026-11-21 03:26 DEBUG",
        b"[2026-11-21 03:26:45,2301] DEBUG",
        b'{"time":"2026-11-21 03:26:45,230"}',
    ],
)
def test_a_line_that_begins_with_no_stamp_is_told_apart(line: bytes) -> None:
    assert STAMP.match(line) is None


def test_a_skipped_hour_has_no_time() -> None:
    clock = LineClock(BERLIN)
    stamps = [b"2026-03-29 01:59:59,999", b"2026-03-29 02:00:00,000", b"2026-03-29 02:59:59,999"]
    last_ms = 1_774_745_999_999
    assert [clock.epoch_ms(s) for s in stamps] == [last_ms, None, None]
    assert clock.epoch_ms(b"2026-03-29 03:00:00,000") == last_ms + 1


def test_the_repeated_hour_is_told_apart_by_the_order_of_the_lines() -> None:
    clock = LineClock(BERLIN)
    stamps = [b"02:00:00,000", b"02:30:00,000", b"02:29:59,990", b"02:59:59,999"]
    stamps += [b"02:00:00,000", b"02:59:59,998", b"02:00:00,001", b"02:58:00,000", b"03:00:00,000"]
    first_ms = BACK_MS - 60 * MINUTE_MS
    assert [clock.epoch_ms(b"2026-10-25 " + s) for s in stamps] == [
        first_ms,
        first_ms + 30 * MINUTE_MS,
        first_ms + 30 * MINUTE_MS - 10,
        BACK_MS - 1,
        BACK_MS,
        BACK_MS - 2,  # a line of the first pass that came late
        BACK_MS + 1,
        BACK_MS + 58 * MINUTE_MS,
        BACK_MS + 60 * MINUTE_MS,
    ]


def test_within_the_second_pass_a_long_silence_stays_there() -> None:
    clock = LineClock(BERLIN)
    quiet = [b"2026-10-25 02:30:00,000", b"2026-10-25 02:01:00,000", b"2026-10-25 02:55:00,000"]
    found = [clock.epoch_ms(stamp) for stamp in quiet]
    assert found == [BACK_MS + m * MINUTE_MS for m in (-30, 1, 55)]


def test_a_file_that_begins_in_the_second_pass_needs_a_moment_before_it() -> None:
    stamp = b"2026-10-25 02:10:00,000"
    assert LineClock(BERLIN).epoch_ms(stamp) == BACK_MS - 50 * MINUTE_MS
    assert LineClock(BERLIN, after_ms=BACK_MS).epoch_ms(stamp) == BACK_MS + 10 * MINUTE_MS


@given(st.sampled_from(ZONES), moments_ms)
def test_a_stamp_means_what_the_time_zone_says(zone: dt.tzinfo, epoch_ms: int) -> None:
    shown = stamp_of(epoch_ms, zone)
    naive = dt.datetime.strptime(shown.decode() + "000", "%Y-%m-%d %H:%M:%S,%f")
    either = {round(naive.replace(tzinfo=zone, fold=f).timestamp() * 1000) for f in (0, 1)}
    found = LineClock(zone).epoch_ms(shown)
    assert found == min(either)
    assert epoch_ms in either


@given(
    st.sampled_from([(BERLIN, BACK_MS, 60), (LORD_HOWE, 1_775_314_800_000, 30)]),
    st.integers(-3 * 60 * MINUTE_MS, 0),
    st.lists(st.tuples(st.floats(0, 0.66), st.integers(0, 59_000)), max_size=40),
)
def test_lines_around_the_repeated_hour_get_the_moments_they_were_written_at(
    change: tuple[dt.tzinfo, int, int], begin: int, steps: list[tuple[float, int]]
) -> None:
    """Lines may be up to two thirds of the change apart and come a minute late."""
    zone, back_ms, change_minutes = change
    clock = LineClock(zone)
    # The first line is before the repeated hour, so that the file's place is known.
    now_ms = back_ms + begin - change_minutes * MINUTE_MS
    for share, late_ms in [(0.0, 0), *steps]:
        now_ms += int(share * (change_minutes * MINUTE_MS - 90_000))
        assert clock.epoch_ms(stamp_of(now_ms, zone)) == now_ms
        assert clock.epoch_ms(stamp_of(now_ms - late_ms, zone)) == now_ms - late_ms
        clock = pickle.loads(pickle.dumps(clock))


def test_many_minutes_do_not_fill_the_memory() -> None:
    clock = LineClock(dt.UTC)
    for minute in range(10_050):
        assert clock.epoch_ms(stamp_of(minute * MINUTE_MS)) == minute * MINUTE_MS
    assert len(pickle.dumps(clock)) < 400_000
