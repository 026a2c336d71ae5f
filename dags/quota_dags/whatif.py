"""The what-if as a command line, for whoever has a form's answers: the DAG of that name."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from quota_dags.forms import (
    archive_field,
    check_places,
    refused_for_good,
    shared_fields,
    text_of,
)
from quota_dags.process import TaskTerms, ingest_arguments
from spark_jobs.errors import BadInputError
from spark_jobs.settings import DailyAuditSettings
from spark_jobs.warehouse.storage import storage_path, write_whole
from spark_jobs.whatif.clients.scenario import chosen_policies, read_scenario
from spark_jobs.whatif.policies.catalogue import POLICIES

TASK_ID = "replay_policies"
ASSET = ("quota_whatif", "whatif")
"""What the task renews: Airflow's name of the asset, and its folder in the warehouse."""

AS_LOGGED = "as_logged"
MODES: Mapping[str, str] = MappingProxyType(
    {
        AS_LOGGED: "As logged: requests arrive when the log says",
        "closed_loop": "Closed loop: clients wait for their answers, and try again",
        "both": "Both, one beside the other",
    }
)
"""Mode → what the form calls it."""

NOTHING_TO_REPLAY = (
    "The form names neither policies nor a scenario: choose one policy or more of the list, or "
    "paste a scenario (TOML; docs/whatif.md has its keys, examples/whatif.toml is one)."
)
ALL_DAYS = "all"
# A policy is described in some hundred; TOML can be written that takes the square of its length.
_SCENARIO_CHARACTERS_MAX = 32_000
_SAID_MAX = 1000

_SCENARIOS = "scenarios"
_NAME_CHARACTERS_MAX = 100


@dataclass(frozen=True, slots=True)
class ScenarioFile:
    """The policies of a run and their configurations: TOML, and the file that keeps it."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class WhatifRun:
    """What to replay; ``archive`` None = what the warehouse holds, ``day`` None = every day."""

    warehouse: str
    cluster: str
    day: dt.date | None
    archive: str | None
    timezone: str
    broker_version: str | None
    policies: tuple[str, ...]
    scenario: ScenarioFile | None
    mode: str

    def scope(self) -> dict[str, str]:
        """Return cluster, day (or ``all``) and warehouse, as the asset's events have them."""
        day = self.day.isoformat() if self.day else ALL_DAYS
        return {"cluster": self.cluster, "day": day, "warehouse": self.warehouse}


def whatif_fields(settings: DailyAuditSettings) -> dict[str, dict[str, Any]]:
    """Return the form's fields by name: the arguments of Airflow's ``Param``."""
    archive = archive_field(settings)
    return {
        "policies": {
            "default": None,
            "type": ["null", "array"],
            "examples": list(POLICIES),
            "uniqueItems": True,
            "items": {"type": "string", "enum": list(POLICIES)},
            "title": "Policies",
            "description": "Of the scenario only these; empty: all. Without one: nothing "
            "configured.",
        },
        "scenario": {
            "default": None,
            "type": ["null", "string"],
            "format": "multiline",
            "maxLength": _SCENARIO_CHARACTERS_MAX,
            "title": "Scenario (TOML)",
            "description": "Policies with their configurations; the DAG's docs show one. May be "
            "empty.",
        },
        "mode": {
            "default": AS_LOGGED,
            "type": "string",
            "enum": list(MODES),
            "values_display": dict(MODES),
            "title": "How clients behave",
            "description": "As logged, a client goes on sending however long a rule makes it wait.",
        },
        "day": {
            "default": None,
            "type": ["null", "string"],
            "format": "date",
            "title": "Day (UTC)",
            "description": "Empty: every day that the archive, or the warehouse, has.",
        },
        "archive": archive
        | {
            "default": None,
            "type": ["null", "string"],
            "pattern": f"^$|{archive['pattern']}",
            "examples": [archive["default"]],
            "description": f"Ingested first; empty: what the warehouse holds. "
            f"{archive['description']}",
        },
        **shared_fields(settings),
    }


def whatif_of_run(
    params: Mapping[str, Any], run_id: str, settings: DailyAuditSettings, terms: TaskTerms
) -> WhatifRun:
    """Return the what-if that a DAG run asks for, from its params and its id.

    Raises ``terms.final_error`` where ``settings`` do not allow it.
    """
    with refused_for_good(terms.final_error):
        check_places(params, settings)
    warehouse = text_of(params, "warehouse")
    text = params.get("scenario") or ""
    path = scenario_path(storage_path(warehouse), run_id, text)
    day = params.get("day")
    return WhatifRun(
        warehouse=warehouse,
        cluster=text_of(params, "cluster"),
        day=dt.date.fromisoformat(day) if day else None,
        archive=params.get("archive") or None,
        timezone=text_of(params, "timezone"),
        broker_version=params.get("broker_version") or None,
        policies=tuple(params.get("policies") or ()),
        scenario=ScenarioFile(path, text) if text.strip() else None,
        mode=text_of(params, "mode"),
    )


def scenario_path(warehouse: Path, run_id: str, text: str) -> Path:
    """Return the file in which a run keeps its scenario: another text never has the same path.

    >>> scenario_path(Path("/wh"), "manual__2026-11-20T09:00:00+00:00", "").name
    'manual__2026-11-20T09-00-00-00-00-e3b0c442.toml'
    """
    name = re.sub(r"[^A-Za-z0-9_]+", "-", run_id)[:_NAME_CHARACTERS_MAX].strip("-")
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return warehouse / _SCENARIOS / f"{name}-{digest}.toml"


def whatif_arguments(asked: WhatifRun) -> list[str]:
    """Return a what-if's arguments of ``quota-audit``; no shell ever sees them."""
    command = ["whatif"]
    if asked.archive:
        command += [asked.archive, *ingest_arguments(asked.timezone, asked.broker_version)]
    command += ["--warehouse", asked.warehouse, "--cluster", asked.cluster]
    if asked.day:
        command += ["--day", asked.day.isoformat()]
    if asked.scenario:
        command += ["--scenario", str(asked.scenario.path)]
    for policy in asked.policies:
        command += ["--policy", policy]
    # As logged is what the command does by itself.
    return command if asked.mode == AS_LOGGED else [*command, "--mode", asked.mode]


def run_whatif(asked: WhatifRun, terms: TaskTerms) -> str:
    """Keep the scenario, run the what-if as ``terms`` say, and return its last line.

    Raises ``terms.final_error`` too, before anything is written, where the form names nothing to
    replay, or its scenario is none.
    """
    if not asked.policies and asked.scenario is None:
        raise terms.final_error(NOTHING_TO_REPLAY)
    if asked.scenario:
        try:
            _check_scenario(asked.scenario.text, asked.policies)
        except BadInputError as error:
            raise terms.final_error(f"{str(error)[:_SAID_MAX]} Nothing was written.") from error
        write_whole(asked.scenario.path, asked.scenario.text)
    return terms.run(TASK_ID, str(asked.day or "all days"), whatif_arguments(asked))


def _check_scenario(text: str, policies: Sequence[str]) -> None:
    """Raise BadInputError where the form's text is no scenario, or has not these policies."""
    where = "The form's scenario"
    if len(text) > _SCENARIO_CHARACTERS_MAX:
        raise BadInputError(
            f"{where} has {len(text):,} characters: expected {_SCENARIO_CHARACTERS_MAX:,} at most."
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInputError(f"{where} has what is no character at {error.start}.") from error
    chosen_policies(read_scenario(text, where), policies, where)
