from __future__ import annotations

import doctest

import pytest

from spark_jobs.publish.facts import whatif
from spark_jobs.publish.facts.whatif import FIGURE, FIGURES, Client, cell, replays_of, totals
from spark_jobs.publish.page import whatif_page
from spark_jobs.warehouse.tables import WHATIF, WHATIF_KINDS, WHATIF_MODES
from spark_jobs.wording import numbers
from tests.spark_jobs.publish.page.whatif_builder import delayed, quiet, refused

KEYS = {"policy", "label", "mode", "broker_id", "user", "client_id", "kind"}


@pytest.mark.parametrize("module", [numbers, whatif, whatif_page])
def test_the_doctests_hold(module: object) -> None:
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


def test_every_figure_of_the_table_is_a_figure_of_the_page() -> None:
    assert set(FIGURE) == set(WHATIF.names) - KEYS | {"clients_hit"}
    assert len(FIGURE) == len(FIGURES)


def test_sums_are_of_all_rows_and_of_times_and_bursts_the_largest_counts() -> None:
    found = totals(
        [
            delayed(throttle_time_ms=5000, worst_burst=300.0),
            delayed(throttle_time_ms=800, worst_burst=700.0, broker_id=2),
        ]
    )
    assert (found["asked"], found["throttle_time_ms"]) == (2000.0, 5800)
    assert (found["throttle_time_max_ms"], found["worst_burst"]) == (2500, 700.0)


def test_a_client_that_is_hit_on_two_brokers_is_one_client() -> None:
    rows = [
        delayed(client_id="a"),
        refused(client_id="a", broker_id=2),
        refused(client_id=None),
        quiet(client_id="b"),
    ]
    assert totals(rows)["clients_hit"] == 2


@pytest.mark.parametrize(
    ("column", "value", "kind", "text", "exact"),
    [
        ("lost", 891_731.0, "produce", "892 kB", "891,731 bytes"),
        ("lost", 1.0, "fetch", "1 B", "1 byte"),
        ("lost", 54.0, "mutation", "54", "54 partitions"),
        ("lost", 0.5, "mutation", "0.5", "0.5 partitions"),
        ("throttle_time_ms", 1_253_692, "produce", "1,253.692", "1,253,692 ms"),
        ("requests", 6159, "other", "6,159", "6,159"),
    ],
)
def test_a_figure_is_short_and_its_exact_value_is_beside_it(
    column: str, value: float, kind: str, text: str, exact: str
) -> None:
    shown = cell(FIGURE[column], value, kind)
    assert (shown.text, shown.exact, shown.is_zero) == (text, exact, False)


@pytest.mark.parametrize("kind", WHATIF_KINDS)
def test_nothing_is_a_plain_zero(kind: str) -> None:
    shown = {cell(figure, 0.0, kind).text for figure in FIGURES}
    assert shown == {"0"}


def test_a_missing_client_id_is_not_an_empty_one() -> None:
    assert Client("alice", None).name == "user 'alice', without a client-id"
    assert Client("alice", "").name == "user 'alice', client-id ''"
    assert Client("a\u202eb", "c").name == "user 'a\\u202eb', client-id 'c'"


def test_replays_are_ordered_by_mode_and_then_as_the_policies_are() -> None:
    rows = [quiet(label, mode=mode) for label in "xba" for mode in reversed(WHATIF_MODES)]
    assert replays_of(rows, ["b", "a"]) == tuple(
        (mode, label) for mode in WHATIF_MODES for label in "bax"
    )
