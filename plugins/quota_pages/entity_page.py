"""One client's page: its rate against its bound over time on each broker, and why it moved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.dataset as ds

from quota_pages.entities_page import EntityUse, entities_of, team_of
from quota_pages.history import (
    DAY_MS,
    SAMPLES_RANGE_MAX_MS,
    Floats,
    History,
    QuotaMark,
    Series,
    Wanted,
    day_begin_ms,
    quota_marks,
    read_history,
    sample_starts_of,
)
from quota_pages.kept_tables import kept_table, read_kept
from quota_pages.page import Place, render
from spark_jobs.publish.facts.findings import Finding
from spark_jobs.publish.read_facts import findings_of
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import DEMAND
from spark_jobs.wording.names import VERDICTS
from spark_jobs.wording.numbers import unit_of
from spark_jobs.wording.visible_text import shortened, visible

PANELS_MAX = 6
TABLE_ROWS_MAX = 200
DAYS_MAX = 31
RANGE_MIN_MS = 1000
REQUESTS_MAX = 20
_BATCH_ROWS = 8192  # few rows are wanted: reading stops early
_REQUEST_COLUMNS = [
    "recorded_at_ms", "broker_id", "api_name", "user", "client_id", "logged_throttle_time_ms",
    "replayed_throttle_time_ms", "logged_admitted", "verdict", "source_file", "source_line",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class EntityQuery:
    """What of a client is shown: times in epoch ms, None where the page may choose."""

    quota_type: str | None = None
    from_ms: int | None = None
    until_ms: int | None = None
    broker_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EntityView:
    """What is shown of one client: of the brokers in ``history`` those in ``shown`` are drawn."""

    uses: tuple[EntityUse, ...]
    use: EntityUse
    wanted: Wanted
    history: History
    shown: tuple[Series, ...]
    marks: list[QuotaMark]
    findings: tuple[Finding, ...]


def entity_view(scope: RunScope, name: str, query: EntityQuery) -> EntityView | None:
    """Return the view of the client ``name`` (see ``entity_id``); None where it is unknown."""
    uses = tuple(one for one in entities_of(scope) if one.entity_id == name)
    if not uses:
        return None
    use = next((one for one in uses if one.quota_type == query.quota_type), uses[0])
    wanted, history = _chosen(scope, use, query)
    shown = [s for s in history.series if not query.broker_ids or s.broker_id in query.broker_ids]
    highest = {s.broker_id: float(np.nanmax(s.value, initial=-np.inf)) for s in shown}
    shown.sort(key=lambda s: (-int(s.throttle_time_ms.sum()), -highest[s.broker_id], s.broker_id))
    shown = sorted(shown[:PANELS_MAX], key=lambda s: s.broker_id)
    return EntityView(
        uses=tuple(sorted(uses, key=lambda one: one.quota_type)),
        use=use,
        wanted=wanted,
        history=history,
        shown=tuple(shown),
        marks=quota_marks(scope, wanted),
        findings=tuple(f for f in findings_of(scope) if _is_about(f, use)),
    )


def entity_page(place: Place, scope: RunScope, name: str, query: EntityQuery) -> str | None:
    """Return the page of the client ``name``; None where the day has no such client."""
    view = entity_view(scope, name, query)
    if view is None:
        return None
    return render(
        "entity.html.j2",
        place,
        query=query,
        view=view,
        chart=chart_of(scope, view),
        demand=_demand(scope, view.wanted),
        requests=throttled_requests(scope, view.wanted, tuple(s.broker_id for s in view.shown)),
        broker_ids=[series.broker_id for series in view.history.series],
        rows=table_rows(view, TABLE_ROWS_MAX),
        rows_in_all=sum(len(series.start_ms) for series in view.shown),
        panels_max=PANELS_MAX,
        verdicts=VERDICTS,
        team_of=team_of(scope),
    )


def chart_of(scope: RunScope, view: EntityView) -> dict[str, Any]:
    """Return the chart's data: a panel for each broker, times in epoch ms, numbers in ``unit``."""
    wanted, step_ms = view.wanted, view.history.step_ms
    starts = _sample_starts(scope, view)
    panels = []
    for series in view.shown:
        broker_id = series.broker_id
        panels.append(
            {
                "broker": broker_id,
                "t": series.start_ms.tolist(),
                "value": _numbers(series.value),
                "bound": _numbers(series.bound),
                "throttled": _stretches(series, step_ms),
                "changes": [
                    [mark.at_ms, mark.text]
                    for mark in view.marks
                    if mark.broker_id in (None, broker_id)
                ],
                "findings": [
                    [f.from_ms, f.until_ms, shortened(f.explanation)]
                    for f in view.findings
                    if f.broker_id in (None, broker_id)
                ],
                "samples": starts.get(broker_id) or [],
            }
        )
    return {
        "kind": "history",
        "value": "tokens" if wanted.is_tokens else "rate",
        "unit": unit_of(wanted.quota_type),
        "from": wanted.from_ms,
        "until": wanted.until_ms,
        "day": [day_begin_ms(scope.day), day_begin_ms(scope.day) + DAY_MS],
        "step_ms": step_ms,
        "panels": panels,
    }


