"""A small warehouse as an audit leaves it, decided by the real rules: what pages are tested over.

Cluster ``east`` on DAY: alice produces more than her bound on two brokers for a minute, bob
fetches below his, carol creates topics until she is refused. The day before, and cluster
``west``, hold one quiet client each.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from spark_jobs.judge.judge_decisions import roll_up_rates
from spark_jobs.publish.facts.quality import CheckedTable, RuleResult, StageQuality
from spark_jobs.publish.publish_report import publish_run, publish_whatif
from spark_jobs.warehouse.pipeline import AUDIT_STAGES
from spark_jobs.warehouse.scope import RunScope
from tests.builders.tables_builder import DAY, NOON_MS, Row, row, write_day, write_rows
from tests.spark_jobs.publish.page.whatif_builder import POLICIES, three_policies
from tests.spark_jobs.recommend.day import fetches, mutations, produces, steady

CLUSTER = "east"
BOUND = 50_000.0
SECOND_MS = 1000
_SENSOR = ("broker_id", "quota_type", "quota_user", "quota_client_id")


def small_warehouse(warehouse: Path) -> RunScope:
    """Write the warehouse and return the scope of its busy day."""
    for cluster, day in (("west", DAY), (CLUSTER, DAY - dt.timedelta(days=1))):
        quiet = produces(steady(20_000.0, 5), BOUND)
        published(RunScope(warehouse, cluster, day), quiet, findings=[], recommendations=[])
    scope = published(RunScope(warehouse, CLUSTER, DAY), busy_decisions())
    write_rows(scope, "whatif", three_policies())
    publish_whatif(scope, three_policies(), POLICIES)
    docs = warehouse / "data_docs" / "index.html"
    docs.parent.mkdir(exist_ok=True)
    docs.write_text("<!doctype html><title>Data Docs</title><h1>Data Docs</h1>")
    return scope


def busy_decisions(
    user: str = "alice", client_id: str | None = "app", source_file: str | None = None
) -> list[Row]:
    """Return a throttled producer on two brokers, a consumer, and mutations that were refused."""
    on_two = [
        produces(
            steady(80_000.0, 60), BOUND, waits=True, broker_id=broker, user=user, quota_user=user,
            client_id=client_id,
        )
        for broker in (1, 2)
    ]  # fmt: skip
    bob = fetches(steady(9_000.0, 30), BOUND, broker_id=1, user="bob", quota_user="bob")
    carol = mutations(steady(4.0, 20, per_second=1), 2.0, broker_id=1, user="carol",
                      quota_user="carol")  # fmt: skip
    rows = [*on_two[0], *on_two[1], *bob, *carol]
    return [
        r | {
            "source_line": line, "correlation_id": line,
            "source_file": source_file or f"broker={r['broker_id']}/kafka-request.log",
        }
        for line, r in enumerate(rows, start=1)
    ]  # fmt: skip


def published(scope: RunScope, decisions: Sequence[Row], **tables: list[Row]) -> RunScope:
    """Write a published day of ``decisions``; ``tables`` replace rows that would stand there."""
    write_day(scope)
    first = decisions[0]
    sensor = {name: first[name] for name in _SENSOR}
    entity = {name: first[name] for name in ("quota_type", "quota_user")}
    changed = NOON_MS + 20 * SECOND_MS
    written: dict[str, list[Row]] = {
        "decisions": list(decisions),
        "rates": list(rates_of(decisions)),
        "brokers": [row("brokers", broker_id=1), row("brokers", broker_id=2)],
        "findings": [row("findings", **sensor)],
        "demand": [row("demand", **sensor)],
        "quota_changes": [
            row("quota_changes", **entity, bound=BOUND / 2, valid_until_ms=changed),
            row("quota_changes", **entity, valid_from_ms=changed),
        ],
        "recommendations": [row("recommendations", **entity)],
        "quarantine": [row("quarantine")],
    } | tables
    for table, rows in written.items():
        write_rows(scope, table, rows)
    roll_up_rates(scope)
    write_quality(scope)
    publish_run(scope)
    return scope


def write_quality(scope: RunScope, rule: RuleResult | None = None) -> None:
    """Write what validation finds of every stage: one rule of one table."""
    folder = scope.output_dir("data_quality")
    folder.mkdir(parents=True, exist_ok=True)
    checked = rule or RuleResult("rates.rate_not_negative", "A rate is not negative.", success=True)
    for stage in AUDIT_STAGES:
        outcome = "passed" if checked.holds else "failed"
        found = StageQuality(stage, outcome, (CheckedTable("rates", 1, (checked,)),))
        (folder / f"{stage}.json").write_bytes(msgspec.json.encode(found))


def rates_of(decisions: Iterable[Row]) -> list[Row]:
    """Return the rates of each second, as the replay sums them up."""

    def key(made: Row) -> tuple[Any, ...]:
        return (*(made[name] for name in _SENSOR), made["recorded_at_ms"] // SECOND_MS)

    found = []
    for (*sensor, second), group in groupby(sorted(decisions, key=key), key):
        own = list(group)
        throttles = [d["logged_throttle_time_ms"] for d in own]
        found.append(
            row(
                "rates", **dict(zip(_SENSOR, sensor, strict=True)),
                second_ms=second * SECOND_MS,
                amount=sum(d["amount"] for d in own),
                rate=max((d["rate"] for d in own if d["rate"] is not None), default=None),
                tokens=min((d["tokens"] for d in own if d["tokens"] is not None), default=None),
                bound=own[-1]["bound"],
                throttled_requests=sum(t > 0 for t in throttles),
                throttle_time_ms=sum(throttles),
            )
        )  # fmt: skip
    return found
