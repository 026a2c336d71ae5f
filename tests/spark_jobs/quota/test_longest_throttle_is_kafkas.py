"""The longest throttle of a version is what Kafka's own ClientQuotaManager gives, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.quota.java_math import INT_MAX
from spark_jobs.quota.kernels import NO_THROTTLE_MAX, replay_rate
from spark_jobs.quota.rate import Rate
from spark_jobs.quota.rate_decision import RECORD, decide
from spark_jobs.quota.rate_profile import profile_of_version, throttle_max_of_version
from spark_jobs.quota.states import SensorStates
from spark_jobs.quota.throttle_time import throttle_max
from tests.oracle.jars import run_java
from tests.oracle.jvm_quota import MANAGER_PROGRAM, manager_jars

pytestmark = pytest.mark.jvm

AT_MS = 1_700_000_000_000
BOUNDS = (0.0, 0.5, 1.0, 3.0, 1_000.0)
DELAYS_MS = (
    *(-5_000, 0, 1, 60_000, 2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1),
    *(2**32 - 1, 2**32, 2**32 + 500, 2**33 + 7, 2**50 + 12_345, 10**19, 10**30),
)
"""A first amount is divided by ten seconds: bound x (delay + 10 s) is throttled for the delay."""
ROWS = [
    (bound, (bound or 1.0) * (delay_ms + 10_000) / 1000.0)
    for bound in BOUNDS
    for delay_ms in DELAYS_MS
]


def kafkas(version: str) -> list[int]:
    lines = []
    for row, (bound, amount) in enumerate(ROWS):
        if row % len(DELAYS_MS) == 0:
            lines += ["new", f"set\t*\t-\t{bound}"]
        lines.append(f"record\t=user{row}\t=svc\t{amount!r}\t{AT_MS}")
    said = run_java(MANAGER_PROGRAM, manager_jars(version), stdin="\n".join(lines))
    return [int(line) for line in said.split()]


@pytest.mark.parametrize("version", ["4.1.0", "4.3.1", "4.4.0"])
def test_a_throttle_of_any_length_is_the_brokers(version: str) -> None:
    profile, most_ms = profile_of_version(version), throttle_max_of_version(version)
    expected = kafkas(version)
    plain = [
        decide(Rate(profile), amount, bound, AT_MS, throttle_max_ms=most_ms).throttle_time_ms
        for bound, amount in ROWS
    ]
    assert plain == expected
    n = len(ROWS)
    states = SensorStates.allocate([profile] * n, [11] * n, [1000] * n)
    replayed = replay_rate(
        np.arange(n),
        np.full(n, AT_MS),
        [amount for _, amount in ROWS],
        [bound for bound, _ in ROWS],
        np.full(n, RECORD),
        np.zeros(n, np.int64),
        np.full(n, throttle_max(most_ms)),
        *states.rate_arrays(),
    )
    assert replayed.throttle_time_ms.tolist() == expected


def test_a_longer_throttle_wraps_before_4_4_and_is_held_since() -> None:
    older, newer = kafkas("4.3.1"), kafkas("4.4.0")
    assert (min(older), max(older)) == (-(2**31), INT_MAX)
    assert (min(newer), max(newer)) == (0, INT_MAX)
    assert {new for old, new in zip(older, newer, strict=True) if old != new} == {INT_MAX}
    assert throttle_max(throttle_max_of_version("4.3.1")) == NO_THROTTLE_MAX
