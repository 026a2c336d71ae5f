"""The command ``whatif``: days to replay, policies to replay them under, and how it is shown."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from spark_jobs.audit.validate_tables import validate_stage
from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import Archive, choose_cluster, find_archive
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import ingest_requests
from spark_jobs.publish.facts.whatif import FIGURE, MUTATION, Figure, seconds
from spark_jobs.publish.page.whatif_page import WhatifPolicy, configuration_text
from spark_jobs.publish.publish_report import publish_whatif, withdraw_whatif
from spark_jobs.resolve.resolve_quotas import resolve_quotas
from spark_jobs.spark.spark_session import spark_session
from spark_jobs.warehouse.scope import RunScope, days_of
from spark_jobs.whatif.clients.scenario import Mode, ScenarioPolicy, chosen_policies, read_scenario
from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.whatif import whatif
from spark_jobs.wording.numbers import count

MODE_SENTENCES = {
    Mode.AS_LOGGED: "as logged: every request arrives when the log says, whatever it would have "
    "been answered",
    Mode.CLOSED_LOOP: "closed loop: each client sends its next request its own think time after "
    "the answer and any throttle",
}
BOTH_MODES = "both"
# A client's policy on one line with its figures, whatever the terminal's width.
WIDTH_MAX = 10_000
_ENTITY = ("broker_id", "user", "client_id", "kind")
_COLUMNS = (
    "requests", "unsized_requests", "asked", "admitted", "delayed", "refused", "taken_back", "lost",
    "waiting", "worst_burst", "throttle_time_ms", "throttle_time_max_ms", "harm_time_ms",
    "harmed_requests",
)  # fmt: skip
_ALWAYS_SHOWN = ("requests", "asked", "admitted", "throttle_time_ms")


@dataclass(frozen=True, slots=True)
class WhatifRequest:
    """What to replay. ``archive`` None: what ``warehouse`` holds; ``warehouse`` None: keep nothing.

    Without a scenario the policies named have no configuration but the log's quotas.
    """

    archive: Path | None
    warehouse: Path | None
    scenario: Path | None
    policies: tuple[str, ...]
    options: IngestOptions
    modes: tuple[Mode, ...] = (Mode.AS_LOGGED,)
    cluster: str | None = None
    day: dt.date | None = None


def modes_of(name: str) -> tuple[Mode, ...]:
    """Return the modes that ``--mode`` stands for. Raises BadInputError."""
    if name == BOTH_MODES:
        return tuple(Mode)
    if name not in list(Mode):
        known = ", ".join([*Mode, BOTH_MODES])
        raise BadInputError(f"--mode: found {name!r}; it is one of {known}.")
    return (Mode(name),)


def print_whatif(request: WhatifRequest, *, as_json: bool) -> None:
    """Replay, validate and print, as tables or as one JSON object; with a warehouse, as pages too.

    Raises BadInputError where there is nothing to replay, and DataQualityError where the result
    breaks a rule.
    """
    policies = scenario_policies(request)
    days = {}
    pages = []
    # Spark takes seconds to start: what is not there is said before.
    source = _days_there(request) if request.archive is None else _archive_of(request)
    with spark_session("whatif") as spark, _ingested(request, source, spark) as scopes:
        for scope in scopes:
            withdraw_whatif(scope)
            days[str(scope.day)] = whatif(spark, scope, policies, request.modes).to_pylist()
            validate_stage(scope, "whatif", spark)
            if request.warehouse is not None:
                pages.append(publish_whatif(scope, days[str(scope.day)], _described(policies)))
    if as_json:
        mode = request.modes[0] if len(request.modes) == 1 else BOTH_MODES
        print(json.dumps({"mode": mode, "days": days}))
        return
    console = Console(width=WIDTH_MAX, soft_wrap=True, highlight=False)
    for mode in request.modes:
        console.print(f"mode: {MODE_SENTENCES[mode]}", markup=False)
    for day, rows in days.items():
        console.print(f"\n{day} UTC", markup=False)
        table = whatif_table(rows)
        console.print(table, width=console.measure(table).maximum)
    for page in pages:
        console.print(f"page: {page}", markup=False)


def _described(policies: Sequence[ScenarioPolicy]) -> list[WhatifPolicy]:
    """Return each policy's label, name, title and configuration, as the page shows them."""
    return [
        WhatifPolicy(
            policy.label,
            policy.name,
            policy_class(policy.name).title,
            configuration_text(policy.config, [asdict(topic) for topic in policy.topics]),
        )
        for policy in policies
    ]


