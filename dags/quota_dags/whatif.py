"""The what-if as a command line, for whoever has a form's answers: the DAG of that name."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from quota_dags.forms import text_of
from quota_dags.process import TaskTerms, ingest_arguments
from spark_jobs.warehouse.storage import storage_path, write_whole

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


def whatif_of_run(params: Mapping[str, Any], run_id: str) -> WhatifRun:
    """Return the what-if that a DAG run asks for, from its params and its id."""
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
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
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

    Raises ``terms.final_error`` too where the form names nothing to replay.
    """
    if not asked.policies and asked.scenario is None:
        raise terms.final_error(NOTHING_TO_REPLAY)
    if asked.scenario:
        write_whole(asked.scenario.path, asked.scenario.text)
    return terms.run(TASK_ID, str(asked.day or "all days"), whatif_arguments(asked))
