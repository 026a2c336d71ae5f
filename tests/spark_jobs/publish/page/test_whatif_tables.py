from __future__ import annotations

from collections.abc import Sequence

from spark_jobs.publish.facts.whatif import replays_of
from spark_jobs.publish.page.whatif_tables import (
    ClientsTable,
    TotalsTable,
    clients_tables,
    totals_tables,
)
from tests.builders.tables_builder import Row
from tests.spark_jobs.publish.page.whatif_builder import delayed, quiet, refused, three_policies

LABELS = ("now", "strict", "lossy")


def all_totals(rows: Sequence[Row]) -> tuple[TotalsTable, ...]:
    return totals_tables(rows, replays_of(rows, LABELS))


def by_client(rows: Sequence[Row], lines_max: int = 100) -> tuple[ClientsTable, ...]:
    return clients_tables(rows, replays_of(rows, LABELS), lines_max)


def texts(table: TotalsTable, column: str) -> dict[str | None, str]:
    place = [figure.column for figure in table.figures].index(column)
    return {line.label: line.cells[place].text for line in table.lines}


def best(table: TotalsTable, column: str) -> list[str | None]:
    place = [figure.column for figure in table.figures].index(column)
    return [line.label for line in table.lines if line.cells[place].is_best]


def columns(table: TotalsTable | ClientsTable) -> set[str]:
    return {figure.column for figure in table.figures}


def test_each_policy_has_the_sum_of_its_clients() -> None:
    (table,) = all_totals(three_policies() + three_policies(client_id="other", broker_id=2))
    assert texts(table, "admitted") == {"now": "2 kB", "strict": "2 kB", "lossy": "1.5 kB"}
    assert texts(table, "throttle_time_ms") == {"now": "0", "strict": "10.000", "lossy": "0"}


def test_a_kind_and_a_mode_have_a_table_each_kinds_first() -> None:
    rows = [
        quiet(mode=mode, kind=kind)
        for mode in ("closed_loop", "as_logged")
        for kind in ("mutation", "produce")
    ]
    places = [
        ("produce", "as_logged"),
        ("produce", "closed_loop"),
        ("mutation", "as_logged"),
        ("mutation", "closed_loop"),
    ]
    assert [(table.kind, table.mode) for table in all_totals(rows)] == places
    assert [(table.kind, table.mode) for table in by_client(rows)] == places


def test_what_is_0_under_every_policy_has_no_column() -> None:
    (table,) = all_totals([quiet(), delayed()])
    assert not columns(table) & {"refused", "lost", "waiting", "taken_back", "harm_time_ms"}
    assert columns(table) >= {"admitted", "delayed", "throttle_time_ms"}


def test_throttle_time_has_a_column_where_nobody_is_throttled() -> None:
    (table,) = all_totals([quiet()])
    assert "throttle_time_ms" in columns(table)


def test_what_was_asked_is_said_once_where_every_policy_was_asked_the_same() -> None:
    (table,) = all_totals(three_policies(unsized_requests=2))
    assert table.asked == "10 requests for 1 kB, 2 of them without a size"
    assert not columns(table) & {"asked", "requests", "unsized_requests"}


def test_what_was_asked_has_columns_where_policies_were_asked_different_things() -> None:
    rows = [quiet(), delayed(asked=1100.0)]
    for table in (*all_totals(rows), *by_client(rows)):
        assert columns(table) >= {"asked", "requests"}
    assert by_client(rows)[0].clients[0].asked is None


def test_requests_without_amounts_are_counted() -> None:
    nothing = {"kind": "other", "asked": 0.0, "admitted": 0.0, "worst_burst": 0.0, "delayed": 0.0}
    rows = [quiet(**nothing), delayed(**nothing)]
    (table,) = by_client(rows)
    assert table.clients[0].asked == "10 requests"
    assert columns(table) == {"delayed_requests", "throttle_time_ms", "throttle_time_max_ms"}


def test_the_best_of_a_column_is_marked_where_more_or_less_is_better() -> None:
    rows = [quiet("now", admitted=900.0, worst_burst=100.0), delayed("strict", delayed=10.0)]
    (table,) = all_totals(rows)
    assert best(table, "admitted") == ["strict"]
    assert best(table, "worst_burst") == ["now"]
    assert best(table, "throttle_time_ms") == ["now"]
    assert best(table, "delayed") == []


def test_what_most_policies_share_is_not_marked_as_best() -> None:
    (table,) = all_totals(three_policies())
    assert best(table, "lost") == []
    assert best(table, "throttle_time_ms") == []


def test_policies_that_look_the_same_are_equally_good() -> None:
    rows = [
        delayed("now", worst_burst=300_000.0),
        delayed("strict", worst_burst=300_001.0),
        delayed("lossy", worst_burst=400_000.0),
        delayed("fourth", worst_burst=500_000.0),
    ]
    (table,) = all_totals(rows)
    assert best(table, "worst_burst") == ["now", "strict"]


def test_policies_that_decide_on_no_such_request_are_named() -> None:
    produce, mutation = all_totals([quiet(), delayed(), quiet("lossy", kind="mutation")])
    assert produce.absent == ("lossy",)
    assert mutation.absent == ("now", "strict")


def test_the_clients_that_asked_for_most_come_first() -> None:
    rows = [
        quiet(client_id="small", asked=10.0),
        quiet(client_id="large", broker_id=2, asked=5000.0),
        quiet(client_id="twice", asked=1000.0),
        quiet(client_id="twice", asked=1000.0, broker_id=2),
    ]
    blocks = by_client(rows)[0].clients
    assert [(block.client.split("'")[3], block.broker_id) for block in blocks] == [
        ("large", 2),
        ("twice", 1),
        ("twice", 2),
        ("small", 1),
    ]


def test_policies_that_give_a_client_the_same_are_one_line() -> None:
    rows = [*three_policies(), *(quiet(label, client_id="calm") for label in LABELS)]
    loud, calm = by_client(rows)[0].clients
    if "calm" in loud.client:
        loud, calm = calm, loud
    assert [line.label for line in loud.lines] == ["now", "strict", "lossy"]
    assert [(line.label, line.alike) for line in calm.lines] == [(None, 3)]


def test_the_policies_that_differ_come_before_the_others() -> None:
    rows = [quiet("now"), delayed("strict"), quiet("lossy")]
    lines = by_client(rows)[0].clients[0].lines
    assert [(line.label, line.alike) for line in lines] == [("strict", 1), (None, 2)]


def test_others_are_not_spoken_of_where_a_policy_did_not_decide() -> None:
    rows = [quiet("now"), quiet("strict"), quiet("lossy", client_id="somebody else")]
    block = next(b for b in by_client(rows)[0].clients if "somebody" not in b.client)
    assert [line.label for line in block.lines] == ["now", "strict"]


def test_there_are_as_many_clients_as_lines_allow_and_one_at_least() -> None:
    rows = [
        row for number in range(5) for row in three_policies(client_id=str(number), asked=number)
    ]
    for lines_max, shown in ((15, 5), (11, 3), (6, 2), (1, 1)):
        (table,) = by_client(rows, lines_max)
        assert (len(table.clients), table.clients_total) == (shown, 5)


def test_columns_are_of_the_clients_that_are_shown() -> None:
    rows = [quiet(client_id="large", asked=9e9), refused("now", client_id="small")]
    (table,) = by_client(rows, lines_max=1)
    assert "lost" not in columns(table)