def scenario_policies(request: WhatifRequest) -> tuple[ScenarioPolicy, ...]:
    """Return the policies asked for. Raises BadInputError, PolicyConfigError."""
    if request.scenario is None:
        if not request.policies:
            raise BadInputError(
                "found neither --scenario nor --policy: name a TOML file of policies, or a policy "
                "of 'quota-audit whatif --list-policies'."
            )
        named = tuple(ScenarioPolicy(name, name) for name in dict.fromkeys(request.policies))
        for policy in named:
            policy.begin()
        return named
    try:
        text = request.scenario.read_bytes().decode("utf-8")
    except OSError as error:
        raise BadInputError(f"{request.scenario}: {error.strerror}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise BadInputError(f"{request.scenario}: found {error.reason}; TOML is UTF-8.") from error
    where = str(request.scenario)
    return chosen_policies(read_scenario(text, where), request.policies, where)


def whatif_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return the rows as a table: each client's policies one below the other.

    Figures that are 0 in every row have no column, nor has the mode where there is one.
    """
    has_modes = len({row["mode"] for row in rows}) > 1
    columns = [c for c in _COLUMNS if c in _ALWAYS_SHOWN or any(row[c] for row in rows)]
    shown = [FIGURE[column] for column in columns]
    table = Table(box=None, pad_edge=False)
    for title in ("broker", "client", "kind", "policy", *(("mode",) if has_modes else ())):
        table.add_column(title, no_wrap=True)
    for figure in shown:
        table.add_column(_title(figure), justify="right", no_wrap=True)
    for _, of_entity in groupby(sorted(rows, key=_entity), key=_entity):
        for i, row in enumerate(of_entity):
            client = f"{row['user']}:{row['client_id'] or ''}"
            entity = (str(row["broker_id"]), client, row["kind"]) if i == 0 else ("", "", "")
            policy = (row["label"], row["mode"]) if has_modes else (row["label"],)
            figures = [_shown(figure, row) for figure in shown]
            table.add_row(*map(Text, (*entity, *policy, *figures)))
    return table


def _title(figure: Figure) -> str:
    title = figure.title.replace("\N{NO-BREAK SPACE}", " ").lower()
    return title.removesuffix(" requests")


def _shown(figure: Figure, row: dict[str, Any]) -> str:
    value = row[figure.column]
    if figure.unit == "time":
        return seconds(value)
    if figure.unit == "number" or row["kind"] == MUTATION:
        return count(value)
    return decimal(round(value), precision=2) if value else "0"


def _entity(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] if row[name] is not None else "" for name in _ENTITY)


@contextmanager
def _ingested(
    request: WhatifRequest, source: Archive | list[RunScope], spark: SparkSession
) -> Iterator[list[RunScope]]:
    """Yield the days to replay, oldest first: those of an archive are ingested and resolved."""
    if not isinstance(source, Archive):
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="quota-audit-whatif-") as folder:
        warehouse = request.warehouse or Path(folder)
        report = ingest_requests(spark, source, warehouse, request.day, request.options)
        for scope in report.scopes:
            resolve_quotas(scope)
        yield list(report.scopes)


def _archive_of(request: WhatifRequest) -> Archive:
    assert request.archive is not None
    return find_archive(request.archive, choose_cluster(request.archive, request.cluster))


def _days_there(request: WhatifRequest) -> list[RunScope]:
    if request.warehouse is None:
        raise BadInputError(
            "found neither ARCHIVE nor --warehouse: name an archive to read, or a warehouse that "
            "holds an audited day."
        )
    cluster = request.cluster or "default"
    days = days_of(request.warehouse, cluster)
    scopes = [RunScope(request.warehouse, cluster, d) for d in days if request.day in (None, d)]
    if not scopes:
        when = f" on {request.day}" if request.day else ""
        there = ", ".join(map(str, days)) or "none"
        raise BadInputError(
            f"{request.warehouse} holds no day of the cluster {cluster!r}{when}; the days there "
            f"are: {there}. Run 'quota-audit run' on an archive first, or name the archive."
        )
    return scopes
