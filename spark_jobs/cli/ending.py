"""How the command line ends: one sentence on standard error and an exit code."""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError

from spark_jobs.errors import WHAT_OF_DAMAGE, AuditFailedError, BadInputError, QuotaAuditError
from spark_jobs.settings import Settings
from spark_jobs.warehouse.storage import said_of_storage
from spark_jobs.wording.visible_text import visible

_OF_THE_MACHINE = frozenset(
    {
        errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM,
        errno.ENOTDIR, errno.EMFILE, errno.ENFILE,
    }
)  # fmt: skip
_RAISED = re.compile(
    r"^(?:: |Caused by: )?(?:[\w.]*\.)?(\w+(?:Error|Exception|Exit)): (.+)$", re.MULTILINE
)
# What Arrow says of a Parquet file that was cut or overwritten.
_IS_DAMAGED = re.compile(r"Parquet (?:magic|file|input)|thrift|Unexpected end of stream")
_NO_S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem not found"
_SAID_MAX = 500
_WHAT_NOW = (
    "Nothing of this run was published: what readers see is as it was. Mend that and run again."
)


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


def refused_settings(error: ValidationError) -> str | None:
    """Return a sentence for each setting of the environment that does not hold; None: of none.

    No secret is quoted: any text is a key, so none is ever refused, and what may be an address
    with a token is hidden.
    """
    classes = {cls.__name__: cls for cls in Settings.__subclasses__()}
    if error.title not in classes:
        return None
    config = classes[error.title].model_config
    is_hidden = config.get("hide_input_in_errors", False)
    told = []
    for one in error.errors():
        found = "does not hold" if is_hidden else f"is {one['input']!r}"
        name, *inside = map(str, one["loc"])
        at = f" at {'.'.join(inside)}" if inside else ""
        told.append(f"The setting {config['env_prefix']}{name.upper()} {found}{at}: {one['msg']}.")
    return " ".join(told)


def said_of(error: BaseException) -> str | None:
    """Return a sentence on an error of the machine or of Spark; None where it is neither."""
    if isinstance(error, ConnectionError):
        return (
            "Spark's JVM does not answer any more: it was killed, or it ran out of memory. "
            f"{_WHAT_NOW}"
        )
    # By its name: who only submits jobs does not wait for Arrow.
    is_of_arrow = isinstance(error, OSError) or type(error).__name__ == "ArrowInvalid"
    if is_of_arrow and _IS_DAMAGED.search(str(error)):
        return f"A table's file is damaged: {str(error)[:_SAID_MAX]}. {WHAT_OF_DAMAGE}"
    if isinstance(error, OSError):
        if (why := said_of_storage(error)) is not None:
            return f"{why} {_WHAT_NOW}"
        if error.errno not in _OF_THE_MACHINE:
            return None
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}. {_WHAT_NOW}"
    if not type(error).__module__.startswith(("py4j", "pyspark")):
        return None
    text = str(error).strip()
    if _NO_S3A in text:
        return "Spark has no hadoop-aws to read s3a:// with: see docs/howto/object-storage.md."
    if (why := said_of_storage(error)) is not None:
        return f"{why} {_WHAT_NOW}"
    raised = _RAISED.findall(text)
    why = ": ".join(raised[-1]) if raised else text.partition("\n")[0]
    return f"Spark gave up: {why[:_SAID_MAX]}. {_WHAT_NOW}"
