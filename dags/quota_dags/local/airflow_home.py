"""A local Airflow of this project's own: its folder, its environment, its database."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import typer
from pydantic import ValidationError
from rich.console import Console

from quota_dags.process import run_process
from spark_jobs.errors import AuditFailedError, BadInputError, QuotaAuditError

DAG_ID = "quota_audit_daily"
_DAG_FILE = Path("dags") / f"{DAG_ID}.py"
_STAMP = "migrated-to"


def airflow_command(*arguments: str) -> list[str]:
    """Return an Airflow command line for this interpreter's Airflow."""
    return [sys.executable, "-m", "airflow", *arguments]


def run_app(app: typer.Typer) -> None:
    """Run a local program; ends with an error's exit code, 2 for settings that cannot be used."""
    try:
        app()
    except (QuotaAuditError, ValidationError) as error:
        Console(stderr=True, soft_wrap=True).print(f"error: {error}", style="red", markup=False)
        sys.exit(getattr(error, "exit_code", BadInputError.exit_code))


def find_project(folder: Path) -> Path:
    """Return ``folder`` as an absolute path if it holds the DAG; raises BadInputError if not."""
    if not (folder / _DAG_FILE).is_file():
        raise BadInputError(
            f"{folder.absolute()} has no {_DAG_FILE}: run this in the project's folder, "
            "or name that folder with --project."
        )
    return folder.absolute()


def airflow_environment(
    home: Path, project: Path, inherited: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the environment of an Airflow that has only this project's DAGs and plugin.

    Every inherited ``AIRFLOW*`` variable but connections is left out: a shell set up for another
    Airflow must not make a trial run migrate that one's database.
    """
    own = {
        name: value
        for name, value in inherited.items()
        if not name.startswith("AIRFLOW") or name.startswith("AIRFLOW_CONN_")
    }
    return {
        **own,
        "AIRFLOW_HOME": str(home.absolute()),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(project / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(project / "plugins"),
        # SQLite has one writer at a time. Python gives up after 5 s, and Airflow then answers 500.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home.absolute()}/airflow.db?timeout=60",
        "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
        "GX_ANALYTICS_ENABLED": "false",
        "PYSPARK_PYTHON": sys.executable,
    }


def prepare_home(home: Path, env: Mapping[str, str]) -> bool:
    """Make ``home`` ready for this version of Airflow; return whether that took a migration.

    The folder holds secrets (``airflow.cfg``, passwords), so only its owner may enter it. Raises
    AuditFailedError with the log's path where the migration fails.
    """
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    stamp = home / _STAMP
    version = importlib.metadata.version("apache-airflow")
    if (home / "airflow.db").exists() and stamp.exists() and stamp.read_text() == version:
        return False
    log = home / "db-migrate.log"
    with log.open("w", encoding="utf-8") as out:
        result = run_process(
            airflow_command("db", "migrate"), lambda line: print(line, file=out, flush=True), env
        )
    if result.exit_code != 0:
        raise AuditFailedError(
            f"`airflow db migrate` ended with exit code {result.exit_code}: {result.last_line}. "
            f"Its log is {log}. Removing {home} starts anew."
        )
    stamp.write_text(version)
    return True
