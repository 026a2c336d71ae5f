"""The page that compares policies on a day: today's rule first, the others beside it.

Figures are summed while the table is read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quota_pages.page import Place, render
from spark_jobs.publish.facts.whatif import FIGURE, Cell, Client, Values, cells
from spark_jobs.publish.page import whatif_words as words
from spark_jobs.publish.page.whatif_page import WHATIF_PAGE_NAME
from spark_jobs.warehouse.read import count_rows, read_batches
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import WHATIF_KINDS, WHATIF_MODES
from spark_jobs.whatif.policies.catalogue import POLICIES
from spark_jobs.wording.names import counted, plural
from spark_jobs.wording.numbers import count, duration
from spark_jobs.wording.visible_text import shortened

FIGURES = tuple(
    FIGURE[column]
    for column in (
        "delayed_requests",
        "refused_requests",
        "harmed_requests",
        "throttle_time_ms",
        "worst_burst",
    )
)
_SUMS = (
    "requests",
    "delayed_requests",
    "refused_requests",
    "harmed_requests",
    "throttle_time_ms",
    "harm_time_ms",
)
_MEASURES = dict.fromkeys(_SUMS, "sum") | {"worst_burst": "max"}
_POLICY = ["mode", "kind", "label", "policy"]
_CLIENT = ["user", "client_id"]
# Who pays for others is hurt more than who waits for what it took itself.
_HURT_BY = ("harm_time_ms", "harmed_requests", "throttle_time_ms", "refused_requests")
TODAYS = tuple(name for name, where in POLICIES.items() if where.startswith("today."))
"""Policies that brokers of today have."""

_QUOTA_OF_KIND = {
    "produce": "producer_byte_rate",
    "fetch": "consumer_byte_rate",
    "mutation": "controller_mutation_rate",
    "other": "request_percentage",
}


@dataclass(frozen=True, slots=True)
class PolicyLine:
    """What one policy does to all clients; ``difference`` is to the baseline, in words."""

    label: str
    policy: str
    is_baseline: bool
    cells: tuple[Cell, ...]
    hurt: str
    difference: str


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """Policies on one kind of request in one mode: the baseline, if there is one, is the first."""

    mode: str
    kind: str
    requests: int
    baseline: str | None
    lines: tuple[PolicyLine, ...]


def comparisons(scope: RunScope) -> tuple[PolicyComparison, ...]:
    """Return the policies of the table ``whatif`` compared, by mode and kind; none without rows."""
    by_client = _by_client(scope)
    if by_client is None:
        return ()
    totals, hurt = _totals(by_client), _hurt(by_client)
    logged = _logged_throttle_ms(scope)
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in totals:
        found.setdefault((row["mode"], row["kind"]), []).append(row)
    order = sorted(found, key=lambda key: (WHATIF_KINDS.index(key[1]), WHATIF_MODES.index(key[0])))
    return tuple(_comparison(key, found[key], hurt, logged.get(key[1], 0)) for key in order)


def _by_client(scope: RunScope) -> pa.Table | None:
    names = [*_POLICY, *_CLIENT, *_MEASURES]
    measures = [*_MEASURES.items()]
    summed = count_rows(read_batches(scope, "whatif", names), [*_POLICY, *_CLIENT], measures)
    return None if summed is None else summed.drop_columns("rows").rename_columns(names)


def _totals(by_client: pa.Table) -> list[dict[str, Any]]:
    summed = by_client.group_by(_POLICY).aggregate([*_MEASURES.items()])
    rows: list[dict[str, Any]] = summed.rename_columns([*_POLICY, *_MEASURES]).to_pylist()
    return rows


def _hurt(by_client: pa.Table) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the client that each policy hurts most, by the policy's keys."""
    order = [(column, "descending") for column in _HURT_BY]
    ranked = by_client.sort_by([*order, ("user", "ascending"), ("client_id", "ascending")])
    taken = [*_CLIENT, *_HURT_BY]
    # In the order of the rows, on one thread: the first of a group is the one that is hurt most.
    first = ranked.group_by(_POLICY, use_threads=False).aggregate(
        [(column, "first", pc.ScalarAggregateOptions(skip_nulls=False)) for column in taken]
    )
    rows = first.rename_columns([*_POLICY, *taken]).to_pylist()
    return {tuple(row[name] for name in _POLICY): row for row in rows}


