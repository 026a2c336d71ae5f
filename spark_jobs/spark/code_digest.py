"""A digest of this package's code, in a folder or a zip, by which machines and caches compare it.

It imports neither pyspark nor numba: numba asks for it while modules are imported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable


@cache
def code_digest(*rooms: str) -> str:
    """Return a digest of all modules, or of those below ``rooms``; read once by a process."""
    return modules_digest(files("spark_jobs"), *rooms)


def modules_digest(package: Traversable, *rooms: str) -> str:
    """Return a digest of the names and texts of the modules of ``package``, or below ``rooms``.

    A room is a folder's name below the package: ``replay/alignment``.
    """
    digest = hashlib.sha256()
    found = _modules(package, "")
    if rooms:
        found = (one for room in rooms for one in _modules(package / room, f"{room}/"))
    for name, module in sorted(found, key=lambda one: one[0]):
        digest.update(name.encode() + b"\0" + module.read_bytes())
    return digest.hexdigest()


def _modules(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _modules(entry, f"{name}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield f"{name}{entry.name}", entry
