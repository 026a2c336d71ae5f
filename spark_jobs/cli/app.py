"""The command line ``quota-audit``: the audit as one command, and each step on its own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_jobs.cli.anonymize import anonymize
from spark_jobs.cli.archive import list_days, list_due
from spark_jobs.cli.changes import apply_changes, roll_back
from spark_jobs.cli.check import check_archive
from spark_jobs.cli.crosscheck import crosscheck
from spark_jobs.cli.ending import ending
from spark_jobs.cli.explain import explain
from spark_jobs.cli.findings import acknowledge, diff, news
from spark_jobs.cli.grouped_help import ExampleCommand, GroupedCommands
from spark_jobs.cli.options import (
    ArchiveFolder,
    AsJson,
    BrokerVersion,
    Cluster,
    ClusterName,
    Day,
    IgnoreProperties,
    IgnoreServerLogs,
    Listener,
    ListPolicies,
    MetricsArchive,
    OnlyDue,
    OptionalArchive,
    OptionalDay,
    OptionalWarehouse,
    Policies,
    Prefix,
    ProposalDay,
    RecommendFile,
    RenderTarget,
    ReplayMode,
    Rollback,
    Scenario,
    ScoredWarehouse,
    Snapshot,
    Timezone,
    Warehouse,
    ingest_options,
    option,
)
from spark_jobs.cli.proposals import list_proposals
from spark_jobs.cli.upkeep import compact, doctor, migrate, prune
from spark_jobs.errors import BadInputError
from spark_jobs.version import VERSION

if TYPE_CHECKING:
    from spark_jobs.warehouse.scope import RunScope


def _scope(warehouse: Path, cluster: str, day: dt.datetime) -> RunScope:
    from spark_jobs.warehouse.scope import RunScope

    return RunScope(warehouse=warehouse.absolute(), cluster=cluster, day=day.date())


def _draft(warehouse: Path, cluster: str, day: dt.datetime) -> RunScope:
    from spark_jobs.warehouse.write import continued_draft

    return continued_draft(_scope(warehouse, cluster, day))


def _draft_or_published(warehouse: Path, cluster: str, day: dt.datetime) -> RunScope:
    from spark_jobs.warehouse.write import draft_or_published

    return draft_or_published(_scope(warehouse, cluster, day))


def run(
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
    due: OnlyDue = False,
) -> None:
    """Audit an archive, from its logs to the report.

    Every step in turn: ingest, resolve, replay, judge, validate, recommend, publish.
    """
    from spark_jobs.audit.run_audit import run_audit

    options = ingest_options(
        timezone, broker_version, listener, prefix, snapshot, ignore_server_logs,
        ignore_server_properties,
    )  # fmt: skip
    one_day = day.date() if day else None
    run_audit(archive, warehouse.absolute(), cluster, one_day, options, only_due=due)


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
            spark, found, warehouse.absolute(), day.date() if day else None, options, new_run()
        )
    typer.echo(report.sentence())


def resolve(warehouse: Warehouse, day: Day, cluster: ClusterName = "default") -> None:
    """Turn quota events into the timeline of quota values.

    The table quota_changes says which value held from when to when.
    """
    from spark_jobs.resolve.resolve_quotas import resolve_quotas

    typer.echo(resolve_quotas(_draft(warehouse, cluster, day)))


def replay(warehouse: Warehouse, day: Day, cluster: ClusterName = "default") -> None:
    """Replay every decision of a day.

    Writes the tables decisions, rates and quota_state.
    """
    from spark_jobs.replay.replay_quotas import replay_quotas
    from spark_jobs.spark.spark_session import spark_session

    with spark_session("replay") as spark:
        typer.echo(replay_quotas(spark, _draft(warehouse, cluster, day)))


def judge(
    warehouse: Warehouse,
    day: Day,
    cluster: ClusterName = "default",
    archive: MetricsArchive = None,
) -> None:
    """Gather wrong decisions into findings to act on."""
    from spark_jobs.ingest.archive import list_archive
    from spark_jobs.judge.judge_decisions import judge_decisions
    from spark_jobs.spark.spark_session import spark_session

    with ExitStack() as stack:
        session = partial(stack.enter_context, spark_session("judge"))
        metrics = list_archive(archive, cluster).metrics if archive else ()
        typer.echo(judge_decisions(session, _draft(warehouse, cluster, day), metrics=metrics))


def recommend(
    warehouse: Warehouse,
    day: Day,
    cluster: ClusterName = "default",
    settings: RecommendFile = None,
) -> None:
    """Propose quota values, each with evidence and a backtest.

    They follow from a day and the days before it.
    """
    from spark_jobs.recommend.recommend_quotas import read_settings, recommend_quotas

    scope = _draft_or_published(warehouse, cluster, day)
    typer.echo(recommend_quotas(scope, read_settings(settings)))


def render(
    target: RenderTarget,
    warehouse: Warehouse,
    cluster: ClusterName = "default",
    day: ProposalDay = None,
    rollback: Rollback = False,
) -> None:
    """Print a day's proposals as the file of a tool.

    What the tool cannot hold goes to standard error.
    """
    from spark_jobs.cli.print_render import print_render

    print_render(
        target, warehouse.absolute(), cluster, day.date() if day else None, is_rollback=rollback
    )


def validate(
    stage: Annotated[
        str, typer.Argument(help="ingested, replayed, judged, whatif or applied.", metavar="STAGE")
    ],
    warehouse: Warehouse,
    day: Day,
    cluster: ClusterName = "default",
) -> None:
    """Check the tables of a stage with Great Expectations.

    A critical failure exits with 1.
    """
    from spark_jobs.audit.validate_tables import validate_stage

    typer.echo(validate_stage(_draft_or_published(warehouse, cluster, day), stage))


def publish(warehouse: Warehouse, day: Day, cluster: ClusterName = "default") -> None:
    """Publish a day: its tables and the report.

    Beside the report are recommendations as CSV, and scripts to apply them.
    """
    from spark_jobs.publish.publish_report import publish_run

    typer.echo(publish_run(_draft_or_published(warehouse, cluster, day)))


def summary(warehouse: Warehouse, day: Day, cluster: ClusterName = "default") -> None:
    """Print the summary of an audited day."""
    from spark_jobs.publish.publish_report import print_summary

    print_summary(_scope(warehouse, cluster, day))


def which_quota(
    warehouse: Warehouse,
    user: Annotated[str, option("--user NAME", "Principal's name, as ANONYMOUS.")],
    client_id: Annotated[str, option("--client-id NAME", "Client id; may be empty.")] = "",
    broker: Annotated[
        int | None,
        option("--broker ID", "Broker id; may be left out where one is known."),
    ] = None,
    at: Annotated[
        str,
        option("--at MOMENT", "UTC moment, as 2026-11-21T02:41:00 [default: the end]."),
    ] = "",
    cluster: ClusterName = "default",
) -> None:
    """Print which quotas held for a client, and since when.

    Each with its value and its level.
    """
    from spark_jobs.resolve.which_quota import print_which_quota

    print_which_quota(warehouse.absolute(), cluster, user, client_id, broker, at)


def detect_profile(warehouse: Warehouse, day: Day, cluster: ClusterName = "default") -> None:
    """Print which rate profile explains a day's throttles best.

    A profile is how a generation of brokers computes rates.
    """
    from spark_jobs.replay.detect_profile import print_profiles
    from spark_jobs.spark.spark_session import spark_session

    with spark_session("detect-profile") as spark:
        print_profiles(spark, _scope(warehouse, cluster, day))


def digest(warehouse: Warehouse, day: OptionalDay = None, cluster: ClusterName = "default") -> None:
    """Print a digest of each table: equal tables, equal digests.

    A digest is of the rows in total order.
    """
    from spark_jobs.upkeep.digest_tables import print_digests

    print_digests(warehouse.absolute(), cluster, day.date() if day else None)


def score(
    capture: Annotated[
        Path, typer.Argument(help="Archive folder with broker=ID folders.", metavar="CAPTURE")
    ],
    warehouse: ScoredWarehouse = None,
    cluster: Cluster = None,
    day: OptionalDay = None,
    broker_version: BrokerVersion = None,
    timezone: Timezone = "UTC",
    ignore_server_logs: IgnoreServerLogs = False,
    bound_factor: Annotated[
        float,
        option(
            "--bound-factor NUMBER",
            "Replay with every bandwidth quota times this: a control, to score worse.",
        ),
    ] = 1.0,
    tampered: Annotated[
        Path | None,
        option("--tampered FILE", "JSON of planted faults: adds recall and precision."),
    ] = None,
    controls: Annotated[
        bool,
        option(
            "--controls",
            "Audit twice more, with bounds 5 % off and another rate: both must be worse.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print how far a replay agrees with what the brokers logged."""
    from spark_jobs.cli.print_score import print_score
    from spark_jobs.score.score_capture import ScoreRequest

    if warehouse and (broker_version or ignore_server_logs or bound_factor != 1):
        raise BadInputError(
            "--warehouse scores what was audited before: leave out --broker-version, "
            "--ignore-server-logs and --bound-factor, or leave out --warehouse."
        )
    options = ingest_options(timezone, broker_version, None, None, None, ignore_server_logs, False)
    request = ScoreRequest(
        capture=capture,
        options=options,
        warehouse=warehouse and warehouse.absolute(),
        cluster=cluster,
        day=day and day.date(),
        bound_factor=bound_factor,
        planted=tampered,
    )
    print_score(request, with_controls=controls, as_json=as_json)


