"""Where numba keeps the compiled code of this package, and when it is old.

Code is as old as the rooms in which anything is compiled: a function inlines others, and freezes
their constants, and numba's own stamp is of the function's file alone.

Spark copies a package's zip into a folder of each application; numba's own locator for zips names
its folder after that path, so every application would compile for half a minute and leave its code
behind. Here the folder is named after what is in the zip: a machine compiles once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, Self

from numba.core.caching import (
    InTreeCacheLocator,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
    ZipCacheLocator,
)
from numba.misc.appdirs import AppDirs

import spark_jobs
from spark_jobs.spark.code_digest import code_digest

COMPILED_ROOMS = ("ingest/fast_lines", "ingest/lines", "quota", "replay/alignment")
"""The folders with all compiled functions, and with all that these inline."""

_FOLDERS = tuple(
    os.path.join(os.path.dirname(spark_jobs.__file__), *room.split("/"), "")
    for room in COMPILED_ROOMS
)


class _StampedByRooms:
    """Locates functions of the compiled rooms; others are numba's own locators' to find."""

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Self | None:
        if not file.startswith(_FOLDERS):
            return None
        return super().from_function(function, file)  # type: ignore[misc, no-any-return]

    def get_source_stamp(self) -> str:
        return code_digest(*COMPILED_ROOMS)


class NamedFolderKernels(_StampedByRooms, UserProvidedCacheLocator):
    """Keeps compiled code in NUMBA_CACHE_DIR."""


class InTreeKernels(_StampedByRooms, InTreeCacheLocator):
    """Keeps compiled code beside the sources."""


class UserWideKernels(_StampedByRooms, UserWideCacheLocator):
    """Keeps compiled code in the user's folder."""


class ZippedKernels(_StampedByRooms, ZipCacheLocator):
    """Keeps compiled code of a zip in a folder named after the zip's content."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        """Take the first folder that may be written: NUMBA_CACHE_DIR's, else the user's, Spark's.

        RuntimeError where there is none.
        """
        super().__init__(function, file)  # type: ignore[no-untyped-call]
        stat = os.stat(self._zip_path)
        place = f"quota-audit-{_digest(self._zip_path, stat.st_mtime_ns, stat.st_size)[:16]}"
        roots = list(_roots())
        for root in roots:
            self._cache_path = os.path.join(root, place, os.path.dirname(self._internal_path))
            with suppress(OSError):
                self.ensure_cache_path()  # type: ignore[no-untyped-call]
                return
        raise RuntimeError(
            f"numba cannot keep the compiled code of {self._zip_path}: none of {', '.join(roots)} "
            "may be written. Set NUMBA_CACHE_DIR to a folder of the worker's user."
        )


def _roots() -> Iterator[str]:
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        yield named
        return
    dirs = AppDirs(appname="numba", appauthor=False)  # type: ignore[no-untyped-call]
    yield dirs.user_cache_dir
    # Of the application alone, on a worker: containers of YARN and Kubernetes may have no home.
    yield from filter(None, os.environ.get("SPARK_LOCAL_DIRS", "").split(","))


@lru_cache
def _digest(zip_path: str, _modified_ns: int, _size_bytes: int) -> str:
    with open(zip_path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
