"""What the kernel's speed is compared with does the same work."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.peers.rate_in_c import replay_rate_in_c
from tests.spark_jobs.quota.rate_streams import (
    RateStream,
    differences,
    random_sensors,
    replayed,
    state_differences,
)

ROWS, SENSORS = 100_000, 100


def test_the_loop_in_c_is_the_kernel() -> None:
    replay_in_c = replay_rate_in_c()
    if replay_in_c is None:
        pytest.skip("no C compiler (gcc or cc) on PATH")
    rng = np.random.default_rng(20261121)
    states = random_sensors(rng, SENSORS)
    stream = RateStream.of(rng, states, ROWS, mixed=True)
    left = states.take(np.arange(SENSORS))
    found = replay_in_c(*stream.columns(), *left.rate_arrays())
    assert differences(found, replayed(stream, states)) == []
    assert state_differences(left, states) == []


def test_without_a_compiler_there_is_no_loop_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert replay_rate_in_c() is None