def what_if(
    archive: OptionalArchive = None,
    warehouse: OptionalWarehouse = None,
    scenario: Scenario = None,
    policy: Policies = None,
    mode: ReplayMode = "as_logged",
    list_policies: ListPolicies = False,
    cluster: Cluster = None,
    day: OptionalDay = None,
    timezone: Timezone = "UTC",
    broker_version: BrokerVersion = None,
    snapshot: Snapshot = None,
    as_json: AsJson = False,
) -> None:
    """Print what requests would have got under other quota rules."""
    from spark_jobs.cli.print_whatif import (
        WhatifRequest,
        modes_of,
        print_policies,
        print_whatif,
    )

    if list_policies:
        print_policies()
        return
    options = ingest_options(timezone, broker_version, None, None, snapshot, False, False)
    request = WhatifRequest(
        archive=archive,
        warehouse=warehouse and warehouse.absolute(),
        scenario=scenario,
        policies=tuple(policy or ()),
        options=options,
        modes=modes_of(mode),
        cluster=cluster,
        day=day and day.date(),
    )
    print_whatif(request, as_json=as_json)


GROUPS: dict[str, tuple[tuple[str, Callable[..., None], str], ...]] = {
    "Every day": (
        ("run", run, "logs -w warehouse"),
        ("due", list_due, "logs -w warehouse"),
        ("days", list_days, "logs --timezone Europe/Berlin"),
        ("news", news, "-w warehouse --owner Orders"),
        ("acknowledge", acknowledge, "2a06 -w warehouse --owner Ada --reason moves --days 7"),
        ("summary", summary, "-w warehouse --day 2026-11-21"),
    ),
    "Look closer": (
        ("explain", explain, "-w warehouse --user alice --broker 2 --at 07:43:17"),
        ("which-quota", which_quota, "-w warehouse --user alice --broker 1"),
        ("whatif", what_if, "logs --policy kip13 --policy kip599 --mode both"),
        ("diff", diff, "-w warehouse 2026-11-20 2026-11-21"),
        ("crosscheck", crosscheck, "quota-metrics.json -w warehouse"),
        ("score", score, "logs --controls"),
        ("detect-profile", detect_profile, "-w warehouse --day 2026-11-21"),
    ),
    "Change quotas": (
        ("proposals", list_proposals, "-w warehouse"),
        ("render", render, "--target strimzi -w warehouse"),
        ("apply", apply_changes, "-w warehouse --bootstrap-server kafka:9092"),
        ("rollback", roll_back, "-w warehouse --bootstrap-server kafka:9092"),
    ),
    "Set up and keep": (
        ("check", check_archive, "logs"),
        ("anonymize", anonymize, "logs to-give-away --key-file secret.key"),
        ("doctor", doctor, "warehouse"),
        ("migrate", migrate, "warehouse --apply"),
        ("prune", prune, "warehouse --keep requests=14"),
        ("compact", compact, "warehouse --before 2026-11-01"),
        ("digest", digest, "-w warehouse --day 2026-11-21"),
    ),
    "Single steps": (
        ("ingest", ingest, "logs -w warehouse --day 2026-11-21"),
        ("resolve", resolve, "-w warehouse --day 2026-11-21"),
        ("replay", replay, "-w warehouse --day 2026-11-21"),
        ("judge", judge, "-w warehouse --day 2026-11-21"),
        ("recommend", recommend, "-w warehouse --day 2026-11-21"),
        ("validate", validate, "judged -w warehouse --day 2026-11-21"),
        ("publish", publish, "-w warehouse --day 2026-11-21"),
    ),
}
"""Group → its commands in the order of the help: name, function, what follows in an example."""

app = typer.Typer(
    name="quota-audit",
    cls=GroupedCommands,
    help="Replays Apache Kafka client quotas from archived request logs and judges the brokers.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # brackets in help texts are meant as such
    pretty_exceptions_enable=False,
)
for title, commands in GROUPS.items():
    for name, function, example in commands:
        app.command(
            name, cls=ExampleCommand, rich_help_panel=title, epilog=f"quota-audit {name} {example}"
        )(function)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"quota-audit {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        option("--version", "Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run; exit 0 audited, 1 quality or audit failed, 2 bad usage or input, 3 nothing to audit."""
    with ending():
        app()
