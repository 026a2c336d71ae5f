"""CPU seconds of a process and of everything it started, also of what has ended since."""

from __future__ import annotations

import psutil


def tree_seconds() -> float:
    """Return the CPU seconds spent so far by this process and its descendants."""
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            used = process.cpu_times()
        except psutil.NoSuchProcess:  # it has just ended, and now counts as its parent's child
            continue
        total += used.user + used.system + used.children_user + used.children_system
    return total
