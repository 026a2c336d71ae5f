from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import psutil


def living(pids: Iterable[int]) -> list[int]:
    """Return those of some processes that have not ended; an unreaped one has."""
    found = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.append(pid)
    return found
