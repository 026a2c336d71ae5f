"""What the options and arguments of the command line are called, and mean."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.storage import is_in_bucket, storage_path, usable_storage_path

if TYPE_CHECKING:
    from spark_jobs.ingest.ingest_options import IngestOptions


def option(spelled: str, said: str, **more: Any) -> Any:
    """Return an option as the help spells it: ``--day YYYY-MM-DD``, or ``--json`` for a flag."""
    name, _, value = spelled.partition(" ")
    return typer.Option(name, help=said, metavar=value or None, **more)


def day_option(name: str, said: str) -> Any:
    """Return an option that takes a day as YYYY-MM-DD."""
    return option(f"{name} YYYY-MM-DD", said, formats=["%Y-%m-%d"])


def warehouse_place(text: str) -> Path:
    """Return the place of a warehouse; raises BadInputError where it can be none."""
    place = usable_storage_path(text)
    if not is_in_bucket(place) and place.exists() and not place.is_dir():
        raise BadInputError(
            f"{text} is a file. Expected the folder of the tables, which is made when missing, or "
            "s3://bucket/key."
        )
    return place


def warehouse_option(said: str) -> Any:
    """Return the option of the folder or bucket of the tables."""
    return typer.Option("--warehouse", "-w", parser=warehouse_place, help=said, metavar="PLACE")


def place_argument(
    name: str, said: str, parser: Callable[[str], Path] = usable_storage_path
) -> Any:
    """Return an argument that is a folder, or s3://bucket/key."""
    return typer.Argument(parser=parser, help=said, metavar=name)


