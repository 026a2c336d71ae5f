"""``replay_rate`` in C, compiled when asked for: ``rate_replay.c`` through ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from spark_jobs.quota.kernels import RateReplay

SOURCE = Path(__file__).with_name("rate_replay.c")
# For this processor, as numba compiles too; Java has no fused multiply-add, which rounds less.
FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
COLUMN_TYPES = (np.int64, np.int64, np.float64, np.int8, np.int64, np.int64)
STATE_TYPES = (
    *(np.int8, np.int8, np.int64, np.int64),  # settings
    *(np.int64, np.int64, np.float64, np.int64, np.int64),  # samples
)
OUT_TYPES = (np.float64, np.float64, np.int64, np.int64, np.float64, np.int64)


def replay_rate_in_c() -> Callable[..., RateReplay] | None:
    """Return a function of the arguments of ``replay_rate``; None where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "rate_replay.so"
        flags = [*FLAGS, "-shared", "-fPIC", "-o", str(library)]
        subprocess.run([compiler, *flags, str(SOURCE), "-lm"], check=True)
        compiled = ctypes.CDLL(str(library)).replay_rate
    compiled.argtypes = [ctypes.c_int64] * 3 + [
        np.ctypeslib.ndpointer(kind, flags="C_CONTIGUOUS")
        for kind in (*COLUMN_TYPES, *STATE_TYPES, *OUT_TYPES)
    ]

    def replay(
        sensor: np.ndarray, recorded_at_ms: np.ndarray, amount: np.ndarray, *others: np.ndarray
    ) -> RateReplay:
        given, states = others[: len(COLUMN_TYPES) - 2], others[len(COLUMN_TYPES) - 2 :]
        columns = [
            np.ascontiguousarray(column, kind)
            for column, kind in zip((sensor, recorded_at_ms, *given), COLUMN_TYPES, strict=True)
        ]
        n = len(sensor)
        out = RateReplay(
            np.array(amount, np.float64), *(np.empty(n, kind) for kind in OUT_TYPES[1:])
        )
        sensors, slots = states[4].shape
        if compiled(n, sensors, slots, *columns, *states, *out) != 0:
            raise MemoryError(f"no memory for what is seen of {sensors} sensors")
        return out

    return replay
