from __future__ import annotations

import msgspec
import pytest
from scipy.stats import binom

from spark_jobs.score.agreement import Tally
from tests.fleet.fleet_figures import has_too_many_failed, limits, totals, upper_bound
from tests.fleet.run_score import Accusation, AccusingFinding, Run, RunScore

ACCUSATION = Accusation(
    broker_id=1, quota_type="producer_byte_rate", quota_user="alice", quota_client_id="",
    source_file="broker=1/kafka-request.log.gz", source_line=7, log_time_ms=0, bound=1000.0,
    amount=10.0, logged_throttle_time_ms=0, replayed_throttle_time_ms=90, logged_admitted=True,
    replayed_admitted=None, verdict="under_throttled", reason=None, is_proven=True,
)  # fmt: skip
FINDING = AccusingFinding(
    severity="warning", kind="state_lost", broker_id=1, quota_type="producer_byte_rate",
    quota_user="alice", quota_client_id="", hypothesis="state_lost", explanation="…", wrong=0,
)  # fmt: skip
GOOD = RunScore(
    run=Run("1", "4.1.0", "combined"),
    produces=Tally(decisions=1000, agreeing=1000, throttled=100, within_1ms=100),
    mutations=Tally(decisions=20, agreeing=20),
    verdicts={
        "producer_byte_rate": {"agree": 990, "indeterminate": 10},
        "controller_mutation_rate": {"agree": 20},
    },
    undecided={"producer_byte_rate": {"sample_timing": 10}},
    missing=0,
    accusations=(),
    findings=(),
)


def changed(**fields: object) -> RunScore:
    return msgspec.structs.replace(GOOD, **fields)


def missed(*scores: RunScore) -> list[str]:
    return [one.demand for one in limits(scores) if not one.is_kept]


def test_runs_without_a_fault_keep_every_limit() -> None:
    assert missed(GOOD, GOOD, GOOD) == []


@pytest.mark.parametrize(
    ("score", "demand"),
    [
        (changed(findings=(FINDING,)), "0 findings of warning or critical"),
        (changed(accusations=(ACCUSATION,)), "at most 1 decision called wrong in a million"),
    ],
)
def test_one_accusation_is_one_too_many_and_is_told_as_such(score: RunScore, demand: str) -> None:
    (found,) = [one for one in limits([GOOD, score]) if not one.is_kept]
    assert (found.demand, found.is_of_accusations) == (demand, True)


@pytest.mark.parametrize(
    ("score", "demand"),
    [
        (changed(mutations=Tally(decisions=20, agreeing=19)), "mutations replayed right: all"),
        (
            changed(produces=Tally(decisions=1000, agreeing=994)),
            "decisions agree on 0.995 in all runs",
        ),
    ],
)
def test_one_run_in_twenty_misses_what_holds_for_all(score: RunScore, demand: str) -> None:
    assert missed(*[GOOD] * 19, score) == [demand]


def test_a_tenth_of_the_runs_may_be_worse_and_no_more() -> None:
    worse = changed(
        produces=Tally(decisions=1000, agreeing=998, throttled=100, within_1ms=94),
    )
    assert missed(*[GOOD] * 9, worse) == []
    assert missed(*[GOOD] * 8, worse, worse) == [
        "decisions agree on 0.999 in nine of ten runs",
        "throttles are within 1 ms on 0.95 in nine of ten runs",
    ]


def test_the_median_run_must_give_98_of_100_throttles() -> None:
    at_97 = changed(produces=Tally(decisions=1000, agreeing=1000, throttled=100, within_1ms=97))
    assert missed(GOOD, at_97, at_97) == ["throttles are within 1 ms on 0.98 in the median run"]


def test_a_fleet_that_judged_nothing_proves_nothing() -> None:
    nothing = changed(verdicts={}, produces=Tally(), mutations=Tally())
    assert missed() == missed(nothing) == ["decisions were judged"]


def test_what_was_not_judged_does_not_thin_out_the_rate() -> None:
    total = totals([changed(accusations=(ACCUSATION,)), GOOD])
    assert (total.decisions, total.decided, total.wrong) == (2040, 2020, 1)
    assert total.wrong_per_million == pytest.approx(1e6 / 2020)


@pytest.mark.parametrize(("events", "tries"), [(0, 10), (1, 5_000_000), (7, 1000)])
def test_no_larger_rate_gives_so_few_with_more_than_5_percent(events: int, tries: int) -> None:
    bound = upper_bound(events, tries)
    assert binom.cdf(events, tries, bound) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("failed", "runs", "is_too_many"),
    [(0, 3, False), (1, 3, False), (2, 3, True), (8, 80, False), (9, 80, True)],
)
def test_a_tenth_of_the_runs_may_fail(failed: int, runs: int, is_too_many: bool) -> None:
    assert has_too_many_failed(failed, runs) is is_too_many
