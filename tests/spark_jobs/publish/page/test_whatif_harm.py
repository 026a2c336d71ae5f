from __future__ import annotations

from collections.abc import Sequence

from spark_jobs.publish.facts.whatif import replays_of
from spark_jobs.publish.page.whatif_tables import HarmTable, harm_in_words, harm_tables
from tests.builders.tables_builder import Row
from tests.spark_jobs.publish.page.whatif_builder import delayed, quiet, refused


def harm(rows: Sequence[Row], lines_max: int = 100) -> tuple[HarmTable, ...]:
    return harm_tables(rows, replays_of(rows, ["now", "strict", "lossy"]), lines_max)


def harmed(label: str, client_id: str, harm_time_ms: int, harmed_requests: int = 1) -> Row:
    return delayed(
        label, 5000, client_id=client_id, harm_time_ms=harm_time_ms, harmed_requests=harmed_requests
    )


def test_who_waits_longest_for_others_comes_first_under_each_policy() -> None:
    rows = [
        harmed("strict", "a", 10),
        harmed("strict", "b", 3000),
        harmed("strict", "c", 10, harmed_requests=2),
        harmed("now", "d", 1),
        quiet("now", client_id="e"),
    ]
    (table,) = harm(rows)
    assert [(group.label, len(group.lines)) for group in table.groups] == [
        ("now", 1),
        ("strict", 3),
    ]
    worst = table.groups[1].lines
    assert [row["client_id"] for row, _ in worst] == ["b", "c", "a"]
    assert [cell.text for cell in worst[0][1]] == ["3.000", "5.000", "1", "10"]


def test_a_refused_request_of_a_client_inside_its_share_is_harm_without_a_delay() -> None:
    rows = [refused(harmed_requests=2, kind="mutation")]
    (table,) = harm(rows)
    assert table.groups[0].in_all == "2 requests of 1 client were refused"
    (row, _), *_ = table.groups[0].lines
    assert row["kind"] == "mutation"


def test_harm_is_told_in_all_with_its_part_of_the_throttle_time() -> None:
    rows = [harmed("now", "a", 1000), harmed("now", "b", 500), delayed("now", client_id="c")]
    words = (
        "2 requests of 2 clients were delayed or refused, for 1.500 s, 10 % of all throttle time"
    )
    assert harm_in_words(rows) == words


def test_policies_share_the_lines_and_say_how_many_there_are() -> None:
    rows = [harmed(label, f"c{n}", n) for label in ("now", "strict") for n in range(9)]
    (table,) = harm(rows, lines_max=8)
    assert [(len(group.lines), group.lines_total) for group in table.groups] == [(4, 9), (4, 9)]


def test_a_mode_without_harm_has_a_table_without_groups() -> None:
    rows = [quiet(), harmed("now", "a", 1) | {"mode": "closed_loop"}]
    logged, closed = harm(rows)
    assert (logged.mode, logged.groups) == ("as_logged", ())
    assert len(closed.groups) == 1