def table_rows(view: EntityView, rows_max: int | None = None) -> list[Mapping[str, Any]]:
    """Return the steps of the shown brokers as rows, the first by time and broker."""
    if not view.shown:
        return []
    start_ms = np.concatenate([s.start_ms for s in view.shown])
    broker_id = np.concatenate([np.full(len(s.start_ms), s.broker_id) for s in view.shown])
    index = np.concatenate([np.arange(len(s.start_ms)) for s in view.shown])
    of_broker = {s.broker_id: s for s in view.shown}
    rows: list[Mapping[str, Any]] = []
    for at in np.lexsort((broker_id, start_ms))[:rows_max].tolist():
        series, i = of_broker[int(broker_id[at])], int(index[at])
        rows.append(
            {
                "start_ms": int(start_ms[at]),
                "broker_id": series.broker_id,
                "value": _number(series.value[i]),
                "bound": _number(series.bound[i]),
                "amount": float(series.amount[i]),
                "throttled_requests": int(series.throttled_requests[i]),
                "throttle_time_ms": int(series.throttle_time_ms[i]),
            }
        )
    return rows


def _chosen(scope: RunScope, use: EntityUse, query: EntityQuery) -> tuple[Wanted, History]:
    """Return the wanted range and its history; times not asked for come from the day's history."""
    day_ms = day_begin_ms(scope.day)
    whole = Wanted(use.quota_type, use.quota_user, use.quota_client_id, day_ms, day_ms + DAY_MS)
    from_ms, until_ms, of_day = query.from_ms, query.until_ms, None
    if from_ms is None or until_ms is None:
        of_day = read_history(scope, whole)
        active_from_ms, active_until_ms = _active(of_day, whole)
        from_ms = active_from_ms if from_ms is None else from_ms
        until_ms = active_until_ms if until_ms is None else until_ms
    until_ms = max(until_ms, from_ms + RANGE_MIN_MS)
    from_ms = max(from_ms, until_ms - DAYS_MAX * DAY_MS)
    wanted = replace(whole, from_ms=from_ms, until_ms=until_ms)
    if of_day is not None and wanted == whole:
        return wanted, of_day
    return wanted, read_history(scope, wanted)


def _active(day: History, whole: Wanted) -> tuple[int, int]:
    """Return the span (epoch ms) of the traffic if at most a quarter of the day, else the day."""
    if not day.series:
        return whole.from_ms, whole.until_ms
    first = min(int(s.start_ms[0]) for s in day.series)
    last = max(int(s.start_ms[-1]) for s in day.series) + day.step_ms
    if last - first > DAY_MS // 4:
        return whole.from_ms, whole.until_ms
    return first, last


