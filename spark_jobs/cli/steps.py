"""The commands that run one step of the audit each."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Annotated

import typer

from spark_jobs.cli.options import (
    ArchiveFolder,
    BrokerVersion,
    Cluster,
    ClusterName,
    Day,
    IgnoreProperties,
    IgnoreServerLogs,
    Listener,
    MetricsArchive,
    OptionalDay,
    Prefix,
    RecommendFile,
    Snapshot,
    TakeOver,
    Timezone,
    Warehouse,
    ingest_options,
)
from spark_jobs.cli.scopes import draft_of, draft_or_published_of, scope_of


def ingest(
    archive: ArchiveFolder,
    warehouse: Warehouse,
    cluster: Cluster = None,
    day: OptionalDay = None,
    timezone: Timezone = "UTC",
    broker_version: BrokerVersion = None,
    listener: Listener = None,
    prefix: Prefix = None,
    snapshot: Snapshot = None,
    ignore_server_logs: IgnoreServerLogs = False,
    ignore_server_properties: IgnoreProperties = False,
    take_over: TakeOver = False,
) -> None:
    """Read request logs into tables.

    These are requests, quota_events, brokers, files and quarantine.
    """
    from spark_jobs.ingest.archive import choose_cluster, find_archive
    from spark_jobs.ingest.ingest_requests import ingest_requests
    from spark_jobs.spark.spark_session import spark_session
    from spark_jobs.warehouse.write import new_run

    options = ingest_options(
        timezone, broker_version, listener, prefix, snapshot, ignore_server_logs,
        ignore_server_properties,
    )  # fmt: skip
    found = find_archive(archive, choose_cluster(archive, cluster))
    with spark_session("ingest") as spark:
        report = ingest_requests(
            spark,
            found,
            warehouse.absolute(),
            day.date() if day else None,
            options,
            new_run(take_over=take_over),
        )
    typer.echo(report.sentence())


def resolve(
    warehouse: Warehouse, day: Day, cluster: ClusterName = "default", take_over: TakeOver = False
) -> None:
    """Turn quota events into the timeline of quota values.

    The table quota_changes says which value held from when to when.
    """
    from spark_jobs.resolve.resolve_quotas import resolve_quotas

    typer.echo(resolve_quotas(draft_of(warehouse, cluster, day, take_over)))


def replay(
    warehouse: Warehouse, day: Day, cluster: ClusterName = "default", take_over: TakeOver = False
) -> None:
    """Replay every decision of a day.

    Writes the tables decisions, rates and quota_state.
    """
    from spark_jobs.replay.replay_quotas import replay_quotas
    from spark_jobs.spark.spark_session import spark_session

    with spark_session("replay") as spark:
        typer.echo(replay_quotas(spark, draft_of(warehouse, cluster, day, take_over)))


def judge(
    warehouse: Warehouse,
    day: Day,
    cluster: ClusterName = "default",
    archive: MetricsArchive = None,
    take_over: TakeOver = False,
) -> None:
    """Gather wrong decisions into findings to act on."""
    from spark_jobs.ingest.archive import list_archive
    from spark_jobs.judge.judge_decisions import judge_decisions
    from spark_jobs.spark.spark_session import spark_session

    with ExitStack() as stack:
        session = partial(stack.enter_context, spark_session("judge"))
        metrics = list_archive(archive, cluster).metrics if archive else ()
        typer.echo(
            judge_decisions(session, draft_of(warehouse, cluster, day, take_over), metrics=metrics)
        )


def recommend(
    warehouse: Warehouse,
    day: Day,
    cluster: ClusterName = "default",
    settings: RecommendFile = None,
    take_over: TakeOver = False,
) -> None:
    """Propose quota values, each with evidence and a backtest.

    They follow from a day and the days before it.
    """
    from spark_jobs.recommend.recommend_quotas import read_settings, recommend_quotas

    scope = draft_or_published_of(warehouse, cluster, day, take_over)
    typer.echo(recommend_quotas(scope, read_settings(settings)))


def validate(
    stage: Annotated[
        str, typer.Argument(help="ingested, replayed, judged, whatif or applied.", metavar="STAGE")
    ],
    warehouse: Warehouse,
    day: Day,
    cluster: ClusterName = "default",
    take_over: TakeOver = False,
) -> None:
    """Check the tables of a stage with Great Expectations.

    A critical failure exits with 1.
    """
    from spark_jobs.audit.validate_tables import validate_stage

    typer.echo(validate_stage(draft_or_published_of(warehouse, cluster, day, take_over), stage))


def publish(
    warehouse: Warehouse, day: Day, cluster: ClusterName = "default", take_over: TakeOver = False
) -> None:
    """Publish a day: its tables and the report.

    Beside the report are recommendations as CSV, and scripts to apply them. A run that lacks a
    table, or whose last tables were not validated, is refused.
    """
    from spark_jobs.publish.publish_report import publish_run
    from spark_jobs.warehouse.write import draft_to_publish

    scope = scope_of(warehouse, cluster, day)
    typer.echo(publish_run(draft_to_publish(scope, take_over=take_over)))
