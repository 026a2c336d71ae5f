from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quota_pages.addresses import entity_id
from quota_pages.recommendations_page import ROWS_PER_PAGE, recommendations_page
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import RECOMMENDATION_STATUSES
from tests.builders.tables_builder import Row, row, scope_in, write_rows
from tests.plugins.quota_pages.page_checks import HOSTILE, LONG, Page, here, place_of

NOTHING_PROPOSED = {"proposed": None, "lower": None, "upper": None}
KEPT = {"status": "keep", "kind": None, "reason": "It fits.", **NOTHING_PROPOSED}


def proposal(user: str | None = "alice", **overrides: Any) -> Row:
    return row("recommendations", quota_user=user, **overrides)


def day(tmp_path: Path, *proposals: Row, seen: tuple[tuple[str, str], ...] = ()) -> RunScope:
    scope = scope_in(tmp_path)
    write_rows(scope, "files", [row("files")])
    write_rows(scope, "recommendations", list(proposals))
    demand = [row("demand", quota_user=user, quota_client_id=name) for user, name in seen]
    write_rows(scope, "demand", demand)
    return scope


def shown(scope: RunScope, q: str = "", page: int = 1) -> Page:
    return Page(recommendations_page(place_of(scope), scope, q, page))


def many(number: int) -> list[Row]:
    """Return proposals whose throttle time falls with their number."""
    return [
        proposal(f"tenant-{n:04}", throttle_time_ms_before=10_000_000 - n) for n in range(number)
    ]


def users(page: Page) -> list[str]:
    return [
        cells[0].removeprefix("user '").removesuffix("'")
        for number in range(page.count("table"))
        for cells in page.table(number)
        if cells[0].startswith("user '")
    ]