def _is_about(finding: Finding, use: EntityUse) -> bool:
    key = (finding.quota_type, finding.quota_user, finding.quota_client_id)
    return key == (use.quota_type, use.quota_user, use.quota_client_id)


def _stretches(series: Series, step_ms: int) -> list[list[int]]:
    """Return the throttled stretches as [from, until, requests, throttle ms]."""
    found: list[list[int]] = []
    for i in np.flatnonzero(series.throttled_requests > 0).tolist():
        start, requests = int(series.start_ms[i]), int(series.throttled_requests[i])
        time_ms = int(series.throttle_time_ms[i])
        if found and found[-1][1] == start:
            last = found[-1]
            found[-1] = [last[0], start + step_ms, last[2] + requests, last[3] + time_ms]
        else:
            found.append([start, start + step_ms, requests, time_ms])
    return found


def _sample_starts(scope: RunScope, view: EntityView) -> dict[int, list[int]]:
    wanted = view.wanted
    if wanted.is_tokens or wanted.until_ms - wanted.from_ms > SAMPLES_RANGE_MAX_MS:
        return {}
    rows = read_table(scope, "brokers", ["broker_id", "window_ms"]).to_pylist()
    shown = {series.broker_id for series in view.shown}
    windows = {r["broker_id"]: r["window_ms"] for r in rows if r["broker_id"] in shown}
    return sample_starts_of(scope, wanted, windows)


def _demand(scope: RunScope, wanted: Wanted) -> list[dict[str, Any]]:
    found = read_kept([scope], "demand", DEMAND.names, wanted.is_client)
    rows: list[dict[str, Any]] = found.to_pylist()
    return sorted(rows, key=lambda row: (-row["throttle_time_ms"], row["broker_id"]))


def _numbers(values: Floats) -> list[float | None]:
    """Return the values rounded to six digits of the largest one; None where not finite."""
    is_known = np.isfinite(values)
    largest = float(np.abs(values[is_known]).max(initial=0.0)) or 1.0
    shown = np.round(values, 5 - math.floor(math.log10(largest))).tolist()
    return [value if known else None for value, known in zip(shown, is_known, strict=True)]


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def throttled_requests(
    scope: RunScope, wanted: Wanted, broker_ids: tuple[int, ...]
) -> list[dict[str, Any]]:
    """Return up to REQUESTS_MAX requests of the day in the range; reading stops with the last.

    Rows of ``decisions``, in order of time, the topics of a mutation as one; ``line`` names the
    line of the log as ``explain`` takes it.
    """
    held_back = (ds.field("logged_throttle_time_ms") > 0) | ~ds.field("logged_admitted")
    where = replace(wanted, broker_ids=broker_ids).is_row("recorded_at_ms") & held_back
    found = kept_table(scope, "decisions").scanner(
        columns=_REQUEST_COLUMNS,
        filter=where,
        batch_size=_BATCH_ROWS,
        batch_readahead=1,
        fragment_readahead=1,
    )
    requests: dict[tuple[str, int], dict[str, Any]] = {}
    for row in found.head(REQUESTS_MAX).to_pylist():
        line = (row["source_file"], row["source_line"])
        requests[line] = _together(requests[line], row) if line in requests else row
    for (file, number), row in requests.items():
        row["line"] = f"{file}:{number}"
        row["client"] = shortened(visible(row["client_id"] or ""))
    return sorted(requests.values(), key=lambda row: (row["recorded_at_ms"], row["source_line"]))


def _together(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return two topics of a mutation as the request that they came in."""
    replayed = [r["replayed_throttle_time_ms"] for r in (one, other)]
    worse = other if one["verdict"] == "agree" else one
    return one | {
        "logged_admitted": one["logged_admitted"] and other["logged_admitted"],
        "replayed_throttle_time_ms": max((ms for ms in replayed if ms is not None), default=None),
        "verdict": worse["verdict"],
    }
