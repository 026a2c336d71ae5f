from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.publish.page.report_page import (
    FINDINGS_MAX,
    PROPOSALS_MAX,
    THROTTLED_MAX,
    FirstPage,
    first_page,
)
from spark_jobs.publish.read_facts import gather
from spark_jobs.warehouse.scope import RunScope
from tests.builders.day_builder import (
    busy_day,
    decision,
    empty_day,
    quiet_day,
    throttled,
)
from tests.builders.tables_builder import row, write_rows


def page_of(scope: RunScope) -> FirstPage:
    return first_page(gather(scope))


def test_the_same_quota_on_several_brokers_is_one_line(tmp_path: Path) -> None:
    scope = busy_day(tmp_path)
    held = [throttled(n, 1000 * n, broker_id=n) for n in (1, 2)]
    write_rows(scope, "decisions", [*held, throttled(3, 500, quota_user="bob", user="bob")])
    first, second = page_of(scope).throttled
    assert (first.client, first.brokers, first.requests) == ("user 'alice'", "2 brokers", "2")
    assert first.delay == "3 s"
    assert (second.client, second.brokers) == ("user 'bob'", "broker 1")


def test_a_finding_comes_before_a_proposal_and_a_proposal_is_named_with_its_value(
    tmp_path: Path,
) -> None:
    scope = busy_day(tmp_path)
    (held,) = page_of(scope).throttled
    assert held.to_do.startswith("First see the finding: ")
    write_rows(scope, "findings", [row("findings", severity="info")])
    (held,) = page_of(scope).throttled
    assert held.to_do.startswith("Proposed: ")
    (sentence,) = page_of(scope).proposals
    assert held.to_do.removeprefix("Proposed: ").rstrip(".") in sentence


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"proposed": None}, "Proposed: remove the value."),
        ({"status": "keep"}, "The value fits as it is."),
        ({"status": "keep", "kind": "not_the_quota"}, "Another value would not mend it."),
        ({"status": "withheld"}, "A proposal is withheld: it failed on earlier days."),
        ({"status": "not_enough_data"}, "Not enough data for a proposal."),
        ({"quota_user": "somebody-else"}, "Nothing is proposed for it alone."),
    ],
)
def test_what_to_do_is_what_the_recommendation_says(
    tmp_path: Path, given: dict[str, str | None], said: str
) -> None:
    scope = busy_day(tmp_path)
    write_rows(scope, "findings", [])
    write_rows(scope, "recommendations", [row("recommendations", **given)])
    (held,) = page_of(scope).throttled
    assert held.to_do == said


def test_why_is_the_highest_peak_beside_its_quota(tmp_path: Path) -> None:
    scope = busy_day(tmp_path)
    peaks = [throttled(n, 1000, bound=50_000.0, rate=25_000.0 * n) for n in (3, 4)]
    write_rows(scope, "decisions", peaks)
    (held,) = page_of(scope).throttled
    assert held.why == "Peak 200 % of its quota (50 kB/s)."


def test_what_does_not_fit_is_counted(tmp_path: Path) -> None:
    scope = busy_day(tmp_path, clients=20)
    write_rows(scope, "findings", [row("findings", finding_id=f"f{n}") for n in range(9)])
    proposed = [row("recommendations", quota_user=f"tenant-{n}") for n in range(9)]
    write_rows(scope, "recommendations", proposed)
    page = page_of(scope)
    assert len(page.findings) + page.findings_left == 9
    assert len(page.throttled) + page.throttled_left == 20
    assert len(page.proposals) + page.proposals_left == 9
    shown = (len(page.findings), len(page.throttled), len(page.proposals))
    assert shown == (FINDINGS_MAX, THROTTLED_MAX, PROPOSALS_MAX)
    assert sum(number for _, number in page.severities) == 9


def test_no_text_is_longer_than_its_place(tmp_path: Path) -> None:
    page = page_of(busy_day(tmp_path, user="é" * 65_536))
    (held,) = page.throttled
    assert len(held.client) == 48
    assert max(map(len, [*(text for _, text in page.findings), *page.proposals])) <= 180


def test_what_could_not_be_checked_is_said_with_the_reasons(tmp_path: Path) -> None:
    scope = quiet_day(tmp_path)
    unknown = {"verdict": "indeterminate", "reason": "state_unknown"}
    write_rows(scope, "decisions", [decision(0), decision(1, **unknown)])
    first, *rest = page_of(scope).unchecked
    assert first == (
        "1 of 2 decisions (50 %): 1 because what the broker had already counted when the log "
        "began is not known."
    )
    assert rest == ["Tables that were not validated: after ingested, replayed, judged."]


def test_an_empty_day_says_that_there_was_nothing(tmp_path: Path) -> None:
    page = page_of(empty_day(tmp_path))
    assert page.unchecked[0] == "No decision was made under a quota."
    assert page.agreement.startswith("No produce was throttled")
    assert (page.findings, page.throttled, page.proposals) == ((), (), ())
