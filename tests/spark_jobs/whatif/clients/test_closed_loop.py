"""Clients that answer a policy: rules, and what holds whatever the log and the policy are."""

from __future__ import annotations

import math
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.whatif.clients.client_connection import Sending
from spark_jobs.whatif.clients.client_log import LoggedRequest, connection_log
from spark_jobs.whatif.clients.scenario import ClientSettings
from spark_jobs.whatif.policies.change import QuotaChanged
from spark_jobs.whatif.policies.decision import (
    ADMITTED,
    Decision,
    Held,
    Refusal,
    TopicDecision,
)
from spark_jobs.whatif.policies.kip13.kip13_refusing import Kip13ImmediateError
from spark_jobs.whatif.policies.request import TopicPart
from spark_jobs.whatif.policies.today.broker_client_quotas import BrokerBandwidth
from tests.spark_jobs.whatif.clients.client_requests import (
    PURE,
    REFUSED,
    Says,
    delays,
    fetched,
    in_turn,
    logged,
    replay_closed_loop,
)

TAKEN_BACK = Decision(delay_ms=1_000, held=Held.NEXT_REQUEST, is_taken_back=True)


def arrivals_ms(sendings: tuple[Sending, ...], connection: str = "c-1") -> list[float]:
    sent = [s.attempt for s in sendings if s.attempt.request.connection == connection]
    return [attempt.arrived_us / 1000 for attempt in sent]


def one(*requests: LoggedRequest) -> dict[str, list[LoggedRequest]]:
    return {"c-1": list(requests)}


def test_a_log_without_throttles_gives_back_itself() -> None:
    log = {
        "c-1": [logged(0.4), logged(10.9, service_ms=7), logged(18.5), logged(400)],
        "c-2": [logged(3, connection="c-2"), logged(5.1, connection="c-2")],
        "c-3": [logged(4, api_name="METADATA", connection="c-3")],
    }
    found = replay_closed_loop(Says(), log)
    for key, requests in log.items():
        assert arrivals_ms(found.sendings, key) == [r.arrived_us / 1000 for r in requests]
    assert [s.attempt.request for s in found.sendings if s.attempt.ask == 0] == [
        log["c-1"][0].request,
        log["c-2"][0].request,
        log["c-3"][0].request,
    ]


def test_throttles_as_logged_give_back_the_log() -> None:
    log = one(logged(0, throttle_ms=500), logged(501.5, throttle_ms=90), logged(600))
    found = replay_closed_loop(delays(500, 90), log)
    assert arrivals_ms(found.sendings) == [0, 501.5, 600]


def test_a_longer_throttle_moves_what_follows_on_its_connection_by_as_much_and_nothing_else() -> (
    None
):
    other = [logged(t, connection="c-2") for t in (1, 600, 700)]
    log = {"c-1": [logged(0, throttle_ms=500), logged(501), logged(540)], "c-2": other}
    found = replay_closed_loop(delays(530), log, settings=PURE)
    assert arrivals_ms(found.sendings) == [0, 531, 570]
    assert arrivals_ms(found.sendings, "c-2") == [1, 600, 700]


def test_without_the_throttle_of_the_log_it_is_sent_when_it_had_thought() -> None:
    log = one(logged(0, throttle_ms=500), logged(503, api_name="CREATE_TOPICS"))
    assert arrivals_ms(replay_closed_loop(Says(), log).sendings) == [0, 5]


def test_a_delay_shorter_than_the_answer_takes_holds_up_nobody() -> None:
    log = one(logged(0, service_ms=50), logged(60))
    assert arrivals_ms(replay_closed_loop(delays(40), log).sendings) == [0, 60]


def test_what_a_delay_holds_back() -> None:
    log = one(logged(0, service_ms=10), logged(15))
    expected = {
        Held.NEXT_REQUEST: (10, 100, 105),
        Held.RESPONSE: (100, 100, 105),
        Held.EXECUTION: (100, 100, 105),
        Held.READ: (110, 110, 115),
    }
    for held, (answered_ms, free_ms, next_ms) in expected.items():
        first, second = replay_closed_loop(delays(100, held=held), log, settings=PURE).sendings
        assert (first.answered_us, first.free_us) == (answered_ms * 1000, free_ms * 1000), held
        assert second.attempt.arrived_us == next_ms * 1000, held


