"""An envelope around a log line comes off, its parts are joined, and anything else stays."""

from __future__ import annotations

import itertools
import json
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.ingest.lines.envelope import EnvelopeState, unwrap

LINE = b"[2026-11-21 03:26:45,230] DEBUG Completed request:{} (kafka.request.logger)"
TIME = b"2026-11-21T03:26:45.230123456Z"
SYSLOG = re.compile(rb"<\d+>\S+ kafka: ")


def cri(text: bytes, tag: bytes = b"F", stream: bytes = b"stdout", time: bytes = TIME) -> bytes:
    return b" ".join([time, stream, tag, text])


def docker(log: str, stream: str = "stdout") -> bytes:
    return json.dumps({"log": log, "stream": stream, "time": TIME.decode()}).encode()


def opened(*lines: bytes, prefix: re.Pattern[bytes] | None = None) -> list[bytes | None]:
    state = EnvelopeState()
    return [unwrap(line, state, prefix) for line in lines]


@pytest.mark.parametrize(
    "line",
    [
        LINE,
        b"",
        b"java.io.IOException: Broken pipe",
        b"\tat java.base/java.lang.Thread.run(1)",
        b"2026-11-21 03:26:45,230 DEBUG a layout without brackets",
        b"2026-11-21T03:26:45,230 stdout of a layout with T",
        b"2026-11-21T03:26:45.230Z stdin F no stream of a container",
        b"2026-11-21T03:26:45.230Z stdout X no tag",
        b'{"level":"info","msg":"hello"}',
        b'{"log":7,"stream":"stdout","time":"x"}',
        b'{"log":"cut',
        b'{"log":"\\ud800 alone\\n","stream":"stdout","time":"x"}',
        b"\xa9 \xff\x00",
    ],
)
def test_a_line_without_envelope_is_returned_as_it_is(line: bytes) -> None:
    assert opened(line) == [line]


@pytest.mark.parametrize(
    "time",
    [TIME, b"2026-11-21T03:26:45Z", b"2026-11-21T03:26:45.2+01:00", b"2026-11-21T03:26:45-03:30"],
)
def test_a_cri_envelope_comes_off(time: bytes) -> None:
    assert opened(cri(LINE, time=time)) == [LINE]


def test_a_cri_line_may_be_empty_and_have_more_tags() -> None:
    assert opened(cri(b""), TIME + b" stdout F", cri(LINE, tag=b"F:more")) == [b"", b"", LINE]


def test_cri_parts_are_joined_up_to_the_full_one() -> None:
    parts = [cri(LINE[:9], b"P"), cri(b"", b"P"), cri(LINE[9:30], b"P:x"), cri(LINE[30:])]
    assert opened(*parts, cri(LINE)) == [None, None, None, LINE, LINE]


def test_parts_of_two_streams_do_not_mix() -> None:
    lines = [
        cri(LINE[:9], b"P"),
        cri(b"error: ", b"P", b"stderr"),
        cri(b"no leader", b"F", b"stderr"),
        cri(LINE[9:]),
    ]
    assert opened(*lines) == [None, None, b"error: no leader", LINE]


def test_a_plain_line_between_parts_is_a_line_of_its_own() -> None:
    assert opened(cri(LINE[:9], b"P"), LINE, cri(LINE[9:])) == [None, LINE, LINE]


def test_a_docker_envelope_comes_off_with_its_escapes() -> None:
    text = 'clientId "a\\b" é 🚀'
    assert opened(docker(text + "\n")) == [text.encode()]


def test_docker_parts_are_joined_up_to_the_line_end() -> None:
    text = LINE.decode()
    lines = [docker(text[:9]), docker("error\n", "stderr"), docker(text[9:]), docker("\n")]
    assert opened(*lines) == [None, b"error", None, LINE]


def test_an_object_with_only_a_log_is_a_whole_line() -> None:
    assert opened(json.dumps({"log": LINE.decode()}).encode()) == [LINE]


@pytest.mark.parametrize(
    "line",
    [
        b"<14>host-1 kafka: " + LINE,
        b"<14>host-1 kafka: " + cri(LINE),
        cri(b"<14>host-1 kafka: " + LINE),
        docker("<14>host-1 kafka: " + LINE.decode() + "\n"),
        LINE,
    ],
    ids=["outside", "outside of CRI", "within CRI", "within Docker", "absent"],
)
def test_a_prefix_comes_off_outside_and_within_an_envelope(line: bytes) -> None:
    assert opened(line, prefix=SYSLOG) == [LINE]


def test_a_prefix_may_begin_like_a_plain_line() -> None:
    assert opened(b"[pod-1] " + LINE, prefix=re.compile(rb"\[[a-z0-9-]+\] ")) == [LINE]


def test_a_prefix_within_parts_comes_off_the_joined_line() -> None:
    text = b"<14>host-1 kafka: " + LINE
    assert opened(cri(text[:4], b"P"), cri(text[4:]), prefix=SYSLOG) == [None, LINE]


def test_a_prefix_that_matches_nothing_changes_nothing() -> None:
    assert opened(LINE, b"", prefix=re.compile(rb" *")) == [LINE, b""]


def test_what_never_ended_is_handed_out_once() -> None:
    state = EnvelopeState()
    unwrap(cri(LINE[:9], b"P"), state, None)
    unwrap(cri(LINE[9:20], b"P"), state, None)
    unwrap(cri(b"error", b"P", b"stderr"), state, None)
    assert list(state.unfinished()) == [LINE[:20], b"error"]
    assert list(state.unfinished()) == []


@given(st.binary(max_size=60).map(lambda b: b.replace(b"\n", b"")), st.lists(st.integers(0, 60)))
def test_however_a_line_is_cut_and_the_state_carried_it_is_joined_again(
    text: bytes, cuts: list[int]
) -> None:
    state = EnvelopeState()
    bounds = [0, *sorted(min(c, len(text)) for c in cuts)]
    for begin, end in itertools.pairwise(bounds):
        assert unwrap(cri(text[begin:end], b"P"), state, None) is None
        state = pickle.loads(pickle.dumps(state))
    assert unwrap(cri(text[bounds[-1] :]), state, None) == text
    assert state == EnvelopeState()
