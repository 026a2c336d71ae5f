"""What an owner of a client reads: each decision of whole days explained with equal arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.explain.decision_steps import BucketSteps, RateSteps
from spark_jobs.explain.explanation import DecisionHistory, Explanation, explanation, logged_lines
from spark_jobs.wording.numbers import duration
from tests.builders import day_builder
from tests.builders.tables_builder import NOON_MS, Row, row
from tests.spark_jobs.recommend.day import fetches, mutations, produces, steady

BROKER = row("brokers", broker_id=1)
BUSY = produces(steady(80_000.0, 40), 50_000.0, waits=True)
READING = fetches(steady(80_000.0, 40, per_second=5), 50_000.0)
CREATING = mutations([(i * 500, 4.0) for i in range(60)], 3.0)


def history(rows: list[Row], i: int, **more: Any) -> DecisionHistory:
    return DecisionHistory(rows[i], BROKER, None, rows[:i], more.get("proposals", []))


def explained(rows: list[Row], i: int, **more: Any) -> Explanation:
    return explanation([history(rows, i, **more)])


def text(found: Explanation) -> str:
    return "\n".join([found.headline, found.outcome, *found.sections[0].lines])


@pytest.mark.parametrize("rows", [BUSY, READING, CREATING])
def test_every_decision_of_a_day_is_explained(rows: list[Row]) -> None:
    assert any(r["replayed_throttle_time_ms"] for r in rows)
    for i, decision in enumerate(rows):
        steps = explained(rows, i).sections[0].steps
        assert steps is not None, i
        assert steps.throttle_time_ms == decision["replayed_throttle_time_ms"]


def test_a_throttled_produce_reads_as_arithmetic() -> None:
    i = next(i for i, r in enumerate(BUSY) if r["replayed_throttle_time_ms"] > 500)
    found = explained(BUSY, i)
    steps = found.sections[0].steps
    assert isinstance(steps, RateSteps)
    said = text(found)
    assert found.headline.startswith("PRODUCE of user 'alice', client-id 'app' to broker 1, 2026-")
    assert f"It was throttled for {duration(steps.throttle_time_ms)}: the broker read" in said
    assert "Quota: 50,000 B/s for user 'alice' (set by name, level user)." in said
    assert "the bytes produced by user 'alice', whatever the client-id." in said
    assert f"  {steps.total:,.0f} bytes" in said
    assert f"/ 50,000 × {steps.window_size_ms:,} ms = {steps.throttle_time_ms:,} ms." in said
    assert f"The log has a throttle of {steps.throttle_time_ms:,} ms: as configured." in said
    assert "bytes less in the " in said


def test_what_was_not_throttled_says_why_not_and_advises_nothing() -> None:
    said = text(explained(BUSY, 0))
    assert "It was not throttled." in said
    assert "Rate: 8,000 / 10 s = 800, not above the quota of 50,000." in said
    assert "less in the" not in said


def test_a_throttled_fetch_is_said_to_be_taken_back() -> None:
    i = next(i for i, r in enumerate(READING) if r["is_unrecorded"])
    assert "its bytes were taken off the sum again" in text(explained(READING, i))


def test_a_refused_mutation_reads_as_a_bucket() -> None:
    i = next(i for i, r in enumerate(CREATING) if not r["logged_admitted"])
    found = explained(CREATING, i)
    steps = found.sections[0].steps
    assert isinstance(steps, BucketSteps)
    said = text(found)
    assert "It was refused, to be tried again after" in said
    assert "refills by 3 a second, up to 33 partitions" in said
    assert f"/ 3 s = {steps.throttle_time_ms:,} ms." in said


def test_a_state_that_does_not_lead_to_the_replay_is_not_shown() -> None:
    wrong = [r | {"amount": r["amount"] * 2} for r in BUSY[:50]]
    found = explanation([DecisionHistory(BUSY[50], BROKER, None, wrong, [])])
    assert found.sections[0].steps is None
    assert "not known well enough" in text(found)


def test_the_state_of_the_day_before_counts() -> None:
    carried = {
        "sample_index": 0,
        "samples": [{"start_ms": NOON_MS - 2_000, "last_event_ms": NOON_MS - 1_500, "value": 9e5}],
        "last_update_ms": None,
    }
    late = BUSY[0] | {"rate": 0.0, "window_size_ms": 10_000}
    without = explanation([DecisionHistory(late, BROKER, None, [], [])])
    assert without.sections[0].steps is None
    right = late | {"rate": (9e5 + 8_000) / 10.0, "window_size_ms": 10_000}
    found = explanation([DecisionHistory(right, BROKER, carried, [], [])])
    steps = found.sections[0].steps
    assert isinstance(steps, RateSteps)
    assert steps.total == 9e5 + 8_000


def test_names_are_shown_safe_and_recommendations_are_quoted() -> None:
    hostile = [r | {"client_id": "a\u202eb\n"} for r in BUSY]
    i = next(i for i, r in enumerate(BUSY) if r["replayed_throttle_time_ms"])
    proposal = row("recommendations", proposed=100_000.0, reason="Throttled 9 times.")
    said = text(explained(hostile, i, proposals=[proposal]))
    assert "client-id 'a\\u202eb\\n'" in said
    assert (
        "Ask who runs the cluster: the audit proposes 100,000 B/s for user 'alice'. "
        "Throttled 9 times." in said
    )


def test_both_quotas_of_a_request_are_sections() -> None:
    other = BUSY[0] | {"quota_type": "request_percentage", "bound": None, "rate": None}
    found = explanation([history(BUSY, 0), DecisionHistory(other, BROKER, None, [], [])])
    assert [section.quota_type for section in found.sections] == [
        "producer_byte_rate",
        "request_percentage",
    ]
    assert found.sections[1].lines == ("No quota was in force.",)


def test_what_agrees_by_what_is_likely_only_says_so() -> None:
    likely = day_builder.decision(0, quota_type="request_percentage", reason="likely_request_time")
    (said,) = logged_lines(likely)
    assert said.startswith("The log has a throttle of 0 ms: as configured: the time of network")
    assert "likely" in said
