"""The command ``quota-audit crosscheck``: brokers' own metrics beside an audited day."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.cli.options import AsJson, ClusterName, LastDay, Warehouse, option


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
    from spark_jobs.cli.print_crosscheck import instance_brokers, print_crosscheck

    instances = instance_brokers(broker or [])
    found = print_crosscheck(
        export, warehouse.absolute(), cluster, day and day.date(), instances, as_json=as_json
    )
    if exit_code and found.findings:
        raise typer.Exit(1)
