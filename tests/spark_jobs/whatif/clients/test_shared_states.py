from __future__ import annotations

from spark_jobs.whatif.clients.outcomes import SharedStates

NOISY, CALM = ("noisy", ""), ("calm", "")


def inside(states: SharedStates, client: tuple[str, str], amount: float, now_ms: int) -> bool:
    return states.is_inside("s", client, amount, bound=100.0, now_ms=now_ms)


def test_a_client_alone_in_a_state_has_no_neighbour_to_pay_for() -> None:
    states = SharedStates()
    assert not inside(states, CALM, 1.0, 0)
    assert not states.is_inside("other", NOISY, 1.0, bound=100.0, now_ms=0)


def test_a_share_is_the_bound_over_the_clients_of_the_last_ten_seconds() -> None:
    states = SharedStates()
    inside(states, NOISY, 900.0, 0)
    # 50 per second over ten seconds.
    assert inside(states, CALM, 500.0, 0)
    assert not inside(states, CALM, 1.0, 100)
    assert not states.is_inside("s", ("third", ""), 334.0, bound=100.0, now_ms=100)


def test_what_was_asked_for_ten_seconds_ago_counts_no_more() -> None:
    states = SharedStates()
    inside(states, CALM, 500.0, 0)
    inside(states, NOISY, 1.0, 9_000)
    assert not inside(states, CALM, 1.0, 9_999)
    assert inside(states, CALM, 499.0, 10_000)


def test_a_neighbour_of_ten_seconds_ago_shares_no_more() -> None:
    states = SharedStates()
    inside(states, NOISY, 1.0, 0)
    assert inside(states, CALM, 1.0, 9_999)
    assert not inside(states, CALM, 1.0, 10_000)


def test_without_a_bound_there_is_no_share() -> None:
    states = SharedStates()
    inside(states, NOISY, 1.0, 0)
    assert not states.is_inside("s", CALM, 0.0, bound=float("nan"), now_ms=0)


def test_states_and_amounts_that_are_over_are_forgotten() -> None:
    states = SharedStates()
    for second in range(100):
        states.is_inside(f"state {second}", CALM, 1.0, 1.0, second * 1000)
        states.is_inside("busy", CALM, 1.0, 1.0, second * 1000)
    assert len(states._clients) <= 21
    assert len(states._clients["busy"][CALM].cells) == 10
