"""The tables of a what-if page: all clients together, client by client, and who pays for whom.

Harmed are clients held back or refused although they stayed inside their share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_jobs.publish.facts.whatif import (
    CLIENTS_HIT,
    FIGURE,
    FIGURES,
    OTHER,
    Cell,
    Client,
    Figure,
    Replay,
    Row,
    Values,
    amount,
    by_kind_and_mode,
    by_replay,
    cells,
    client_of,
    modes_of,
    seconds,
    totals,
)
from spark_jobs.wording.names import counted, plural
from spark_jobs.wording.numbers import count, share


@dataclass(frozen=True, slots=True)
class HarmedClients:
    """Who paid for others under one policy: ``lines`` of ``lines_total``, the worst first."""

    label: str
    in_all: str
    lines: tuple[tuple[Row, tuple[Cell, ...]], ...]
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

    Each mode has ``lines_max`` lines, shared by its groups: at least one for each.
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
    lines = tuple((row, cells(figures, row, row["kind"])) for row in harmed[:lines_max])
    return HarmedClients(label, harm_in_words(rows), lines, len(harmed))


def harm_in_words(rows: Iterable[Row]) -> str:
    """Return the total that clients of one replay paid for others, in words."""
    rows = tuple(rows)
    found = totals(rows)
    clients = len({client_of(row) for row in rows if row["harmed_requests"]})
    requests = round(found["harmed_requests"])
    who = (
        f"{counted(requests, 'request')} of "
        f"{counted(clients, 'client')} {plural(requests, 'was', 'were')}"
    )
    if not found["harm_time_ms"]:
        return f"{who} refused"
    part = share(found["harm_time_ms"], found["throttle_time_ms"])
    waited = f"{seconds(found['harm_time_ms'])} s, {part} of all throttle time"
    return f"{who} delayed or refused, for {waited}"


def _harm_key(row: Row) -> tuple[Any, ...]:
    worst_first = (-row["harm_time_ms"], -row["harmed_requests"])
    return (*worst_first, row["broker_id"], client_of(row).sort_key, row["kind"])


# As logged, these are the same under every policy.
_ASKED = ("requests", "unsized_requests", "asked")
_COUNTS_OF_AMOUNTS = ("delayed_requests", "refused_requests")


@dataclass(frozen=True, slots=True)
class Line:
    """The figures of one policy, or the same ones of ``alike`` policies, without a ``label``."""

    label: str | None
    alike: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class TotalsTable:
    """What all clients got of one kind of request, in one mode, a line for each policy.

    ``asked`` says what they asked for where that is the same under every policy. ``absent`` are
    the policies that decide on no such request.
    """

    mode: str
    kind: str
    asked: str | None
    figures: tuple[Figure, ...]
    lines: tuple[Line, ...]
    absent: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClientBlock:
    """What one client got on one broker."""

    client: str
    broker_id: int
    asked: str | None
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class ClientsTable:
    """What clients got of one kind of request, in one mode: ``clients`` of ``clients_total``."""

    mode: str
    kind: str
    figures: tuple[Figure, ...]
    clients: tuple[ClientBlock, ...]
    clients_total: int


def totals_tables(rows: Sequence[Row], replays: Sequence[Replay]) -> tuple[TotalsTable, ...]:
    """Return a table for each kind and mode of ``rows``, kinds first."""
    return tuple(
        _totals_table(kind, mode, found, [r.label for r in replays if r.mode == mode])
        for kind, mode, found in by_kind_and_mode(rows, replays)
    )


def _totals_table(
    kind: str, mode: str, by_label: Mapping[str, Sequence[Row]], labels: Sequence[str]
) -> TotalsTable:
    found = {label: totals(rows) for label, rows in by_label.items()}
    asked = _asked_alike(list(found.values()), kind)
    left_out = _ASKED if asked else ()
    figures = _figures_of(found.values(), kind, [f for f in FIGURES if f.column not in left_out])
    lines = tuple(Line(label, 1, cells(figures, values, kind)) for label, values in found.items())
    absent = tuple(label for label in labels if label not in found)
    return TotalsTable(mode, kind, asked, figures, _best_marked(figures, lines, found), absent)


def clients_tables(
    rows: Sequence[Row], replays: Sequence[Replay], lines_max: int
) -> tuple[ClientsTable, ...]:
    """Return a table for each kind and mode, the clients that asked for most first.

    Each holds as many clients as fit into ``lines_max`` lines of policies, but one at least.
    """
    return tuple(
        _clients_table(kind, mode, found, lines_max)
        for kind, mode, found in by_kind_and_mode(rows, replays)
    )


def _clients_table(
    kind: str, mode: str, by_label: Mapping[str, Sequence[Row]], lines_max: int
) -> ClientsTable:
    by_client: dict[tuple[int, Client], dict[str, Values]] = {}
    for label, of_label in by_label.items():
        for row in of_label:
            by_client.setdefault((row["broker_id"], client_of(row)), {})[label] = row
    places = sorted(
        by_client, key=lambda place: (*_size(by_client[place]), place[0], place[1].sort_key)
    )
    shown = places[: max(lines_max // len(by_label), 1)]
    asked = [_asked_alike(list(by_client[place].values()), kind) for place in shown]
    is_alike = all(asked)
    figures = _figures_of(
        [values for place in shown for values in by_client[place].values()],
        kind,
        [f for f in FIGURES if _is_shown_by_client(f, kind, is_alike)],
    )
    blocks = tuple(
        ClientBlock(
            place[1].name,
            place[0],
            note if is_alike else None,
            _lines(figures, by_client[place], kind, len(by_label)),
        )
        for place, note in zip(shown, asked, strict=True)
    )
    return ClientsTable(mode, kind, figures, blocks, len(places))


def _lines(
    figures: Sequence[Figure], found: Mapping[str, Values], kind: str, replays_total: int
) -> tuple[Line, ...]:
    """Return a line for each policy, but one for all of those that share the commonest figures."""
    lines = tuple(Line(label, 1, cells(figures, values, kind)) for label, values in found.items())
    exact = [tuple(each.exact for each in line.cells) for line in lines]
    commonest = max(exact, key=exact.count)
    alike = [line for line, its in zip(lines, exact, strict=True) if its == commonest]
    # "The others" are all others only where every policy decided on this client.
    if len(alike) == 1 or len(lines) < replays_total:
        return lines
    apart = (line for line in lines if line not in alike)
    return (*apart, Line(None, len(alike), alike[0].cells))


def _size(found: Mapping[str, Values]) -> tuple[float, float]:
    """Return the sort key that puts the largest first."""
    return (
        -max(values["asked"] for values in found.values()),
        -max(values["requests"] for values in found.values()),
    )


def _asked_alike(found: Sequence[Values], kind: str) -> str | None:
    """Return the requests and amount asked for, in words; None where policies differ in them."""
    if len({tuple(values[column] for column in _ASKED) for values in found}) != 1:
        return None
    requests, unsized, _ = (found[0][column] for column in _ASKED)
    words = f"{counted(requests, 'request')}"
    if kind != OTHER:
        words += f" for {amount(found[0]['asked'], kind)}"
    return f"{words}, {count(unsized)} of them without a size" if unsized else words


def _is_shown_by_client(figure: Figure, kind: str, is_alike: bool) -> bool:
    if figure.column == CLIENTS_HIT or (is_alike and figure.column in _ASKED):
        return False
    return kind == OTHER or figure.column not in _COUNTS_OF_AMOUNTS


def _figures_of(
    found: Iterable[Values], kind: str, candidates: Iterable[Figure]
) -> tuple[Figure, ...]:
    """Return the candidates that are not 0 everywhere, and those that are always worth a column."""
    found = tuple(found)
    always = {"requests", "throttle_time_ms", *(() if kind == OTHER else ("asked", "admitted"))}
    return tuple(
        f for f in candidates if f.column in always or any(values[f.column] for values in found)
    )


def _best_marked(
    figures: Sequence[Figure], lines: Sequence[Line], found: Mapping[str, Values]
) -> tuple[Line, ...]:
    """Return the lines with the best cells of each column marked.

    Nothing is marked in a column of which more than half share the best value.
    """
    best: list[str | None] = []
    for number, figure in enumerate(figures):
        pick = min if figure.better == "least" else max
        values = [of_policy[figure.column] for of_policy in found.values()]
        text = lines[values.index(pick(values))].cells[number].text
        holders = sum(line.cells[number].text == text for line in lines)
        is_marked = figure.better is not None and holders <= len(lines) / 2
        best.append(text if is_marked else None)
    return tuple(
        replace(
            line,
            cells=tuple(
                replace(each, is_best=each.text == text)
                for each, text in zip(line.cells, best, strict=True)
            ),
        )
        for line in lines
    )
