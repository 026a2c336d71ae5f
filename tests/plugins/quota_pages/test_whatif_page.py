from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from quota_pages.whatif_page import TODAYS, whatif_page
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.whatif.policies.catalogue import POLICIES
from tests.builders.tables_builder import Row, row, scope_in, write_rows
from tests.plugins.quota_pages.page_checks import HOSTILE, LONG, Page, place_of

QUIET: Row = {
    "kind": "produce",
    "requests": 10,
    "delayed_requests": 0,
    "refused_requests": 0,
    "harmed_requests": 0,
    "throttle_time_ms": 0,
    "harm_time_ms": 0,
    "worst_burst": 300.0,
}


def replayed(policy: str = "broker_bandwidth", label: str | None = None, **of: Any) -> Row:
    return row("whatif", **{**QUIET, "policy": policy, "label": label or policy, **of})


def day(tmp_path: Path, *rows: Row, logged_ms: int = 0) -> RunScope:
    scope = scope_in(tmp_path)
    write_rows(scope, "files", [row("files")])
    write_rows(scope, "whatif", list(rows))
    write_rows(scope, "demand", [row("demand", logged_throttle_time_ms=logged_ms)])
    return scope


def shown(scope: RunScope) -> Page:
    return Page(whatif_page(place_of(scope), scope))


def test_a_day_that_was_not_ingested_has_no_page(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    assert whatif_page(place_of(scope), scope) is None


def test_a_day_without_a_replay_says_how_to_make_one(tmp_path: Path) -> None:
    page = shown(day(tmp_path))
    assert page.count("table") == 0
    assert "quota_whatif" in page.text
    assert "quota-audit whatif --warehouse" in page.text
    assert "--day 2026-11-10" in page.text


def test_policies_named_in_the_command_exist(tmp_path: Path) -> None:
    words = shown(day(tmp_path)).text.split()
    named = [after for word, after in pairwise(words) if word == "--policy"]
    assert len(named) == 2
    assert set(named) <= set(POLICIES)


def test_rules_of_todays_brokers_are_policies() -> None:
    assert set(TODAYS) <= set(POLICIES)


def test_todays_rule_is_the_baseline_and_the_others_differ_from_it_in_words(tmp_path: Path) -> None:
    strict = {"throttle_time_ms": 90_000, "delayed_requests": 4, "worst_burst": 50.0}
    lossy = {"refused_requests": 1, "harmed_requests": 1}
    now = {"throttle_time_ms": 30_000, "delayed_requests": 5}
    scope = day(
        tmp_path,
        replayed("kip13", **strict),
        replayed("kip13_immediate_error", **lossy),
        replayed(**now),
    )
    page = shown(scope)
    head, *rows = page.table(0)
    assert head == [
        "Policy",
        "Delayed requests",
        "Refused requests",
        "Harmed requests",
        "Throttle s",
        "Worst 1 s",
        "Hurt most",
        "Compared with the first",
    ]
    client = "user 'alice', client-id 'app'"
    assert rows == [
        [
            "broker_bandwidth baseline",
            "5",
            "0",
            "0",
            "30.000",
            "300 B",
            f"{client}: waits 30 s",
            "–",
        ],
        [
            "kip13",
            "4",
            "0",
            "0",
            "90.000",
            "50 B",
            f"{client}: waits 1 min 30 s",
            "1 min more throttle time, 1 fewer request delayed",
        ],
        [
            "kip13_immediate_error",
            "0",
            "1",
            "1",
            "0",
            "300 B",
            f"{client}: 1 request refused inside its share",
            "30 s less throttle time, 5 fewer requests delayed, 1 more request refused, "
            "1 more request harmed",
        ],
    ]


def test_of_several_replays_of_todays_rule_the_one_nearest_to_the_log_is_the_baseline(
    tmp_path: Path,
) -> None:
    scope = day(
        tmp_path,
        replayed(label="a laxer one", throttle_time_ms=0),
        replayed(label="as it was", throttle_time_ms=40_100),
        logged_ms=40_000,
    )
    rows = shown(scope).table(0)[1:]
    assert [cells[0] for cells in rows] == [
        "as it was baseline broker_bandwidth",
        "a laxer one broker_bandwidth",
    ]


def test_without_todays_rule_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    page = shown(day(tmp_path, replayed("kip13"), replayed("broker_side_v1")))
    assert "baseline" not in page.text
    assert "nothing to compare with" in page.text
    assert page.table(0)[0][-1] == "Hurt most"


def test_policies_that_do_the_same_are_said_to(tmp_path: Path) -> None:
    rows = shown(day(tmp_path, replayed(), replayed("kip13"))).table(0)
    assert rows[2][-1] == "the same"
    assert rows[2][-2] == "nobody"


def test_clients_and_brokers_are_summed_and_the_worst_second_is_the_largest(tmp_path: Path) -> None:
    scope = day(
        tmp_path,
        replayed(user="a", throttle_time_ms=1000, worst_burst=10.0),
        replayed(user="a", broker_id=2, throttle_time_ms=1000, worst_burst=70.0),
        replayed(user="b", client_id=None, throttle_time_ms=1500, worst_burst=20.0),
    )
    page = shown(scope)
    cells = page.table(0)[1]
    assert cells[4:6] == ["3.500", "70 B"]
    assert cells[6] == "user 'a', client-id 'app': waits 2 s"
    assert "30 requests" in page.text


def test_who_pays_for_others_is_hurt_more_than_who_waits_longer(tmp_path: Path) -> None:
    harmed = {"throttle_time_ms": 500, "harm_time_ms": 400, "harmed_requests": 2}
    scope = day(
        tmp_path,
        replayed(user="greedy", throttle_time_ms=90_000),
        replayed(user="modest", client_id=None, **harmed),
    )
    hurt = shown(scope).table(0)[1][6]
    assert hurt == "user 'modest', without a client-id: waits 400 ms inside its share"


def test_modes_and_kinds_have_tables_of_their_own(tmp_path: Path) -> None:
    scope = day(
        tmp_path,
        replayed(mode="closed_loop"),
        replayed(),
        replayed("broker_controller_mutation", kind="mutation", worst_burst=3.0),
    )
    page = shown(scope)
    headings = [
        text for text in ("Produce, as logged", "Produce, closed loop") if text in page.text
    ]
    assert len(headings) == 2
    assert page.count("table") == 3
    assert page.table(2)[1][5] == "3"
    assert "How clients were played: closed loop" in page.text


def test_the_page_with_all_figures_is_linked_to_where_it_was_published(tmp_path: Path) -> None:
    scope = day(tmp_path, replayed())
    assert not any("whatif.html" in link for link in shown(scope).links)
    folder = scope.output_dir("reports")
    folder.mkdir(parents=True)
    (folder / "whatif.html").write_text("<!doctype html>")
    assert "/quota-audit/reports/default/2026-11-10/whatif.html" in shown(scope).links


@pytest.mark.parametrize("name", [HOSTILE, LONG])
def test_names_of_strangers_change_nothing_but_the_text(tmp_path: Path, name: str) -> None:
    page = shown(
        day(
            tmp_path,
            replayed(label=name, user=name, client_id=name, throttle_time_ms=9),
            replayed("kip13", label=f"{name}2"),
        )
    )
    assert len(page.table(0)) == 3
    assert len(page.source) < 60_000
