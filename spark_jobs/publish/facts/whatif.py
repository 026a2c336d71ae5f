"""The figures of ``tables.WHATIF`` as a page shows them: columns, sums, and what is better."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Literal, NamedTuple

from spark_jobs.warehouse.tables import WHATIF_KINDS, WHATIF_MODES
from spark_jobs.wording.names import counted, plural
from spark_jobs.wording.numbers import count, significant, size
from spark_jobs.wording.visible_text import shortened, visible

Row = Mapping[str, Any]
Values = Mapping[str, float]
Better = Literal["least", "most"]

OTHER, MUTATION = "other", "mutation"
CLIENTS_HIT = "clients_hit"
"""A figure of several rows, no column of the table."""

_LARGEST = ("worst_burst", "throttle_time_max_ms")


class Replay(NamedTuple):
    """One policy replayed in one mode."""

    mode: str
    label: str


class Client(NamedTuple):
    """The user and client-id of requests."""

    user: str
    client_id: str | None

    @property
    def name(self) -> str:
        """Return the client as people say it; a null and an empty client-id are not the same."""
        user = f"user '{shortened(visible(self.user))}'"
        if self.client_id is None:
            return f"{user}, without a client-id"
        return f"{user}, client-id '{shortened(visible(self.client_id))}'"

    @property
    def sort_key(self) -> tuple[str, bool, str]:
        """Return the key that clients are sorted by."""
        return (self.user, self.client_id is not None, self.client_id or "")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. ``better`` is None where neither more nor less of it is."""

    column: str
    title: str
    unit: Literal["amount", "time", "number"]
    meaning: str
    better: Better | None = None