Warehouse = Annotated[
    Path, warehouse_option("Folder of the tables, or s3://bucket/key; made when missing.")
]
OptionalWarehouse = Annotated[
    Path | None, warehouse_option("Read tables from here, and keep them [default: keep nothing].")
]
ScoredWarehouse = Annotated[
    Path | None, warehouse_option("Score what is in this warehouse [default: audit anew].")
]
WarehouseFolder = Annotated[
    Path,
    place_argument("WAREHOUSE", "Folder of the tables, or s3://bucket/key.", warehouse_place),
]
ArchiveFolder = Annotated[
    Path,
    place_argument(
        "ARCHIVE",
        "Archive folder, or s3://bucket/key: [cluster=NAME/]broker=ID/…/kafka-request.log* "
        "(plain, .gz or .zst).",
    ),
]
OptionalArchive = Annotated[
    Path | None,
    place_argument("ARCHIVE", "Archive folder to ingest first [default: what --warehouse holds]."),
]
MetricsArchive = Annotated[
    Path | None,
    option(
        "--archive ARCHIVE",
        "Archive whose broker-metrics*.json are compared with the decisions [default: none].",
        parser=usable_storage_path,
    ),
]
Cluster = Annotated[str | None, option("--cluster NAME", "Cluster name [default: default].")]
ClusterName = Annotated[str, option("--cluster NAME", "Cluster name.")]
Day = Annotated[dt.datetime, day_option("--day", "UTC day to work on.")]
LastDay = Annotated[
    dt.datetime | None, day_option("--day", "Audited UTC day [default: the last one].")
]
OptionalDay = Annotated[
    dt.datetime | None,
    day_option("--day", "UTC day to audit [default: every day in the archive]."),
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
OnlyDue = Annotated[
    bool,
    option(
        "--due",
        "Only days that are not audited yet, whose files are new or have changed, or whose day "
        "before was audited again.",
    ),
]
BrokerVersion = Annotated[
    str | None,
    option(
        "--broker-version VERSION",
        "Kafka version of the brokers: 4.1.0 for all, or 1=3.7.2,2=4.1.0 "
        "[default: kafka-version.txt in the archive, else detected].",
    ),
]
Timezone = Annotated[
    str, option("--timezone ZONE", "Time zone of the log lines, as in Europe/Berlin.")
]
Listener = Annotated[
    list[str] | None,
    option(
        "--listener HOST:PORT=ID",
        "Broker of a listener address, for archives without broker=ID folders. Repeatable.",
    ),
]
Prefix = Annotated[
    str | None,
    option("--prefix REGEX", "Regular expression of what stands before each log line."),
]
Snapshot = Annotated[
    list[Path] | None,
    option(
        "--snapshot FILE",
        "Quotas in force before the log starts: output of kafka-configs.sh --describe, "
        "or JSON. Repeatable.",
        exists=True,
        dir_okay=False,
    ),
]
IgnoreServerLogs = Annotated[
    bool, option("--ignore-server-logs", "Do not read server.log* beside the requests.")
]
IgnoreProperties = Annotated[
    bool, option("--ignore-server-properties", "Do not read server.properties.")
]
TakeOver = Annotated[
    bool,
    option(
        "--take-over",
        "Take over a day that another run is making; that run stops. Steps go on with what it "
        "made, run and ingest begin anew.",
    ),
]
Scenario = Annotated[
    Path | None,
    option("--scenario PLACE", "TOML file of policies; see docs/whatif.md.", parser=storage_path),
]
Policies = Annotated[
    list[str] | None,
    option(
        "--policy NAME",
        "Name or label of a policy of the scenario [default: all]; without a scenario, of a "
        "policy with nothing configured. Repeatable.",
    ),
]
RecommendFile = Annotated[
    Path | None,
    option(
        "--settings FILE",
        "TOML file of what a proposal needs and may do; see docs/recommendations.md.",
    ),
]
ReplayMode = Annotated[
    str,
    option(
        "--mode MODE",
        "as_logged: arrivals fixed; closed_loop: clients wait and retry as they are answered; "
        "both.",
    ),
]
ListPolicies = Annotated[bool, option("--list-policies", "Print the policies' names, one a line.")]
RenderTarget = Annotated[
    str,
    option(
        "--target TARGET", "kafka-configs, admin-json, strimzi, jikkou, terraform, rpk or kip13."
    ),
]
Rollback = Annotated[bool, option("--rollback", "Print what takes the changes back instead.")]
AsJson = Annotated[bool, option("--json", "Print one JSON object.")]
BootstrapServer = Annotated[
    str, option("--bootstrap-server HOST:PORT,…", "Brokers of the cluster to change.")
]
CommandConfig = Annotated[
    Path | None,
    option(
        "--command-config FILE",
        "Kafka client properties file with TLS and SASL settings, as kafka-configs.sh takes "
        "it. Secrets stand there and nowhere else.",
        dir_okay=False,
    ),
]
Only = Annotated[
    list[str] | None,
    option(
        "--only ENTITY[:TYPE[:BEFORE:AFTER]]",
        "Apply only this: users/NAME, clients/NAME or users/NAME/clients/NAME, and maybe "
        ":QUOTA_TYPE; with values only if it is still proposed so. Repeatable.",
    ),
]
Execute = Annotated[
    bool, option("--execute", "Change the cluster [default: dry run, changes nothing].")
]
AllowDelete = Annotated[
    bool, option("--allow-delete", "Allow proposals that delete an entity's value.")
]
By = Annotated[
    str | None,
    option("--by NAME", "Who is recorded [default: the user of the operating system]."),
]
AskedBy = Annotated[
    str | None,
    option("--asked-by NAME", "Who asked for it, where that is somebody else: recorded."),
]
Plan = Annotated[
    str | None,
    option(
        "--plan DIGEST",
        "What was shown to who approved it: recorded. Once that was taken back it is refused.",
    ),
]
Note = Annotated[str | None, option("--note TEXT", "Recorded beside each change.")]
Change = Annotated[
    str | None,
    option(
        "--change ID", "Id of the application to take back [default: the last that still stands]."
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
    """Return the ingest's options from those of a command that reads an archive.

    Raises BadInputError where a snapshot cannot be read: nobody waits for Spark to be told so.
    """
    from spark_jobs.ingest.ingest_options import IngestOptions
    from spark_jobs.ingest.read_quota_sources import check_snapshot

    for path in snapshot or ():
        check_snapshot(path)
    return IngestOptions.of(
        timezone=timezone,
        broker_version=broker_version,
        listeners=listener or [],
        prefix=prefix,
        snapshots=tuple(snapshot or ()),
        use_server_logs=not ignore_server_logs,
        use_server_properties=not ignore_server_properties,
    )