def test_a_fetch_that_is_taken_back_is_asked_again_until_it_is_served() -> None:
    log = one(logged(0, api_name="FETCH"), logged(20, api_name="FETCH"))
    found = replay_closed_loop(in_turn([TAKEN_BACK, TAKEN_BACK]), log)
    assert arrivals_ms(found.sendings) == [0, 1_000, 2_000, 2_020]
    assert [s.admitted for s in found.sendings] == [0, 0, 100, 100]
    assert [s.attempt.number for s in found.sendings] == [0, 1, 2, 0]


def test_logged_attempts_of_a_throttled_fetch_are_one_fetch_of_the_size_that_was_served() -> None:
    log = one(
        logged(0, math.nan, api_name="FETCH", throttle_ms=1_000),
        logged(1_000, math.nan, api_name="FETCH", throttle_ms=500),
        fetched(1_500, 9_000),
        fetched(1_600, 10),
    )
    found = replay_closed_loop(Says(), log)
    assert [(s.attempt.arrived_us, s.admitted) for s in found.sendings] == [
        (0, 9_000),
        # Nothing tells that there was anything to read any sooner.
        (1_600_000, 10),
    ]


def test_what_an_attempt_had_not_read_yet_comes_with_the_next_fetch() -> None:
    log = one(
        logged(0, 400, api_name="FETCH", throttle_ms=1_000),
        logged(1_000, 700, api_name="FETCH", throttle_ms=500),
        fetched(1_500, 900),
        fetched(1_600, 600),
        fetched(1_700, 600),
    )
    as_it_was = replay_closed_loop(in_turn([TAKEN_BACK, TAKEN_BACK]), log)
    assert [s.attempt.request.amount for s in as_it_was.sendings] == [400, 700, 900, 600, 600]
    free = replay_closed_loop(Says(), log)
    # 500 are left of the first, and no fetch is larger than the largest of the log.
    assert [s.admitted for s in free.sendings] == [400, 900, 800]
    assert free.waiting == {"c-1": 0}
    longer = replay_closed_loop(in_turn([TAKEN_BACK] * 4), log)
    assert [s.attempt.request.amount for s in longer.sendings][:5] == [400, 700, 900, 900, 900]


def test_attempts_that_brought_nothing_in_the_log_bring_here_what_they_tried_to_read() -> None:
    log = one(
        logged(0, 400, api_name="FETCH", throttle_ms=1_000),
        logged(1_000, 300, api_name="FETCH", throttle_ms=500),
        logged(1_500, 16, api_name="FETCH"),
    )
    for taken_back in (0, 1, 2):
        found = replay_closed_loop(in_turn([TAKEN_BACK] * taken_back), log)
        assert sum(s.admitted for s in found.sendings) == 416
        assert len(found.sendings) == 2 + taken_back


def test_a_fetch_larger_than_a_window_is_cut_and_comes_in_parts() -> None:
    quota = {"user": "alice", "consumer_byte_rate": 100}
    log = one(fetched(0, 2_500), *(fetched(100_000 + i * 20_000, 10) for i in range(5)))
    found = replay_closed_loop(BrokerBandwidth.configured({"quotas": [quota]}), log)
    admitted = [s.admitted for s in found.sendings if s.admitted]
    assert admitted[:3] == [1_000, 1_000, 520]
    assert sum(admitted) == 2_550
    assert found.waiting == {"c-1": 0}


def test_a_refused_produce_is_sent_again_and_holds_up_what_follows() -> None:
    log = one(logged(0), logged(12))
    client = ClientSettings(retry_backoff_ms=50, fills_batches=False)
    found = replay_closed_loop(in_turn([REFUSED, REFUSED]), log, settings=client)
    assert arrivals_ms(found.sendings) == [0, 52, 104, 116]
    assert [s.admitted for s in found.sendings] == [0, 0, 100, 100]
    assert found.waiting == {"c-1": 0}


def test_after_the_last_retry_its_bytes_are_lost() -> None:
    found = replay_closed_loop(
        Says(lambda _: REFUSED), one(logged(0)), settings=ClientSettings(retries=2)
    )
    assert [s.lost for s in found.sendings] == [0, 0, 100]


def test_past_the_delivery_timeout_its_bytes_are_lost() -> None:
    client = ClientSettings(retry_backoff_ms=100, delivery_timeout_ms=250)
    found = replay_closed_loop(Says(lambda _: REFUSED), one(logged(0)), settings=client)
    assert arrivals_ms(found.sendings) == [0, 102, 204]
    assert [s.lost for s in found.sendings] == [0, 0, 100]


def test_a_retry_waits_for_the_throttle_that_came_with_the_error() -> None:
    refused = Decision(delay_ms=700, held=Held.NEXT_REQUEST, refusal=REFUSED.refusal)
    found = replay_closed_loop(in_turn([refused]), one(logged(0)))
    assert arrivals_ms(found.sendings) == [0, 800]


