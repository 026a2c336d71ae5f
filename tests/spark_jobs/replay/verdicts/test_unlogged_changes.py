"""Decisions that another value of a quota explains from a moment on."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.replay.verdicts.unlogged_changes import (
    QuotaDecisions,
    UnloggedChange,
    unlogged_change,
)

TOLERANCE_MS = 5
# A capture of Kafka 4.1.0: the default of users was 18,080 B/s. Broker 1, the controller, wrote its
# last line at 109,213 ms and was up again at 116,275 ms. In between it had 9,100 B/s set, without a
# line of it. Decisions of broker 2: time, rate, window and logged throttle.
KNOWN, UNLOGGED = 18_080.0, 9_100.0
SILENT_FROM_MS, UP_MS = 109_213, 116_275
OF_DAVE = (
    (108_715, 23_293.7, 10_021, 2_890),
    (111_610, 6_358.4, 10_887, 0),
    (111_612, 8_478.6, 10_889, 0),
    (111_613, 10_957.8, 10_890, 2_224),
    (113_838, 11_505.6, 10_123, 2_677),
    (116_518, 12_093.1, 10_803, 3_555),
)
OF_ANONYMOUS = (
    (108_196, 24_810.0, 11_273, 4_196),
    (111_272, 12_554.3, 10_622, 4_033),
    (111_318, 12_585.7, 10_668, 4_087),
    (112_126, 12_754.7, 11_476, 4_610),
    (112_395, 11_776.5, 10_543, 3_101),
    (115_342, 8_279.9, 10_957, 0),
    (115_410, 8_745.1, 10_018, 0),
    (115_411, 13_607.0, 10_019, 4_963),
    (115_411, 13_667.5, 10_019, 5_029),
    (115_500, 13_950.1, 10_108, 5_388),
)
SOUND_BROKER = (*OF_DAVE, *OF_ANONYMOUS)


def decisions(
    rows: tuple[tuple[int, float, int, int], ...], *, broker_id: int = 2
) -> QuotaDecisions:
    """Return decisions (time, rate, window, logged throttle) as replayed by the known value."""
    at_ms, rate, window_ms, logged_ms = (np.array(column) for column in zip(*rows, strict=True))
    replayed_ms = np.rint(np.maximum((rate / KNOWN - 1.0) * window_ms, 0.0)).astype(np.int64)
    broker = np.full(len(rows), broker_id)
    return QuotaDecisions(broker, at_ms, rate, window_ms, logged_ms, replayed_ms)


def told(found: QuotaDecisions) -> UnloggedChange | None:
    """Return the unlogged change, a broker being down from SILENT_FROM_MS to UP_MS."""
    return unlogged_change(found, SILENT_FROM_MS, UP_MS, TOLERANCE_MS)


def test_what_another_value_explains_since_a_broker_went_down_is_an_unlogged_change() -> None:
    """All ten throttles are of the other value, and those that agree are older, or of both."""
    found = told(decisions(SOUND_BROKER))
    assert found is not None
    assert math.isclose(found.bound, UNLOGGED, rel_tol=0.001)
    assert np.count_nonzero(found.decisions) == 10
    assert (decisions(SOUND_BROKER).recorded_at_ms[found.decisions] > SILENT_FROM_MS).all()


def test_a_quota_that_was_removed_throttles_nobody_since() -> None:
    """An infinite value is that of none."""
    since = tuple((at, rate * 3, window, 0) for at, rate, window, _ in SOUND_BROKER[6:])
    found = told(decisions((SOUND_BROKER[0], *since[1:])))
    assert found is not None
    assert found.bound == math.inf


def test_throttles_of_several_values_are_no_unlogged_change() -> None:
    """A broker that throttles as it likes is accused, whichever broker went down."""
    odd = tuple(
        (at, rate, window, logged * (n + 2))
        for n, (at, rate, window, logged) in enumerate(OF_ANONYMOUS[1:])
    )
    assert told(decisions((OF_ANONYMOUS[0], *odd))) is None


def test_what_was_so_before_the_broker_went_down_is_no_unlogged_change() -> None:
    """A value that explains the throttles of before as well was not set meanwhile."""
    before = tuple((at - 60_000, *others) for at, *others in SOUND_BROKER[1:])
    assert told(decisions((*before, *SOUND_BROKER))) is None


def test_a_broker_that_keeps_to_the_known_value_denies_the_change() -> None:
    """A change is in force everywhere: what one broker keeps to, no other one was told to leave."""
    others = tuple((UP_MS + 100 * n, 23_293.7, 10_021, 2_890) for n in range(10))
    ours, theirs = decisions(OF_ANONYMOUS), decisions(others, broker_id=3)
    both = QuotaDecisions(
        *(
            np.concatenate((getattr(ours, name), getattr(theirs, name)))
            for name in QuotaDecisions.__dataclass_fields__
        )
    )
    assert told(ours) is not None
    assert told(both) is None


RATES = st.lists(st.floats(2_000.0, 60_000.0), min_size=1, max_size=30)


@given(RATES, st.floats(3_000.0, 50_000.0), st.integers(9_001, 11_999))
def test_decisions_by_one_other_value_are_always_explained(
    rates: list[float], value: float, window_ms: int
) -> None:
    """Whatever the value, and the rates, no decision of a sound broker is left unexplained."""
    throttles = [round(max((rate / value - 1.0) * window_ms, 0.0)) for rate in rates]
    rows = tuple(
        (SILENT_FROM_MS + 50 * n, rate, window_ms, throttle)
        for n, (rate, throttle) in enumerate(zip(rates, throttles, strict=True))
    )
    made = decisions(rows)
    found = told(made)
    is_off = made.differs(2 * TOLERANCE_MS)
    assert found is not None or not is_off.any()
    assert found is None or found.decisions[is_off].all()