def _logged_throttle_ms(scope: RunScope) -> dict[str, int]:
    """Return the throttle time that brokers logged, by the kind of request."""
    batches = read_batches(scope, "demand", ["quota_type", "logged_throttle_time_ms"])
    summed = count_rows(batches, ["quota_type"], [("logged_throttle_time_ms", "sum")])
    rows = summed.to_pylist() if summed is not None else []
    by_type = {row["quota_type"]: row["logged_throttle_time_ms_sum"] for row in rows}
    return {kind: by_type.get(quota, 0) for kind, quota in _QUOTA_OF_KIND.items()}


def _comparison(
    key: tuple[str, str],
    rows: Sequence[dict[str, Any]],
    hurt: Mapping[tuple[str, ...], dict[str, Any]],
    logged_ms: int,
) -> PolicyComparison:
    mode, kind = key
    base = _baseline(rows, logged_ms)
    ordered = sorted(rows, key=lambda row: (row is not base, row["label"]))
    lines = tuple(
        PolicyLine(
            label=row["label"],
            policy=row["policy"],
            is_baseline=row is base,
            cells=cells(FIGURES, row, kind),
            hurt=_hurt_in_words(hurt[tuple(row[name] for name in _POLICY)]),
            difference="" if base is None or row is base else difference(base, row),
        )
        for row in ordered
    )
    requests = max(row["requests"] for row in rows)
    return PolicyComparison(mode, kind, requests, base["label"] if base else None, lines)


def _baseline(rows: Sequence[dict[str, Any]], logged_ms: int) -> dict[str, Any] | None:
    """Return the replay of a rule that brokers have today which comes nearest to the log.

    Scenarios may replay such a rule with other quotas too; the table does not say with which.
    """
    todays = [row for row in rows if row["policy"] in TODAYS]
    return min(
        todays,
        key=lambda row: (
            abs(row["throttle_time_ms"] - logged_ms),
            row["label"] != row["policy"],
            row["label"],
        ),
        default=None,
    )


def _hurt_in_words(row: Mapping[str, Any]) -> str:
    client = Client(row["user"], row["client_id"]).name
    if row["harmed_requests"]:
        if row["harm_time_ms"]:
            return f"{client}: waits {duration(row['harm_time_ms'])} inside its share"
        return f"{client}: {counted(row['harmed_requests'], 'request')} refused inside its share"
    if row["throttle_time_ms"]:
        return f"{client}: waits {duration(row['throttle_time_ms'])}"
    if row["refused_requests"]:
        return f"{client}: {counted(row['refused_requests'], 'request')} refused"
    return "nobody"


def difference(base: Values, other: Values) -> str:
    """Return the difference from ``base`` to ``other`` in words: throttle time and requests.

    >>> base = dict.fromkeys(_SUMS, 0.0)
    >>> difference(base, base | {"throttle_time_ms": 1500.0, "refused_requests": 2.0})
    '1.5 s more throttle time, 2 more requests refused'
    >>> difference(base, base)
    'the same'
    """
    return ", ".join(_differences(base, other)) or "the same"


def _differences(base: Values, other: Values) -> Iterator[str]:
    waits = other["throttle_time_ms"] - base["throttle_time_ms"]
    if waits:
        yield f"{duration(abs(waits))} {'more' if waits > 0 else 'less'} throttle time"
    for column, what in (
        ("delayed_requests", "delayed"),
        ("refused_requests", "refused"),
        ("harmed_requests", "harmed"),
    ):
        number = round(other[column] - base[column])
        if number:
            more = "more" if number > 0 else "fewer"
            yield f"{count(abs(number))} {more} {plural(abs(number), 'request')} {what}"


def whatif_page(place: Place, scope: RunScope) -> str | None:
    """Return the comparison of the policies replayed on the day; None where it was not ingested.

    Where none was replayed the page says how to.
    """
    if not scope.partition_dir("files").is_dir():
        return None
    compared = comparisons(scope)
    return render(
        "whatif_page.html.j2",
        place,
        compared=compared,
        modes=tuple(dict.fromkeys(comparison.mode for comparison in compared)),
        figures=FIGURES,
        words=words,
        page_name=WHATIF_PAGE_NAME,
        has_page=(scope.output_dir("reports") / WHATIF_PAGE_NAME).is_file(),
        options=shlex.join(
            ["--warehouse", str(scope.warehouse.absolute()), "--cluster", scope.cluster]
        ),
        shortened=shortened,
    )
