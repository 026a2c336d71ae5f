"""The commands that look closer: at one request, one client, two audits, other rules."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.cli.options import (
    AsJson,
    BrokerVersion,
    Cluster,
    ClusterName,
    Day,
    ExplainDay,
    IgnoreServerLogs,
    LastDay,
    ListPolicies,
    OptionalArchive,
    OptionalDay,
    OptionalWarehouse,
    Policies,
    ReplayMode,
    Scenario,
    ScoredWarehouse,
    Snapshot,
    Timezone,
    Warehouse,
    ingest_options,
    option,
    warehouse_option,
)
from spark_jobs.cli.scopes import named_run, scope_of
from spark_jobs.errors import BadInputError


def explain(
    warehouse: Warehouse,
    cluster: ClusterName = "default",
    day: ExplainDay = None,
    line: Annotated[
        str | None,
        option("--line FILE:NUMBER", "The request's line: file of the archive and number."),
    ] = None,
    user: Annotated[str | None, option("--user NAME", "User of the client.")] = None,
    client_id: Annotated[str | None, option("--client-id NAME", "Client-id.")] = None,
    broker: Annotated[int | None, option("--broker ID", "Broker's id.")] = None,
    at: Annotated[
        str | None,
        option(
            "--at MOMENT",
            "The client's last request at that moment: 02:41:00.250 of the day, or with day "
            "and zone, 2026-11-21T02:41:00.250+01:00; UTC where it names none [default: the end "
            "of the day].",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say why a request was throttled, or why not.

    Says which quotas counted it, and how a throttle came out of them, step by step.
    """
    from spark_jobs.explain.explain_request import Asked, print_explanation

    if not (line or user or client_id):
        raise BadInputError("which request? Give --line, or --user or --client-id, with --at.")
    asked = Asked(line, user, client_id, at, broker)
    print_explanation(warehouse.absolute(), cluster, day and day.date(), asked, as_json=as_json)


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
    from spark_jobs.cli.print_which_quota import print_which_quota

    print_which_quota(warehouse.absolute(), cluster, user, client_id, broker, at)


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
    from spark_jobs.cli.print_whatif import WhatifRequest, modes_of, print_whatif
    from spark_jobs.whatif.policies.catalogue import POLICIES

    if list_policies:
        print("\n".join(POLICIES))
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


def diff(
    first: Annotated[
        str,
        typer.Argument(
            help="[WAREHOUSE@]DAY, or DAY:previous for the run before.", metavar="RUN_A"
        ),
    ],
    second: Annotated[str, typer.Argument(help="The same for the other one.", metavar="RUN_B")],
    warehouse: Annotated[
        Path | None,
        warehouse_option("Where audits are that are named by their day only."),
    ] = None,
    cluster: ClusterName = "default",
    exit_code: Annotated[
        bool,
        option("--exit-code", "End with 1 where decisions of the same log differ."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print what differs between two audits.

    They are of two days, or of one log by two versions of this program.
    """
    from spark_jobs.publish.diff import diff_object, diff_of, diff_text

    there = warehouse and warehouse.absolute()
    found = diff_of(named_run(first, there, cluster), named_run(second, there, cluster))
    sys.stdout.write(json.dumps(diff_object(found)) + "\n" if as_json else diff_text(found))
    if exit_code and found.changed_decisions:
        raise typer.Exit(1)


def crosscheck(
    export: Annotated[
        list[Path],
        typer.Argument(
            help="What Prometheus answered to a query of kafka_server_quota_byte_rate or "
            "…_throttle_time over a range of time: .json, .json.gz or .json.zst.",
            metavar="EXPORT",
        ),
    ],
    warehouse: Warehouse,
    cluster: ClusterName = "default",
    day: LastDay = None,
    broker: Annotated[
        list[str] | None,
        option(
            "--broker ID=HOST:PORT",
            "Broker's id of a label instance, where no other label tells it. Repeatable.",
        ),
    ] = None,
    exit_code: Annotated[
        bool, option("--exit-code", "End with 1 where metrics and log disagree.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare what brokers measured with an audited day.

    Compared are byte rates and throttle times.
    """
    from spark_jobs.cli.print_agreement import instance_brokers, print_crosscheck

    instances = instance_brokers(broker or [])
    found = print_crosscheck(
        export, warehouse.absolute(), cluster, day and day.date(), instances, as_json=as_json
    )
    if exit_code and found.findings:
        raise typer.Exit(1)


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
    from spark_jobs.cli.print_agreement import print_score
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


def detect_profile(warehouse: Warehouse, day: Day, cluster: ClusterName = "default") -> None:
    """Print which rate profile explains a day's throttles best.

    A profile is how a generation of brokers computes rates.
    """
    from spark_jobs.cli.print_profiles import print_profiles
    from spark_jobs.spark.spark_session import spark_session

    with spark_session("detect-profile") as spark:
        print_profiles(spark, scope_of(warehouse, cluster, day))
