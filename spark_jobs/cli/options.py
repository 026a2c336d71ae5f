"""What the options and arguments of the command line are called, and mean."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_jobs.warehouse.storage import place, usable_place

if TYPE_CHECKING:
    from spark_jobs.ingest.ingest_options import IngestOptions


def _warehouse_option(said: str) -> Any:
    return typer.Option("--warehouse", "-w", parser=usable_place, help=said, metavar="PLACE")


def day_option(name: str, said: str) -> Any:
    """Return an option that takes a day as YYYY-MM-DD."""
    return typer.Option(name, formats=["%Y-%m-%d"], help=said, metavar="YYYY-MM-DD")


Warehouse = Annotated[
    Path,
    _warehouse_option("Folder of the tables, or s3://bucket/key; made when missing."),
]
ArchiveFolder = Annotated[
    Path,
    typer.Argument(
        parser=usable_place,
        help="Archive folder, or s3://bucket/key: [cluster=<name>/]broker=<id>/…/"
        "kafka-request.log* (plain, .gz or .zst).",
        metavar="ARCHIVE",
    ),
]
Cluster = Annotated[str | None, typer.Option("--cluster", help="Cluster name [default: default].")]
ClusterName = Annotated[str, typer.Option("--cluster", help="Cluster name.")]
Day = Annotated[
    dt.datetime,
    day_option("--day", "UTC day to work on."),
]
LastDay = Annotated[
    dt.datetime | None,
    day_option("--day", "Audited UTC day [default: the last one]."),
]
OptionalDay = Annotated[
    dt.datetime | None,
    day_option("--day", "UTC day to audit [default: every day in the archive]."),
]
OnlyDue = Annotated[
    bool,
    typer.Option(
        "--due",
        help="Only days that are not audited yet, whose files are new or have changed, or whose "
        "day before was audited again.",
    ),
]
BrokerVersion = Annotated[
    str | None,
    typer.Option(
        "--broker-version",
        help="Kafka version of the brokers: 4.1.0 for all, or 1=3.7.2,2=4.1.0 "
        "[default: kafka-version.txt in the archive, else detected].",
    ),
]
Timezone = Annotated[
    str, typer.Option("--timezone", help="Time zone of the log lines, as in Europe/Berlin.")
]
Listener = Annotated[
    list[str] | None,
    typer.Option(
        "--listener",
        help="Broker of a listener address, host:port=<id>, for archives without broker=<id> "
        "folders. Repeatable.",
    ),
]
Prefix = Annotated[
    str | None,
    typer.Option("--prefix", help="Regular expression of what stands before each log line."),
]
Snapshot = Annotated[
    list[Path] | None,
    typer.Option(
        "--snapshot",
        help="Quotas in force before the log starts: output of kafka-configs.sh --describe, "
        "or JSON. Repeatable.",
        exists=True,
        dir_okay=False,
    ),
]
IgnoreServerLogs = Annotated[
    bool, typer.Option("--ignore-server-logs", help="Do not read server.log* beside the requests.")
]
IgnoreProperties = Annotated[
    bool,
    typer.Option("--ignore-server-properties", help="Do not read server.properties."),
]
OptionalArchive = Annotated[
    Path | None,
    typer.Argument(
        parser=usable_place,
        help="Archive folder to ingest first [default: what --warehouse holds].",
        metavar="ARCHIVE",
    ),
]
MetricsArchive = Annotated[
    Path | None,
    typer.Option(
        "--archive",
        parser=usable_place,
        help="Archive whose broker-metrics*.json are compared with the decisions [default: none].",
        metavar="ARCHIVE",
    ),
]
OptionalWarehouse = Annotated[
    Path | None,
    _warehouse_option("Read tables from here, and keep them [default: keep nothing]."),
]
ScoredWarehouse = Annotated[
    Path | None,
    _warehouse_option("Score what is in this warehouse [default: audit anew]."),
]
Scenario = Annotated[
    Path | None,
    typer.Option(
        "--scenario",
        parser=place,
        help="TOML file of policies; see docs/whatif.md.",
        metavar="PLACE",
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        help="Name or label of a policy of the scenario [default: all]; without a scenario, of a "
        "policy with nothing configured. Repeatable.",
    ),
]
RecommendFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        help="TOML file of what a proposal needs and may do; see docs/recommendations.md.",
    ),
]
ReplayMode = Annotated[
    str,
    typer.Option(
        "--mode",
        help="as_logged: arrivals fixed; closed_loop: clients wait and retry as they are answered; "
        "both.",
    ),
]
ListPolicies = Annotated[
    bool, typer.Option("--list-policies", help="Print the policies' names, one a line.")
]
RenderTarget = Annotated[
    str,
    typer.Option(
        "--target",
        help="kafka-configs, admin-json, strimzi, jikkou, terraform, rpk or kip13.",
    ),
]
ProposalDay = Annotated[
    dt.datetime | None,
    day_option(
        "--day", "UTC day whose proposals are meant [default: the newest with recommendations]."
    ),
]
ExplainDay = Annotated[
    dt.datetime | None,
    day_option("--day", "UTC day of the request [default: that of --at, else the newest]."),
]
Rollback = Annotated[
    bool, typer.Option("--rollback", help="Print what takes the changes back instead.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
BootstrapServer = Annotated[
    str,
    typer.Option(
        "--bootstrap-server", help="Brokers of the cluster to change.", metavar="HOST:PORT,…"
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        help="Kafka client properties file with TLS and SASL settings, as kafka-configs.sh takes "
        "it. Secrets stand there and nowhere else.",
        dir_okay=False,
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        help="Apply only this: users/NAME, clients/NAME or users/NAME/clients/NAME, and maybe "
        ":QUOTA_TYPE. Repeatable.",
        metavar="ENTITY[:TYPE]",
    ),
]
Execute = Annotated[
    bool, typer.Option("--execute", help="Change the cluster [default: dry run, changes nothing].")
]
AllowDelete = Annotated[
    bool, typer.Option("--allow-delete", help="Allow proposals that delete an entity's value.")
]
By = Annotated[
    str | None,
    typer.Option("--by", help="Who is recorded [default: the user of the operating system]."),
]
Note = Annotated[str | None, typer.Option("--note", help="Recorded beside each change.")]
Change = Annotated[
    str | None,
    typer.Option(
        "--change",
        help="Id of the application to take back [default: the last that still stands].",
        metavar="ID",
    ),
]


def ingest_options(
    timezone: str,
    broker_version: str | None,
    listener: list[str] | None,
    prefix: str | None,
    snapshot: list[Path] | None,
    ignore_server_logs: bool,
    ignore_server_properties: bool,
) -> IngestOptions:
    """Return what the options of every command that reads an archive say."""
    from spark_jobs.ingest.ingest_options import IngestOptions

    return IngestOptions.of(
        timezone=timezone,
        broker_version=broker_version,
        listeners=listener or [],
        prefix=prefix,
        snapshots=tuple(snapshot or ()),
        use_server_logs=not ignore_server_logs,
        use_server_properties=not ignore_server_properties,
    )
