"""Running a function on Spark's workers, which need the code and the folders that the driver has.

Where they have not, nothing is read or written: a folder that is a worker's own would take its
rows, and the driver would find none.
"""

from __future__ import annotations

import gc
import getpass
import os
import re
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_jobs.errors import BadInputError
from spark_jobs.spark.code_digest import code_digest
from spark_jobs.warehouse.storage import is_in_bucket, refusal

Item = TypeVar("Item")
Found = TypeVar("Found")

_NAMED = 5
_HOW = "See docs/howto/spark-cluster.md."
_PYTHON_FAULTS = (
    (
        r"No module named '([^']+)'",
        "The workers' Python lacks the module {0}: give them the environment of the driver, and "
        "install this package in it or send it along as --py-files.",
    ),
    (
        r"\[PYTHON_VERSION_MISMATCH\] ([^\n]+)",
        "{0} Set PYSPARK_PYTHON to where the workers have the driver's version.",
    ),
    (
        r'Cannot run program "([^"]+)"',
        "The workers have no program {0}: set PYSPARK_PYTHON to the path of their Python.",
    ),
)
_modules_kept = 0


@dataclass(frozen=True, slots=True)
class Needs:
    """What a worker must have: folders that are read, one that is written, the driver's code."""

    read: Path
    written: Path | None = None
    code: str | None = None

    def refusal(self) -> str | None:
        """Return the reason why this worker cannot do its part; None: it can."""
        where = f"on the worker {socket.gethostname()}"
        if self.code not in (None, code_digest()):
            return (
                f"The package {where} is not the driver's, and may decide otherwise: install "
                "the same there, or send it along as --py-files."
            )
        for folder in (self.read, self.written):
            if folder is None:
                continue
            if is_in_bucket(folder):
                if (why := refusal(folder)) is not None:
                    return f"{where}: {why}"
            elif not folder.is_dir():
                return (
                    f"{folder} is not there {where}. Driver and workers need archive and warehouse "
                    "under the same paths, on storage that they share: mount it there."
                )
            elif folder is self.written and not os.access(folder, os.W_OK | os.X_OK):
                return (
                    f"{folder} may not be written {where} by its user {getpass.getuser()}: "
                    "workers have to run as the driver's user, whose folder it is."
                )
        return None


@dataclass(frozen=True, slots=True)
class _Refused:
    why: str


def on_workers(
    spark: SparkSession,
    items: Sequence[Item],
    run: Callable[[Item], Found],
    *,
    read: Path,
    written: Path | None = None,
) -> list[Found]:
    """Return ``run`` of each item, in the items' order; each is a task of its own.

    Raises BadInputError where a worker does not see the folder ``read`` or ``written``, which the
    driver has made, or has another Python or other code than the driver.
    """
    is_local = str(spark.sparkContext.master).startswith("local")
    needs = Needs(read, written, None if is_local else code_digest())

    def checked(item: Item) -> Found | _Refused:
        why = needs.refusal()
        found = run(item) if why is None else _Refused(why)
        keep_modules()
        return found

    try:
        found = spark.sparkContext.parallelize(items, len(items)).map(checked).collect()
    except (PySparkException, Py4JJavaError) as error:
        if (fault := python_fault(str(error))) is None:
            raise
        raise BadInputError(f"{fault} {_HOW}") from error
    refused = sorted({one.why for one in found if isinstance(one, _Refused)})
    if refused:
        more = [f"and {len(refused) - _NAMED} more"] if len(refused) > _NAMED else []
        raise BadInputError("\n".join([*refused[:_NAMED], *more, _HOW]))
    return [one for one in found if not isinstance(one, _Refused)]


def keep_modules() -> None:
    """Leave what a Python worker keeps from task to task out of Python's search for garbage.

    Spark collects garbage after every task (``pyspark.daemon``), which looks at each object of
    every loaded module: a tenth of a second, as much as many tasks take. Nothing is done where no
    module was loaded since this was last done.
    """
    global _modules_kept
    if len(sys.modules) > _modules_kept:
        _modules_kept = len(sys.modules)
        gc.collect()
        gc.freeze()


def python_fault(said: str) -> str | None:
    """Return the sentence for people of a fault of the workers' Python; None: it is none."""
    for pattern, sentence in _PYTHON_FAULTS:
        if found := re.search(pattern, said):
            return sentence.format(found[1])
    return None
