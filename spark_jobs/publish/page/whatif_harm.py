"""Who pays for whom: clients held back or refused although they stayed inside their share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.publish.page.whatif_figures import (
    FIGURE,
    Cell,
    Figure,
    Replay,
    Row,
    by_replay,
    cells,
    client_of,
    modes_of,
    seconds,
    totals,
)
from spark_jobs.wording.names import plural
from spark_jobs.wording.numbers import count, share


@dataclass(frozen=True, slots=True)
class HarmLine:
    """A client that paid for others on one broker."""

    client: str
    broker_id: int
    kind: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class HarmedClients:
    """Who paid for others under one policy: ``lines`` of ``lines_total``, the worst first."""

    label: str
    in_all: str
    lines: tuple[HarmLine, ...]
    lines_total: int


@dataclass(frozen=True, slots=True)
class HarmTable:
    """Who paid for others in one mode; no groups: nobody did under any policy."""

    mode: str
    figures: tuple[Figure, ...]
    groups: tuple[HarmedClients, ...]


def harm_tables(
    rows: Sequence[Row], replays: Sequence[Replay], lines_max: int
) -> tuple[HarmTable, ...]:
    """Return a table for each mode, a group for each policy under which clients pay for others.

    ``lines_max`` is of a mode; each group has its part of it, but a line at least.
    """
    found = by_replay(rows, replays)
    return tuple(
        _harm_table(mode, {r.label: of for r, of in found.items() if r.mode == mode}, lines_max)
        for mode in modes_of(replays)
    )


def _harm_table(mode: str, found: Mapping[str, Sequence[Row]], lines_max: int) -> HarmTable:
    columns = ("harm_time_ms", "throttle_time_ms", "harmed_requests", "requests")
    figures = tuple(FIGURE[column] for column in columns)
    harming = {
        label: of_label
        for label, of_label in found.items()
        if any(row["harmed_requests"] for row in of_label)
    }
    each_max = max(lines_max // max(len(harming), 1), 1)
    groups = tuple(_harmed_clients(label, harming[label], figures, each_max) for label in harming)
    return HarmTable(mode, figures, groups)


def _harmed_clients(
    label: str, rows: Sequence[Row], figures: Sequence[Figure], lines_max: int
) -> HarmedClients:
    harmed = sorted((row for row in rows if row["harmed_requests"]), key=_harm_key)
    lines = tuple(
        HarmLine(
            client_of(row).name,
            row["broker_id"],
            row["kind"],
            cells(figures, row, row["kind"]),
        )
        for row in harmed[:lines_max]
    )
    return HarmedClients(label, harm_in_words(rows), lines, len(harmed))


def harm_in_words(rows: Iterable[Row]) -> str:
    """Return what clients of one replay paid for others, in all."""
    rows = tuple(rows)
    found = totals(rows)
    clients = len({client_of(row) for row in rows if row["harmed_requests"]})
    requests = round(found["harmed_requests"])
    who = (
        f"{count(requests)} {plural(requests, 'request')} of "
        f"{count(clients)} {plural(clients, 'client')} {plural(requests, 'was', 'were')}"
    )
    if not found["harm_time_ms"]:
        return f"{who} refused"
    part = share(found["harm_time_ms"], found["throttle_time_ms"])
    waited = f"{seconds(found['harm_time_ms'])} s, {part} of all throttle time"
    return f"{who} delayed or refused, for {waited}"


def _harm_key(row: Row) -> tuple[Any, ...]:
    worst_first = (-row["harm_time_ms"], -row["harmed_requests"])
    return (*worst_first, row["broker_id"], client_of(row).sort_key, row["kind"])