FIGURES = (
    Figure("requests", "Requests", "number", "Requests that the policy decided on."),
    Figure(
        "unsized_requests",
        "No\N{NO-BREAK SPACE}size",
        "number",
        "Requests whose amount is not in the log: they count as 0.",
    ),
    Figure(
        "asked",
        "Asked",
        "amount",
        "Admitted, refused and taken back together; what is sent again counts again.",
    ),
    Figure("admitted", "Admitted", "amount", "Served, at once or later.", "most"),
    Figure(
        "delayed",
        "Delayed",
        "amount",
        "The part of what was asked for that waited and was not refused.",
    ),
    Figure("delayed_requests", "Delayed requests", "number", "Requests that had to wait."),
    Figure(
        "refused",
        "Refused",
        "amount",
        "Answered with an error at first; of a request of several topics perhaps some of them.",
        "least",
    ),
    Figure(
        "refused_requests",
        "Refused requests",
        "number",
        "Requests answered with an error, in whole or in part.",
        "least",
    ),
    Figure(
        "taken_back",
        "Taken back",
        "amount",
        "Fetches that were answered with nothing, to be asked for again.",
    ),
    Figure(
        "lost",
        "Lost",
        "amount",
        "Refused, and nobody asks again: of produces what no retry brought through, of mutations "
        "what the client does not ask for again; in the closed loop what clients gave up. A fetch "
        "loses nothing: the records are still there.",
        "least",
    ),
    Figure(
        "waiting",
        "Waiting",
        "amount",
        "Asked for, and neither admitted nor lost when the log ends. As logged nothing is known "
        "of it: it is 0.",
        "least",
    ),
    Figure(
        "throttle_time_ms",
        "Throttle\N{NO-BREAK SPACE}s",
        "time",
        "All delays in seconds, added up, also of requests that waited at the same time.",
        "least",
    ),
    Figure(
        "throttle_time_max_ms",
        "Longest\N{NO-BREAK SPACE}s",
        "time",
        "The longest delay in seconds.",
        "least",
    ),
    Figure(
        CLIENTS_HIT,
        "Clients\N{NO-BREAK SPACE}hit",
        "number",
        "Clients (user and client-id) of which a request was delayed or refused.",
        "least",
    ),
    Figure(
        "harm_time_ms",
        "Harm\N{NO-BREAK SPACE}s",
        "time",
        "Delays of clients that stayed inside their share: what they wait for others.",
        "least",
    ),
    Figure(
        "harmed_requests",
        "Harmed requests",
        "number",
        "Requests delayed or refused while their client was inside its share.",
        "least",
    ),
    Figure(
        "worst_burst",
        "Worst\N{NO-BREAK SPACE}1\N{NO-BREAK SPACE}s",
        "amount",
        "The largest amount that a client had admitted on a broker in one second of the clock.",
        "least",
    ),
)
FIGURE: Mapping[str, Figure] = {figure.column: figure for figure in FIGURES}
_SUMMED = tuple(f.column for f in FIGURES if f.column not in (*_LARGEST, CLIENTS_HIT))


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure in words; ``exact`` has every digit and the unit."""

    text: str
    exact: str
    is_zero: bool
    is_best: bool = False


def cell(figure: Figure, value: float, kind: str) -> Cell:
    """Return ``value`` of ``figure``; ``kind`` says what its amounts are counted in."""
    is_zero = value == 0
    if figure.unit == "time":
        return Cell("0" if is_zero else seconds(value), f"{count(value)} ms", is_zero)
    if figure.unit == "number":
        return Cell(count(value), count(value), is_zero)
    if kind == MUTATION:
        return Cell(_partitions(value), amount(value, kind), is_zero)
    return Cell("0" if is_zero else amount(value, kind), counted(value, "byte"), is_zero)


def amount(value: float, kind: str) -> str:
    """Return an amount of requests of ``kind`` with its unit.

    >>> amount(891_731.0, "produce"), amount(54.0, "mutation")
    ('892 kB', '54 partitions')
    """
    if kind == MUTATION:
        return f"{_partitions(value)} {plural(round(value), 'partition')}"
    return size(value)


def _partitions(value: float) -> str:
    return count(value) if float(value).is_integer() else significant(value, 4)


def cells(figures: Iterable[Figure], values: Values, kind: str) -> tuple[Cell, ...]:
    """Return ``values`` of all ``figures``."""
    return tuple(cell(figure, values[figure.column], kind) for figure in figures)


def seconds(milliseconds: float) -> str:
    """Return a time in seconds to the millisecond, as all of a column are.

    >>> seconds(1_253_692), seconds(8)
    ('1,253.692', '0.008')
    """
    return f"{milliseconds / 1000:,.3f}"


def totals(rows: Iterable[Row]) -> dict[str, float]:
    """Return the figures of all ``rows`` together, which are of one replay.

    The largest second and the longest delay are the largest of any row.
    """
    rows = tuple(rows)
    found = {column: fsum(row[column] for row in rows) for column in _SUMMED}
    found |= {column: max((row[column] for row in rows), default=0.0) for column in _LARGEST}
    hit = (row for row in rows if row["delayed_requests"] or row["refused_requests"])
    found[CLIENTS_HIT] = len({client_of(row) for row in hit})
    return found


def client_of(row: Row) -> Client:
    """Return the client of a row."""
    return Client(row["user"], row["client_id"])


def replay_of(row: Row) -> Replay:
    """Return the replay of a row."""
    return Replay(row["mode"], row["label"])


def replays_of(rows: Iterable[Row], labels: Sequence[str]) -> tuple[Replay, ...]:
    """Return the replays that have a row: by mode, then as ``labels`` are ordered."""
    place = {label: number for number, label in enumerate(labels)}
    return tuple(
        sorted(
            {replay_of(row) for row in rows},
            key=lambda r: (WHATIF_MODES.index(r.mode), place.get(r.label, len(place)), r.label),
        )
    )


def by_replay(rows: Iterable[Row], replays: Iterable[Replay]) -> dict[Replay, list[Row]]:
    """Return the rows of each of ``replays`` that has any, in the order of ``replays``."""
    found: dict[Replay, list[Row]] = {replay: [] for replay in replays}
    for row in rows:
        if replay_of(row) in found:
            found[replay_of(row)].append(row)
    return {replay: of_replay for replay, of_replay in found.items() if of_replay}


def by_kind_and_mode(
    rows: Iterable[Row], replays: Sequence[Replay]
) -> Iterator[tuple[str, str, dict[str, list[Row]]]]:
    """Yield each kind and mode of ``rows``, kinds first, with the rows of its policies by label."""
    rows = tuple(rows)
    for kind in kinds_of(rows):
        of_kind = by_replay([row for row in rows if row["kind"] == kind], replays)
        for mode in modes_of(of_kind):
            yield kind, mode, {r.label: found for r, found in of_kind.items() if r.mode == mode}


def modes_of(replays: Iterable[Replay]) -> tuple[str, ...]:
    """Return the modes of ``replays`` in their order."""
    return tuple(dict.fromkeys(replay.mode for replay in replays))


def kinds_of(rows: Iterable[Row]) -> tuple[str, ...]:
    """Return the kinds of requests that have a row."""
    there = {row["kind"] for row in rows}
    return tuple(kind for kind in WHATIF_KINDS if kind in there)
