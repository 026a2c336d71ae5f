"""What each run wrote of a day, and which run's tables are the published ones.

``runs/cluster=<c>/date=<d>/`` holds a folder ``<table>/<version>`` for each time a table, or files
for people, were written, ``run-<id>.json`` saying which versions belong together, and two pointers:
``published.json`` names the run that readers see, ``draft.json`` the one that is being made.
Readers see all of a run or all of the one before: in a bucket a pointer is put as one object.

In a file system what is published is shown by one rename. The link ``current`` leads to a folder
``shown-<id>`` with the pointer and a link to each version; ``published.json`` and what other tools
read, as ``decisions/cluster=<c>/date=<d>``, are links through it that stay as they are.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.pipeline import STAGES, WRITTEN_BY
from spark_jobs.warehouse.storage import (
    is_in_bucket,
    is_irregular,
    remove_folder,
    replace_link,
    sync,
    write_whole,
)

RUNS = "runs"
PUBLISHED, DRAFT = "published.json", "draft.json"
CURRENT = "current"
_CLOCK_SET_S = 60.0
_FIRST_DAY = dt.date(1970, 1, 1)

Record = Mapping[str, Any]
"""A run's ``tables`` (folders below the warehouse, also of files for people), and where known:
``made_by`` (by table, a MadeBy), ``files`` (by table and name, a RecordedFile), ``pruned`` (by
table that was removed because of its age, how many days were kept), ``carried`` (digests of the
states ``before`` and ``after`` its replay), ``absent`` (tables written without a file) and
``validated`` (stages that passed with the tables as they are)."""


@dataclass(frozen=True, slots=True)
class RunOwner:
    """Who makes a run: an Airflow run or a command by ``name``; "" are single steps by hand.

    Where one process makes all of it, ``host``, ``pid`` and ``started_s`` (epoch) say which.
    """

    name: str
    host: str = ""
    pid: int = 0
    started_s: float = 0.0

    @classmethod
    def this_process(cls, name: str) -> RunOwner:
        """Return the owner that this process is, which runs ``name``."""
        return cls(name, socket.gethostname(), os.getpid(), psutil.Process().create_time())

    def is_running(self) -> bool | None:
        """Return True if its process runs on this host; None where that cannot be known here."""
        if self.host != socket.gethostname():
            return None
        try:
            process = psutil.Process(self.pid)
            # A clock that is set moves the times of all processes.
            is_same = abs(process.create_time() - self.started_s) < _CLOCK_SET_S
            return bool(is_same and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False


def runs_folder(warehouse: Path, cluster: str) -> Path:
    """Return the folder of all days of a cluster."""
    return warehouse / RUNS / f"cluster={cluster}"


def days_with_runs(warehouse: Path, cluster: str) -> list[dt.date]:
    """Return the days of which there is a run, published or not, in order."""
    return days_below(runs_folder(warehouse, cluster))


def days_below(folder: Path) -> list[dt.date]:
    """Return the days of the folders ``date=<day>``, in order; another name is not of an audit.

    Neither is a day before 1970, which is no time of a log.
    """
    found = []
    for path in folder.glob("date=*"):
        with suppress(ValueError):
            day = dt.date.fromisoformat(path.name.removeprefix("date="))
            found += [day] if path.name == f"date={day}" and day >= _FIRST_DAY else []
    return sorted(found)


def run_record(folder: Path, run: str) -> Record | None:
    """Return the record of a run; None where there is no such run."""
    return _read(folder / _name(run), "tables")


def versions_of(folder: Path, runs: Iterable[str]) -> set[str]:
    """Return the versions of tables, as folders below the warehouse, that ``runs`` name."""
    records = [run_record(folder, run) for run in runs]
    return {version for record in records if record for version in record["tables"].values()}


def write_run(
    folder: Path,
    run: str,
    tables: Mapping[str, str],
    like: str | None = None,
    *,
    made_by: Mapping[str, Mapping[str, Any]] | None = None,
    files: Mapping[str, Mapping[str, Any]] | None = None,
    pruned: Mapping[str, str] | None = None,
    absent: Iterable[str] = (),
) -> None:
    """Say which versions of the tables are those of a run; what else it knows is that of ``like``.

    Of a run that was begun before, what else it knows stays. ``made_by`` says with which version
    of a schema tables were written, ``files`` what their files are like, ``pruned`` which were
    removed because of their age. A stage with another table than before is no longer validated.
    """
    known = run_record(folder, run) or (run_record(folder, like) if like else None) or {}
    before = known.get("tables", {})
    others = {t for t in (*before, *tables) if before.get(t) != tables.get(t)} | {*(made_by or {})}
    written = known.get("made_by", {}) | (made_by or {})
    recorded = known.get("files", {}) | (files or {})
    removed = known.get("pruned", {}) | (pruned or {})
    of_tables = {
        "tables": dict(sorted(tables.items())),
        "made_by": {table: written[table] for table in sorted(tables) if table in written},
        "files": {table: recorded[table] for table in sorted(tables) if table in recorded},
        "pruned": {table: removed[table] for table in sorted(removed) if table not in tables},
        "absent": sorted({*known.get("absent", ()), *absent} - {*tables}),
        "validated": [s for s in known.get("validated", ()) if others.isdisjoint(STAGES[s])],
    }
    _replace(folder / _name(run), {**known, **of_tables})


def note_carried(folder: Path, run: str, before: str | None, after: str) -> None:
    """Say with which states a run's replay began (None: with none) and ended."""
    found = run_record(folder, run) or {}
    _replace(folder / _name(run), {**found, "carried": {"before": before, "after": after}})


