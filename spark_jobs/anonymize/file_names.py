"""What files of an archive are called in its copy: only words that the layout gives a meaning.

Files of a broker keep their order, which is the order of their lines where times are equal.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

_STEMS = (
    "kafka-request.log", "server.log", "server.properties", "kafka-version.txt",
    "quota-snapshot", "quota_changes.txt",
)  # fmt: skip
# A date with maybe a time, a moment in epoch seconds or ms, a count: and no address.
_NUMBER = r"(?:20\d\d(?:[-_.]?\d\d){1,2}(?:[-_.T:]?\d\d){0,3}Z?|\d{13}|\d{10}|\d{1,4})"
_FOLDER = re.compile(rf"broker=[0-9]+|{_NUMBER}", re.ASCII)
_END = re.compile(rf"(?:[-_.]{_NUMBER}){{0,2}}(?:\.log|\.txt|\.json)?(?:\.gz|\.zst)?", re.ASCII)
_KEPT_END = re.compile(r"(?:\.json|\.txt)?(?:\.gz|\.zst)?$")
_EPOCH_MS = re.compile(r"(?<!\d)\d{13}(?!\d)")


@dataclass(frozen=True, slots=True)
class ArchivedName:
    """A file that an audit reads, by its path below its cluster's folder."""

    path: PurePosixPath
    broker_id: int | None


def names_in_copy(names: Sequence[ArchivedName]) -> dict[PurePosixPath, PurePosixPath]:
    """Return the path in the copy for each path: the same where it tells nothing.

    Where a path of a broker has words of its own, all the broker's files lie in numbered folders.
    """
    by_broker: dict[int | None, list[PurePosixPath]] = defaultdict(list)
    for name in names:
        by_broker[name.broker_id].append(name.path)
    return {
        path: copy
        for broker_id, paths in by_broker.items()
        for path, copy in _of_broker(broker_id, sorted(paths, key=str)).items()
    }


def _of_broker(
    broker_id: int | None, paths: Sequence[PurePosixPath]
) -> dict[PurePosixPath, PurePosixPath]:
    if all(map(_tells_nothing, paths)):
        return {path: path for path in paths}
    folder = PurePosixPath() if broker_id is None else PurePosixPath(f"broker={broker_id}")
    return {path: folder / f"{number:06}" / _plain(path) for number, path in enumerate(paths)}


def _tells_nothing(path: PurePosixPath) -> bool:
    stem = _stem(path.name)
    folders = all(_FOLDER.fullmatch(part) for part in path.parts[:-1])
    return folders and _END.fullmatch(path.name, len(stem)) is not None


def _stem(name: str) -> str:
    return next(stem for stem in _STEMS if name.startswith(stem))


def _plain(path: PurePosixPath) -> str:
    """Return a file's name without all that is not needed to read it."""
    stem = _stem(path.name)
    moment = _EPOCH_MS.search(path.name) if stem == "quota-snapshot" else None
    end = _KEPT_END.search(path.name)
    return stem + (f"-{moment[0]}" if moment else "") + (end[0] if end else "")
