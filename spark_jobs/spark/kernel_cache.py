"""Where numba keeps the compiled code of this package when it is imported from a zip.

Spark copies the zip into a folder of each application; numba's own locator for zips names its
folder after that path, so every application would compile for half a minute and leave its code
behind. Here the folder is named after what is in the zip: a machine compiles once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

from numba.core.caching import ZipCacheLocator
from numba.misc.appdirs import AppDirs


class ZippedKernels(ZipCacheLocator):
    """Finds the compiled code of functions in a zip; for numba's NUMBA_CACHE_LOCATOR_CLASSES."""

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

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> ZippedKernels | None:
        """Return where ``function`` is kept; None where it is not in a zip."""
        return None if os.path.exists(file) or ".zip" not in file else cls(function, file)


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