def test_without_acks_or_with_an_error_that_is_final_it_is_lost_at_once() -> None:
    final = Decision(refusal=Refusal("POLICY_VIOLATION", "never", is_retriable=False))
    without_acks = replay_closed_loop(in_turn([REFUSED]), one(logged(0, acks=0)))
    refused_for_good = replay_closed_loop(in_turn([final]), one(logged(0)))
    for found in (without_acks, refused_for_good):
        assert [s.lost for s in found.sendings] == [100]


def test_a_refused_fetch_loses_nothing_and_is_asked_for_without_end() -> None:
    found = replay_closed_loop(
        Says(lambda _: REFUSED),
        one(logged(0, api_name="FETCH")),
        settings=ClientSettings(retries=0),
        until_ms=1_000,
    )
    assert len(found.sendings) == 10
    assert sum(s.lost for s in found.sendings) == 0
    assert found.waiting == {"c-1": 100}


def test_only_the_topics_that_were_refused_are_sent_again() -> None:
    topics = (TopicPart("a", 75), TopicPart("b", 25))
    partly = Decision(
        topics=(TopicDecision("a", 75), TopicDecision("b", 25, REFUSED.refusal)),
    )
    found = replay_closed_loop(in_turn([partly]), one(logged(0, 200, topics=topics)))
    assert [s.admitted for s in found.sendings] == [150, 50]
    assert found.sendings[1].attempt.request.topics == (TopicPart("b", 25),)


def test_mutations_count_partitions_and_not_those_that_failed_for_their_own_reason() -> None:
    topics = (TopicPart("a", 6), TopicPart("b", 4, other_error_code=36), TopicPart("c", math.nan))
    log = one(logged(0, api_name="CREATE_TOPICS", topics=topics))
    assert [s.admitted for s in replay_closed_loop(Says(), log).sendings] == [6]


def test_pipelined_requests_keep_their_offset_whatever_becomes_of_the_one_before() -> None:
    first, second = logged(10, service_ms=20), logged(4, service_ms=20)
    slow = LoggedRequest(first.request, 0, service_us=30_000)
    log = one(slow, second, logged(40))
    found = replay_closed_loop(delays(0, 500), log, settings=PURE)
    assert sorted(arrivals_ms(found.sendings)) == [0, 4, 520]


def test_a_client_has_no_more_in_flight_than_in_the_log() -> None:
    pair = [logged(0, service_ms=10), logged(0, service_ms=10), logged(10, service_ms=10)]
    found = replay_closed_loop(delays(0, 300, held=Held.RESPONSE), one(*pair), settings=PURE)
    assert connection_log(pair).in_flight == 2
    assert arrivals_ms(found.sendings) == [0, 0, 300]


def test_a_muted_connection_is_not_read_whatever_the_log_has() -> None:
    log = one(logged(0, throttle_ms=5_000), *(logged(10 * i) for i in range(1, 5)))
    arrived = arrivals_ms(replay_closed_loop(delays(5_000), log, settings=PURE).sendings)
    assert arrived[1] == 4_998
    assert arrived == sorted(arrived)


def test_a_request_of_another_api_takes_its_time_and_is_not_decided_on() -> None:
    policy = Says()
    replay_closed_loop(policy, one(logged(0, api_name="METADATA"), logged(5)))
    assert [heard.at_ms for heard in policy.heard] == [5]


def test_a_change_holds_for_the_requests_of_its_own_millisecond() -> None:
    policy, change = Says(), QuotaChanged(5, "producer_byte_rate", "alice", None, 1.0)
    replay_closed_loop(policy, one(logged(0), logged(5)), [change])
    assert policy.heard[1] is change


def test_nothing_is_decided_at_the_end_of_the_replay_or_after_it() -> None:
    found = replay_closed_loop(Says(), one(logged(0), logged(5), logged(9)), until_ms=5)
    assert arrivals_ms(found.sendings) == [0]
    assert found.waiting == {"c-1": 200}


def test_an_empty_log_is_replayed_to_nothing() -> None:
    found = replay_closed_loop(Says(), {"c-1": []})
    assert (found.sendings, found.waiting) == ((), {"c-1": 0})


