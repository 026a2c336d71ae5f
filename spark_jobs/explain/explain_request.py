"""Explaining one request of an audited day: which one, and what its sensors had counted."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import typer

from spark_jobs.errors import BadInputError
from spark_jobs.explain.explanation import DecisionHistory, Explanation, explanation
from spark_jobs.quota.sensor_key import SENSOR_COLUMNS
from spark_jobs.recommend.weigh.configured_values import configured_entity
from spark_jobs.settings import IngestSettings
from spark_jobs.warehouse.days import moment_of, newest_day, since_epoch_ms
from spark_jobs.warehouse.read import open_table, read_table
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.wording.numbers import moment

Row = Mapping[str, Any]

_EARLIER = (
    "sensor_seq", "recorded_at_ms", "amount", "bound", "is_unrecorded", "logged_throttle_time_ms",
    "logged_admitted", "api_name", "api_version",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """Which request is meant: a line of the log, or a client's last one at a moment."""

    line: str | None = None
    user: str | None = None
    client_id: str | None = None
    at: str | None = None
    broker_id: int | None = None


def print_explanation(
    warehouse: Path, cluster: str, day: dt.date | None, asked: Asked, *, as_json: bool
) -> None:
    """Print why a request was throttled, or why not, as text or as one JSON object.

    Raises BadInputError where the request is not among the decisions of an audited day.
    """
    found = explained(warehouse, cluster, day, asked)
    if as_json:
        print(json.dumps(dataclasses.asdict(found)))
        return
    typer.echo("\n".join(text_lines(found)))


def text_lines(found: Explanation) -> list[str]:
    """Return the explanation as lines of plain text."""
    lines = [found.headline, found.outcome, f"({found.place})"]
    for section in found.sections:
        lines += ["", section.quota_type, *(f"  {line}" for line in section.lines)]
    return lines


def explained(warehouse: Path, cluster: str, day: dt.date | None, asked: Asked) -> Explanation:
    """Return the explanation of the request that is meant; see :func:`print_explanation`."""
    scope = _scope(warehouse, cluster, day, asked)
    rows = _by_line(scope, asked.line) if asked.line else _by_client(scope, asked)
    rows.sort(key=lambda row: (-row["logged_throttle_time_ms"], row["quota_type"]))
    return explanation([_history(scope, row) for row in rows])


def _scope(warehouse: Path, cluster: str, day: dt.date | None, asked: Asked) -> RunScope:
    days = days_of(warehouse, cluster, "decisions")
    wanted = day or (moment_of(asked.at).date() if asked.at and "T" in asked.at else None)
    if not days or wanted not in (None, *days):
        there = ", ".join(map(str, days)) or "none"
        raise BadInputError(
            f"{warehouse} has no audited day{f' {wanted}' if wanted else ''} of the cluster "
            f"{cluster!r}; the days there are: {there}. Run 'quota-audit run' on an archive first, "
            "or give another --day."
        )
    return RunScope(
        warehouse, cluster, wanted or newest_day(days, IngestSettings().latest_day())
    ).pinned()


def _by_line(scope: RunScope, line: str) -> list[Row]:
    matched = re.fullmatch(r"(.+):(\d+)", line)
    if not matched:
        raise BadInputError(
            f"--line {line!r}: expected a file of the archive and a line number, as in "
            "broker=1/kafka-request.log:120."
        )
    file, number = matched[1], int(matched[2])
    rows = _rows(scope, file, number)
    if not rows:
        raise BadInputError(
            f"no decision of {scope.day} is about line {number} of {file}: the names of files are "
            "in the table files, and requests that no quota counts have no decision."
        )
    return rows


def _by_client(scope: RunScope, asked: Asked) -> list[Row]:
    at_ms = _at_ms(scope, asked.at)
    chosen = pc.field("recorded_at_ms") <= at_ms
    named = {"user": asked.user, "client_id": asked.client_id, "broker_id": asked.broker_id}
    for name, value in named.items():
        if value is not None:
            chosen &= pc.field(name) == value
    lines = open_table(scope, "decisions").to_table(
        columns=["recorded_at_ms", "sensor_seq", "source_file", "source_line"], filter=chosen
    )
    if not len(lines):
        who = ", ".join(f"{name} {value!r}" for name, value in named.items() if value is not None)
        raise BadInputError(
            f"no decision of {scope.day} up to {moment(at_ms)} is about {who or 'anybody'}. Names "
            "are as the brokers log them; give a later --at, or fewer of --user, --client-id, "
            "--broker."
        )
    order = [("recorded_at_ms", "descending"), ("sensor_seq", "descending")]
    last = lines.take(pc.select_k_unstable(lines, 1, order)).to_pylist()[0]
    return _rows(scope, last["source_file"], last["source_line"])


def _rows(scope: RunScope, file: str, line: int) -> list[Row]:
    chosen = (pc.field("source_file") == file) & (pc.field("source_line") == line)
    rows: list[Row] = open_table(scope, "decisions").to_table(filter=chosen).to_pylist()
    return rows


def _history(scope: RunScope, decision: Row) -> DecisionHistory:
    sensor = pc.scalar(True)
    for name in (*SENSOR_COLUMNS, "sensor_epoch"):
        sensor &= pc.field(name) == decision[name]
    earlier = (
        open_table(scope, "decisions")
        .to_table(
            columns=list(_EARLIER),
            filter=sensor & (pc.field("sensor_seq") < decision["sensor_seq"]),
        )
        .sort_by("sensor_seq")
        .to_pylist()
    )
    begins = earlier[0]["sensor_seq"] if earlier else decision["sensor_seq"]
    (broker,) = (
        row
        for row in read_table(scope, "brokers").to_pylist()
        if row["broker_id"] == decision["broker_id"]
    )
    carried = _carried(scope, decision) if begins > 0 else None
    return DecisionHistory(decision, broker, carried, earlier, _proposals(scope, decision))


def _carried(scope: RunScope, decision: Row) -> Row | None:
    """Return the sensor's state at the end of the last day before that has states, None without."""
    before = [d for d in days_of(scope.warehouse, scope.cluster, "quota_state") if d < scope.day]
    if not before:
        return None
    rows = read_table(scope.on(before[-1]), "quota_state")
    names = (*SENSOR_COLUMNS, "sensor_epoch")
    same = [r for r in rows.to_pylist() if all(r[name] == decision[name] for name in names)]
    return same[0] if same else None


def _proposals(scope: RunScope, decision: Row) -> list[Row]:
    """Return the recommendations on the quota that was followed, and on this client by name."""
    if decision["quota_level"] is None:
        return []
    key = decision["quota_user"], decision["quota_client_id"]
    followed = configured_entity(decision["quota_level"], *key)
    entities = {(followed.user, followed.client_id), (key[0] or None, key[1] or None)}
    rows = read_table(scope, "recommendations").to_pylist()
    return [
        row
        for row in rows
        if row["quota_type"] == decision["quota_type"]
        and (row["quota_user"], row["quota_client_id"]) in entities
    ]


def _at_ms(scope: RunScope, at: str | None) -> int:
    """Return the moment in ms; a time of day is of the day that is explained."""
    if at is None:
        return since_epoch_ms(dt.datetime.combine(scope.day, dt.time.max, dt.UTC))
    return since_epoch_ms(moment_of(at if "T" in at else f"{scope.day}T{at}"))