def test_a_day_that_was_not_audited_has_no_page(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    assert recommendations_page(place_of(scope), scope) is None


def test_a_day_without_recommendations_says_how_to_make_them(tmp_path: Path) -> None:
    page = shown(day(tmp_path))
    assert page.count("table") == 0
    assert "quota-audit recommend --warehouse" in page.text
    assert "quota-audit apply" not in page.text


def test_a_proposal_says_what_changes_how_sure_it_is_and_why(tmp_path: Path) -> None:
    evidence = json.dumps({"requests": 1200})
    page = shown(
        day(
            tmp_path,
            proposal(clamped_by="max_raise", backtest_trials=4, backtest_kept=3, evidence=evidence),
        )
    )
    head, cells, why = page.table(0)
    assert head == [
        "Quota of",
        "Quota",
        "Now",
        "Proposed",
        "Enough is",
        "Throttled with it",
        "Confidence",
    ]
    assert cells == [
        "user 'alice'",
        "producer_byte_rate raise",
        "50 kB/s",
        "100 kB/s +100 %",
        "80 kB/s to 120 kB/s",
        "0 ms instead of 40 s",
        "high limited by max raise kept on 3 of 4 earlier days",
    ]
    assert "Throttled for 40 s" in why[0]
    assert "Sized on broker 1." in why[0]
    assert "requests 1,200" in why[0]
    assert "<details><summary>Evidence" in page.source


def test_changes_come_first_and_what_stays_is_folded_away(tmp_path: Path) -> None:
    page = shown(
        day(
            tmp_path,
            proposal("e", **KEPT | {"status": "not_enough_data"}),
            proposal("d", **KEPT),
            proposal("c", status="withheld", reason="It failed on earlier days."),
            proposal("b", **KEPT | {"kind": "not_the_quota"}),
            proposal("a"),
        )
    )
    assert users(page) == ["a", "b", "c", "d", "e"]
    folded = [attrs for tag, attrs in page.tags if tag == "details" and "id" in attrs]
    assert folded == [{"id": "withheld"}, {"id": "keep"}, {"id": "not_enough_data"}]
    assert "It failed on earlier days." in page.text


def test_every_status_stands_in_a_group_of_its_own(tmp_path: Path) -> None:
    given = [proposal(status, **KEPT | {"status": status}) for status in RECOMMENDATION_STATUSES]
    assert shown(day(tmp_path, *given)).count("table") == len(RECOMMENDATION_STATUSES)


def test_a_status_that_nobody_knows_is_shown_all_the_same(tmp_path: Path) -> None:
    assert users(shown(day(tmp_path, proposal("a", **KEPT | {"status": "new"})))) == ["a"]


def test_a_value_that_goes_is_said_and_so_is_the_option_that_allows_it(tmp_path: Path) -> None:
    page = shown(day(tmp_path, proposal(kind="reclaim", **NOTHING_PROPOSED)))
    assert page.table(0)[1][3] == "none remove it"
    assert "--allow-delete" in page.text
    assert "--allow-delete" not in shown(day(tmp_path, proposal())).text


def test_the_commands_name_this_warehouse_cluster_and_day(tmp_path: Path) -> None:
    folder = tmp_path / "of a 'team"
    page = shown(day(folder, proposal()))
    quoted = "'" + str(folder).replace("'", "'\"'\"'") + "'"
    assert f"quota-audit apply --warehouse {quoted} --cluster default --day" in page.text
    assert "quota-audit render --target strimzi --warehouse" in page.text
    assert "nothing is changed without --execute" in page.text


def test_files_are_linked_to_where_there_are_any(tmp_path: Path) -> None:
    scope = day(tmp_path, proposal())
    assert not any("/reports/" in link for link in shown(scope).links)
    folder = scope.output_dir("reports")
    folder.mkdir(parents=True)
    (folder / "apply.sh").write_text("#!/bin/sh\n")
    assert [link for link in shown(scope).links if "/reports/" in link] == [
        "/quota-audit/reports/default/2026-11-10/apply.sh"
    ]


def test_a_client_with_traffic_is_linked_to(tmp_path: Path) -> None:
    scope = day(tmp_path, proposal("alice"), proposal("gone"), seen=(("alice", ""),))
    links = [link for link in shown(scope).links if "/entities/" in link]
    assert links == [here(f"entities/{entity_id('alice', '')}?quota_type=producer_byte_rate")]


@pytest.mark.parametrize(
    ("user", "client_id", "seen", "is_linked"),
    [
        ("alice", "etl", (("alice", "etl"), ("alice", "")), ("alice", "etl")),
        ("alice", "etl", (("alice", ""),), ("alice", "")),
        (None, "etl", (("", "etl"),), ("", "etl")),
        ("<default>", None, (("alice", ""),), None),
        ("alice", "<default>", (("alice", ""),), None),
        (None, "etl", (("", ""),), ("", "")),
    ],
)
def test_the_bucket_that_an_entity_is_in_is_linked_to(
    tmp_path: Path,
    user: str | None,
    client_id: str | None,
    seen: tuple[tuple[str, str], ...],
    is_linked: tuple[str, str] | None,
) -> None:
    scope = day(tmp_path, proposal(user, quota_client_id=client_id), seen=seen)
    links = [link for link in shown(scope).links if "/entities/" in link]
    expected = [] if is_linked is None else [entity_id(*is_linked)]
    assert [link.split("/entities/")[1].split("?")[0] for link in links] == expected


def test_the_filter_finds_a_part_of_a_name_in_any_case(tmp_path: Path) -> None:
    scope = day(
        tmp_path,
        proposal("Alice"),
        proposal("bob", quota_client_id="ALICE-etl"),
        proposal("carol", **KEPT),
        proposal("<default>"),
    )
    assert "Alice" in shown(scope, "alice").text
    assert users(shown(scope, "alice")) == ["Alice", "bob', client-id 'ALICE-etl"]
    assert users(shown(scope, "ALICE-E")) == ["bob', client-id 'ALICE-etl"]
    assert "every user by default" in shown(scope, "by default").table(0)[1][0]
    assert "No user or client-id contains “zed”" in shown(scope, "zed").text
    assert 'name="q" value="carol"' in shown(scope, "carol").source


def test_what_is_looked_for_is_not_folded_away(tmp_path: Path) -> None:
    page = shown(day(tmp_path, proposal("carol", **KEPT)), "carol")
    assert {"id": "keep", "open": None} in [attrs for tag, attrs in page.tags if tag == "details"]


def test_a_name_is_found_beyond_what_is_shown_of_it(tmp_path: Path) -> None:
    assert len(shown(day(tmp_path, proposal(LONG + "needle" + LONG)), "needle").table(0)) == 3


def test_a_thousand_entities_are_shown_a_hundred_a_page(tmp_path: Path) -> None:
    scope = day(tmp_path, *many(1000))
    first, third, last = (shown(scope, page=number) for number in (1, 3, 10))
    assert users(first) == [f"tenant-{n:04}" for n in range(100)]
    assert users(third) == [f"tenant-{n:04}" for n in range(200, 300)]
    assert users(last)[-1] == "tenant-0999"
    assert "Page 3 of 10" in third.text
    assert "201 to 300 of 1,000" in third.text
    turns = [link for link in third.links if "page=" in link]
    assert set(turns) == {here("recommendations?page=2"), here("recommendations?page=4")}
    assert "Previous page" not in first.text
    assert "Next page" not in last.text


@pytest.mark.parametrize(("asked", "given"), [(-5, 1), (0, 1), (3, 2), (10**9, 2)])
def test_a_page_that_is_not_there_is_the_nearest(tmp_path: Path, asked: int, given: int) -> None:
    scope = day(tmp_path, *many(ROWS_PER_PAGE + 1))
    assert f"Page {given} of 2" in shown(scope, page=asked).text


def test_the_filter_stays_when_the_page_is_turned(tmp_path: Path) -> None:
    scope = day(tmp_path, *many(ROWS_PER_PAGE + 1), proposal("other"))
    page = shown(scope, "tenant-")
    assert here("recommendations?q=tenant-&page=2") in page.links
    assert "101 of 102" in page.text


def test_groups_lead_to_the_page_on_which_they_begin(tmp_path: Path) -> None:
    kept = [proposal(f"kept-{n}", **KEPT) for n in range(3)]
    scope = day(tmp_path, *many(ROWS_PER_PAGE + 5), *kept)
    assert here("recommendations?page=2#keep") in shown(scope).links
    second = shown(scope, page=2)
    assert "101 to 105 of 105" in second.text
    assert len(users(second)) == 8


def test_what_became_of_earlier_changes_comes_first(tmp_path: Path) -> None:
    scope = day(tmp_path, proposal())
    failed = {"result": "not_as_predicted", "explanation": "Throttled for 9 s."}
    write_rows(
        scope,
        "change_results",
        [row("change_results"), row("change_results", quota_user="bob", **failed)],
    )
    page = shown(scope)
    head, *rows = page.table(0)
    assert head[-1] == "Result"
    assert [cells[0] for cells in rows] == ["user 'bob'", "user 'alice'"]
    assert rows[0][-1] == "not as predicted Throttled for 9 s."
    assert rows[1][3:8] == ["50 kB/s", "100 kB/s", "40 s", "0 ms", "0 ms"]
    assert "What became of earlier changes" not in shown(scope, "alice").text


@pytest.mark.parametrize("name", [HOSTILE, LONG])
def test_names_of_strangers_change_nothing_but_the_text(tmp_path: Path, name: str) -> None:
    given = proposal(
        name,
        quota_client_id=name,
        reason=name,
        clamped_by=name[:60],
        evidence=json.dumps({"clients": [{name: name}]}),
    )
    scope = day(tmp_path, given, seen=((name, name),))
    explained = row("change_results", quota_user=name, explanation=name)
    write_rows(scope, "change_results", [explained])
    page = shown(scope)
    assert len(page.source) < 60_000
    assert entity_id(name, name) in page.source
    assert len(page.table(1)) == 3
    assert len(shown(scope, q=name[:200]).table(0)) == 3
