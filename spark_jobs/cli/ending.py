"""How the command line ends: one sentence on standard error and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError

from spark_jobs.cli.failed_run import said_of
from spark_jobs.errors import AuditFailedError, BadInputError, QuotaAuditError
from spark_jobs.settings import refused_settings
from spark_jobs.wording.visible_text import visible


@contextmanager
def ending() -> Iterator[None]:
    """End the process as the error says: 1 quality or audit failed, 2 bad usage or input."""
    try:
        yield
    except QuotaAuditError as error:
        _end(str(error), error.exit_code)
    except ValidationError as error:
        said = refused_settings(error)
        if said is None:
            raise
        _end(said, BadInputError.exit_code)
    except SettingsError as error:
        _end(f"{error}: lists and tables are written as JSON.", BadInputError.exit_code)
    except Exception as error:
        said = said_of(error)
        if said is None:
            raise
        _end(said, AuditFailedError.exit_code)


def _end(said: str, exit_code: int) -> NoReturn:
    # A file's name may hold what a terminal obeys.
    shown = "\n".join(visible(line) for line in said.split("\n"))
    typer.secho(f"error: {shown}", err=True, fg=typer.colors.RED)
    sys.exit(exit_code)
