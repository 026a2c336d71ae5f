"""Writing files so that nobody ever sees half of them."""

from __future__ import annotations

import os
from pathlib import Path

from spark_jobs.warehouse.places import is_in_bucket


def write_whole(path: Path, text: str) -> Path:
    """Write ``text`` and return its path: readers see the file of before or the whole new one."""
    if is_in_bucket(path):
        # An object is there when all of it is; what cannot be encoded must not begin one.
        path.write_bytes(text.encode("utf-8"))
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path


def sync(path: Path) -> None:
    """Let what was written of a file, or a folder's names, survive the machine as well.

    Of a bucket it does.
    """
    if is_in_bucket(path):
        return
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