def note_validated(folder: Path, run: str, stage: str) -> None:
    """Say that the tables of ``stage`` passed their validation, as the run has them now."""
    found = run_record(folder, run)
    if found is not None:
        stages = {*found.get("validated", ()), stage}
        _replace(folder / _name(run), {**found, "validated": sorted(stages)})


def not_written(record: Record) -> dict[str, str]:
    """Return each table of an audit that a run has not written yet, and the command that would."""
    written = {name for key in ("tables", "absent", "pruned") for name in record.get(key, ())}
    return {table: command for table, command in WRITTEN_BY.items() if table not in written}


def published_run(folder: Path) -> str | None:
    """Return the run that readers see; None where none is published."""
    found = _read(folder / PUBLISHED, "run", "previous")
    return None if found is None else str(found["run"])


def previous_run(folder: Path) -> str | None:
    """Return the run that was published before, which a reader may still be at."""
    found = _read(folder / PUBLISHED, "run", "previous")
    return None if found is None else found["previous"]


def publish(folder: Path, run: str) -> None:
    """Let readers see the tables and files of ``run`` from now on."""
    before = published_run(folder)
    previous = previous_run(folder) if before == run else before
    sync(folder / _name(run))
    _publish(folder, {"run": run, "previous": previous})


def forget(folder: Path) -> None:
    """Let nothing be kept of the run that was published before."""
    run = published_run(folder)
    if run is not None:
        _publish(folder, {"run": run, "previous": None})


def _publish(folder: Path, pointer: Mapping[str, Any]) -> None:
    path = folder / PUBLISHED
    if is_in_bucket(folder):
        write_whole(path, json.dumps(pointer, indent=1))
        return
    if not path.is_symlink():
        # An earlier version, or a person who mended it, wrote a file. It is shown as it is first.
        if (before := _read(path, "run", "previous")) is not None:
            _show(folder, before)
        replace_link(path, Path(CURRENT) / PUBLISHED)
    _show(folder, pointer)


def _show(folder: Path, pointer: Mapping[str, Any]) -> None:
    """Let ``current`` lead to ``pointer`` and to the versions of its run, by one rename."""
    before = shown_folder(folder)
    shown = folder / f"shown-{uuid.uuid4().hex}"
    shown.mkdir()
    (shown / PUBLISHED).write_text(json.dumps(pointer, indent=1), encoding="utf-8")
    sync(shown / PUBLISHED)
    *_, warehouse = folder.parents[:3]
    for table, place in (run_record(folder, pointer["run"]) or {"tables": {}})["tables"].items():
        (shown / table).symlink_to(os.path.relpath(warehouse / place, shown))
    sync(shown)
    replace_link(folder / CURRENT, Path(shown.name))
    sync(folder)
    if before is not None:
        remove_folder(before)


def shown_folder(folder: Path) -> Path | None:
    """Return the folder that ``current`` leads to; None where it leads nowhere."""
    current = folder / CURRENT
    return current.resolve() if current.is_dir() else None


def draft_of(folder: Path) -> tuple[str, RunOwner] | None:
    """Return the run that is being made and who makes it; None where there is none."""
    found = _read(folder / DRAFT, "run", "owner")
    if found is None or found["run"] == published_run(folder):  # it ended before it could say so
        return None
    owner = found["owner"]
    # An earlier version wrote a name, or null for single steps.
    known = owner if isinstance(owner, dict) else {"name": owner or ""}
    return str(found["run"]), RunOwner(**known)


def open_draft(folder: Path, run: str, owner: RunOwner) -> None:
    """Say that ``run`` is being made; any other one has to stop."""
    _replace(folder / DRAFT, {"run": run, "owner": asdict(owner)})


def close_draft(folder: Path) -> None:
    """Say that no run is being made."""
    (folder / DRAFT).unlink(missing_ok=True)


def kept_runs(folder: Path) -> set[str]:
    """Return the runs whose tables somebody may still read or write."""
    draft = draft_of(folder)
    kept = {published_run(folder), previous_run(folder), draft[0] if draft else None}
    return {run for run in kept if run is not None}


def _name(run: str) -> str:
    return f"run-{run}.json"


def _read(path: Path, *keys: str) -> dict[str, Any] | None:
    """Return the object in a file, which has ``keys``; None where there is no file.

    Raises BadInputError for anything else, such as an empty file or a pipe.
    """
    damaged = f"{path} is damaged: expected a JSON object with {', '.join(keys)}"
    remedy = "Audit its day again; 'quota-audit doctor' says what else looks wrong."
    if is_irregular(path):
        raise BadInputError(f"{damaged}, found no regular file. {remedy}")
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{damaged}, found {error}. {remedy}") from error
    is_object = isinstance(found, dict) and found.keys() >= {*keys}
    if not is_object or not isinstance(found.get("tables", {}), dict):
        raise BadInputError(f"{damaged}, found {str(found)[:80]!r}. {remedy}")
    return found


def _replace(path: Path, what: Mapping[str, Any]) -> None:
    if is_in_bucket(path):
        write_whole(path, json.dumps(what, indent=1))
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    staged.write_text(json.dumps(what, indent=1), encoding="utf-8")
    staged.replace(path)
