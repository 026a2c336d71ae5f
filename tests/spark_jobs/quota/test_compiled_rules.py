"""A rule as a compiled function is the rule in plain Python, bit for bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.quota import compiled_rules, java_math
from tests.oracle.jvm_quota import bits

LONGS = st.integers(java_math.LONG_MIN, java_math.LONG_MAX)
DOUBLES = st.floats()
NEAR_HALVES = st.integers(-(2**54), 2**54).map(lambda n: n / 2)
POSITIVE = st.floats(0.0, 1e12)
WINDOW_SIZES_MS = st.integers(0, 200_000)


def same(found: float, expected: float) -> bool:
    return bool(bits(found) == bits(expected))


@given(dividend=DOUBLES, divisor=st.one_of(DOUBLES, st.sampled_from([0.0, -0.0])))
def test_a_quotient_is_javas(dividend: float, divisor: float) -> None:
    with np.errstate(all="ignore"):
        found = compiled_rules.divide(np.float64(dividend), np.float64(divisor))
    assert same(found, java_math.java_divide(dividend, divisor))


@given(x=st.one_of(DOUBLES, NEAR_HALVES))
def test_rounding_is_javas(x: float) -> None:
    assert compiled_rules.rounded(x) == java_math.java_round(x)


@given(x=LONGS)
def test_a_cast_to_int_is_javas(x: int) -> None:
    assert compiled_rules.low_int(x) == java_math.java_int(x)