def test_a_policy_that_answers_with_errors_makes_clients_retry() -> None:
    config = {"quota.producer.default": "1000", "quota.window.size.seconds": 1}
    config |= {"quota.window.num": 2}
    log = one(*(logged(1_000 + 10 * i, 1_000) for i in range(8)))
    found = replay_closed_loop(Kip13ImmediateError.configured(config), log, settings=PURE)
    refused = [s for s in found.sendings if s.decision.refusal is not None]
    assert refused
    assert all(s.decision.refusal.error == "QUOTA_VIOLATED" for s in refused if s.decision.refusal)
    assert sum(s.admitted for s in found.sendings) == 8_000


DECISIONS = st.one_of(
    st.just(ADMITTED),
    st.builds(
        Decision,
        delay_ms=st.integers(1, 2_000),
        held=st.sampled_from([Held.READ, Held.EXECUTION, Held.RESPONSE, Held.NEXT_REQUEST]),
        refusal=st.sampled_from([None, REFUSED.refusal]),
    ),
    st.just(REFUSED),
)


@st.composite
def logs(draw: st.DrawFn) -> dict[str, list[LoggedRequest]]:
    log: dict[str, list[LoggedRequest]] = {}
    for key in ("c-1", "c-2"):
        at_us, requests = 0, list[LoggedRequest]()
        for _ in range(draw(st.integers(0, 8))):
            at_us += draw(st.integers(0, 60_000))
            api_name = draw(st.sampled_from(["PRODUCE", "PRODUCE", "FETCH", "METADATA"]))
            acks = draw(st.sampled_from([0, 1])) if api_name == "PRODUCE" else None
            amount = float(draw(st.integers(1, 5_000)))
            service_ms, throttle_ms = draw(st.integers(0, 40)), draw(st.sampled_from([0, 0, 30]))
            fields = {"connection": key, "acks": acks}
            args = (at_us / 1000, amount, service_ms, throttle_ms, api_name)
            requests.append(logged(*args, **fields))
        log[key] = requests
    return log


ANY_CLIENT = st.builds(
    ClientSettings,
    retries=st.integers(0, 3),
    retry_backoff_ms=st.integers(0, 200),
    delivery_timeout_ms=st.integers(0, 3_000),
    linger_ms=st.integers(0, 20),
    fills_batches=st.booleans(),
)


@settings(max_examples=150)
@given(
    logs(), st.lists(DECISIONS, max_size=12), ANY_CLIENT, st.just(math.inf) | st.integers(0, 600)
)
def test_whatever_happens(
    log: dict[str, list[LoggedRequest]],
    decisions: list[Decision],
    client: ClientSettings,
    until_ms: float,
) -> None:
    found = replay_closed_loop(in_turn(decisions), log, settings=client, until_ms=until_ms)
    again = replay_closed_loop(in_turn(decisions), log, settings=client, until_ms=until_ms)
    assert found == again
    got: defaultdict[str, float] = defaultdict(float)
    for sending in found.sendings:
        got[sending.attempt.request.connection] += sending.admitted + sending.lost
    for key, requests in log.items():
        asks = connection_log(requests).asks
        asked = sum(a.logged.request.amount for a in asks if _is_bytes(a.logged))
        assert asked == round(got[key] + found.waiting[key], 6)
        assert found.waiting[key] >= 0
        _check_order(key, requests, found.sendings)


def _is_bytes(request: LoggedRequest) -> bool:
    return request.request.api_name != "METADATA"


def _check_order(key: str, log: list[LoggedRequest], sendings: tuple[Sending, ...]) -> None:
    own = [s for s in sendings if s.attempt.request.connection == key]
    by_arrival = sorted(own, key=lambda s: s.attempt.arrived_us)
    first_tries = [s.attempt.ask for s in by_arrival if s.attempt.number == 0]
    assert first_tries == sorted(first_tries)
    in_flight = connection_log(log).in_flight
    for sending in own:
        at_us = sending.attempt.arrived_us
        overlapping = [s for s in own if s.attempt.arrived_us <= at_us < s.answered_us]
        assert len(overlapping) <= in_flight


@settings(max_examples=30)
@given(logs(), st.integers(1_000, 50_000), st.integers(1_000, 50_000))
def test_a_broker_quota_loses_nothing_and_serves_everything_in_the_end(
    log: dict[str, list[LoggedRequest]], produced: int, fetched: int
) -> None:
    quota = {"user": "alice", "producer_byte_rate": produced, "consumer_byte_rate": fetched}
    found = replay_closed_loop(BrokerBandwidth.configured({"quotas": [quota]}), log)
    assert sum(s.lost for s in found.sendings) == 0
    for key, requests in log.items():
        # What an attempt of a fetch left unread comes with the next fetch, if the log has one.
        if all(len(ask.attempts) == 1 for ask in connection_log(requests).asks):
            assert found.waiting[key] == 0
