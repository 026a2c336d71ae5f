"""What a Python worker keeps from task to task, left out of Python's search for garbage.

Spark collects garbage after every task (``pyspark.daemon``), which looks at each object of every
loaded module: a tenth of a second, as much as many tasks take.
"""

from __future__ import annotations

import gc
import sys

_modules_kept = 0


def keep_modules() -> None:
    """Leave out what there is, if modules were loaded since this was last done."""
    global _modules_kept
    if len(sys.modules) > _modules_kept:
        _modules_kept = len(sys.modules)
        gc.collect()
        gc.freeze()
