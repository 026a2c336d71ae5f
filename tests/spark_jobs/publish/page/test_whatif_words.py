from __future__ import annotations

from collections.abc import Sequence

import pytest

from spark_jobs.publish.facts.whatif import replays_of
from spark_jobs.publish.page.whatif_words import WhatifAnswer, answer
from tests.builders.tables_builder import Row
from tests.spark_jobs.publish.page.whatif_builder import delayed, quiet, refused, three_policies

HARM = {"harmed_requests": 1, "harm_time_ms": 100}


def answered(rows: Sequence[Row]) -> WhatifAnswer:
    return answer(rows, replays_of(rows, ["now", "strict", "lossy"]))


@pytest.mark.parametrize(
    ("rows", "title"),
    [
        ([], "No policy decided on anything"),
        ([quiet()], "Nothing is lost, and no client pays for others"),
        ([refused()], "Something is lost; no client pays for others"),
        ([delayed(**HARM)], "Clients pay for others; nothing is lost"),
        ([refused(**HARM)], "Something is lost, and clients pay for others"),
        (three_policies(), "Something is lost under 1 of 3 policies; no client pays for others"),
        (
            [quiet(), delayed(**HARM)],
            "Clients pay for others under 1 of 2 policies; nothing is lost",
        ),
        (
            three_policies(**HARM),
            "Something is lost under 1 of 3 policies, and clients pay for others under 3",
        ),
        (
            [refused(), quiet("lossy", mode="closed_loop")],
            "Something is lost under 1 of 2 replays; no client pays for others",
        ),
    ],
)
def test_the_title_says_what_is_lost_and_whether_clients_pay_for_others(
    rows: list[Row], title: str
) -> None:
    assert answered(rows).title == title


def test_each_kind_says_who_throttles_least_and_most_and_what_is_lost() -> None:
    assert answered(three_policies()).by_mode["as_logged"] == (
        "Produce: no throttle time under 'now' and 'lossy', up to 5 s under 'strict'; "
        "250 B lost under 'lossy'.",
    )


def test_one_policy_is_compared_with_nothing() -> None:
    rows = [delayed(), quiet("strict", kind="fetch")]
    assert answered(rows).by_mode["as_logged"] == (
        "Produce: throttle time 5 s.",
        "Fetch: nobody is throttled.",
    )


def test_policies_that_throttle_alike_are_not_ranked() -> None:
    (sentence,) = answered([delayed("now"), delayed("strict")]).by_mode["as_logged"]
    assert sentence == "Produce: throttle time 5 s under each policy."


def test_what_still_waits_is_told_the_most_first() -> None:
    rows = [
        quiet("now", mode="closed_loop", waiting=10.0, kind="mutation"),
        quiet("strict", mode="closed_loop", waiting=1.0, kind="mutation"),
        quiet("lossy", mode="closed_loop", waiting=30.0, kind="mutation"),
    ]
    (sentence,) = answered(rows).by_mode["closed_loop"]
    assert sentence.endswith(
        "; 30 partitions still waiting at the end under 'lossy', 10 partitions under 'now' "
        "and 1 partition under 'strict'."
    )


def test_modes_are_answered_apart() -> None:
    rows = [delayed("now", 1000), delayed("now", 400, mode="closed_loop")]
    assert answered(rows).by_mode == {
        "as_logged": ("Produce: throttle time 1 s.",),
        "closed_loop": ("Produce: throttle time 400 ms.",),
    }


def test_paying_for_others_is_told_by_policy() -> None:
    rows = [quiet("now"), delayed("strict", **HARM), refused("lossy", harmed_requests=1)]
    assert answered(rows).by_mode["as_logged"][-1] == (
        "Paying for others: under 'strict' 1 request of 1 client was delayed or refused, "
        "for 0.100 s, 2.0 % of all throttle time; under 'lossy' 1 request of 1 client was refused."
    )


def test_many_policies_are_counted_rather_than_named() -> None:
    rows = [quiet(f"p{n}") for n in range(6)] + [delayed("strict")]
    (sentence,) = answered(rows).by_mode["as_logged"]
    assert "under 'p0', 'p1', 'p2' and 3 more, up to" in sentence
