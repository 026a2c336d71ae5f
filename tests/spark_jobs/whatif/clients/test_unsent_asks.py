"""A client that never caught up wanted its pace until the end; one that did, what it sent."""

from __future__ import annotations

import math

import pytest

from spark_jobs.whatif.clients.client_log import ConnectionLog, LoggedRequest, connection_log
from spark_jobs.whatif.clients.client_pace import UNSENT_MAX, with_unsent
from spark_jobs.whatif.clients.scenario import ClientSettings
from tests.spark_jobs.whatif.clients.client_requests import (
    Says,
    fetched,
    logged,
    replay_closed_loop,
)

STEADY = [logged(100 * i, 1_000) for i in range(31)]
THROTTLED = logged(3_100, 1_000, throttle_ms=2_000)


def added(log: list[LoggedRequest]) -> list[tuple[float, float]]:
    """Return when each request that is added comes, and its bytes."""
    before: ConnectionLog = connection_log(log)
    after = with_unsent(before)
    assert after.asks[: len(before.asks)] == before.asks
    return [
        (ask.arrived_us / 1000, ask.logged.request.amount) for ask in after.asks[len(before.asks) :]
    ]


def test_until_its_last_throttle_is_over_it_wants_its_pace() -> None:
    # 10 bytes a millisecond, for 2 s.
    found = added([*STEADY, THROTTLED])
    assert sum(amount for _, amount in found) == pytest.approx(20_000, abs=1_000)
    assert found[0] == pytest.approx((3_200, 1_000), rel=0.01)
    assert found[-1][0] <= 5_100


def test_what_was_sent_late_is_not_wanted_twice() -> None:
    late = [logged(5_100 + i, 4_000, throttle_ms=900 * (i == 1)) for i in range(2)]
    found = added([*STEADY, THROTTLED, *late])
    # From 3.1 s to 6.0 s: 29 000 bytes, of which 8 000 were sent.
    assert sum(amount for _, amount in found) == pytest.approx(21_000, abs=4_000)
    assert {amount for _, amount in found} == {4_000}


def test_who_caught_up_has_sent_all_that_it_wanted() -> None:
    caught_up = [logged(5_100, 20_000), *(logged(5_200 + 100 * i, 1_000) for i in range(9))]
    assert added([*STEADY, THROTTLED, *caught_up]) == []
    assert added(STEADY) == []
    assert added([]) == []


def test_a_consumer_reads_on_as_well() -> None:
    read = [fetched(100 * i, 1_000) for i in range(31)]
    tried = logged(3_100, 1_000, throttle_ms=2_000, api_name="FETCH")
    found = added([*read, tried])
    assert sum(amount for _, amount in found) == pytest.approx(20_000, abs=1_000)


def test_one_slow_answer_does_not_make_the_rest_slow() -> None:
    slow = logged(0, 1_001, service_ms=90)
    after = with_unsent(connection_log([slow, *STEADY[1:], THROTTLED]))
    assert {ask.logged.service_us for ask in after.asks[len(STEADY) + 1 :]} == {2_000}


def test_where_nothing_tells_a_pace_or_a_size_nothing_is_added() -> None:
    assert added([logged(0, 1_000, throttle_ms=5_000)]) == []
    assert added([*STEADY[:2], logged(3_100, math.nan, throttle_ms=2_000)]) == []


def test_a_long_wait_adds_no_more_than_so_many_times_the_log() -> None:
    found = added([*STEADY, logged(3_100, 1_000, throttle_ms=10**8)])
    assert len(found) == UNSENT_MAX * (len(STEADY) + 1)


@pytest.mark.parametrize(("keeps_wanting", "sent"), [(False, 33_000), (True, 52_000)])
def test_clients_that_are_set_to_keep_wanting_do_until_they_are_gone(
    keeps_wanting: bool, sent: int
) -> None:
    settings = ClientSettings(keeps_wanting=keeps_wanting)
    log = {"c-1": [*STEADY, THROTTLED, logged(5_100, 1_000)]}
    found = replay_closed_loop(Says(), log, settings=settings)
    assert sum(s.admitted for s in found.sendings) == pytest.approx(sent, abs=1_000)
