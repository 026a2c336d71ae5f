"""A steady client of 10 kB a second, its metric read every second, and what may differ."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spark_jobs.judge.metrics.comparison import Comparison, Expectation, Period, compare
from spark_jobs.judge.metrics.disagreement import finding_row, is_disagreement, likely_cause
from spark_jobs.judge.metrics.quota_metrics import MetricSeries
from spark_jobs.judge.metrics.sensor_amounts import SampleRule, SensorAmounts
from spark_jobs.judge.metrics.unknown import REASONS, BrokerLog, unknown_periods
from spark_jobs.quota.rate_profile import RateProfile
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.settings import CrosscheckSettings
from spark_jobs.warehouse.days import Interval

T = 1_795_000_000_000
KEY = SensorKey(1, "producer_byte_rate", "alice", "")
RULE = SampleRule(RateProfile.RATE_3_8, 11, 1000)
TOLERANCES = CrosscheckSettings()
NOBODY = np.zeros(0, np.int64)
DAY = Interval(T - 40_000_000, T + 40_000_000)


def expectation(every_ms: int = 100, amount: float = 1000.0, seconds: int = 300) -> Expectation:
    """Return traffic that swells and falls, so that one moment is unlike another."""
    at_ms = np.arange(T, T + seconds * 1000, every_ms)
    swell = 1 + 0.8 * np.sin((at_ms - T) / 9000)
    n = len(at_ms)
    history = SensorAmounts(
        RULE, at_ms, amount * swell, np.full(n, np.nan), np.zeros(n, bool),
        np.zeros(n, np.int64), np.zeros(n, np.int64),
    )  # fmt: skip
    return Expectation("byte-rate", history)


def measured(of: Expectation, shift_ms: int = 0, factor: float = 1.0) -> MetricSeries:
    """Return what a reader finds each second, under stamps that are ``shift_ms`` late."""
    at_ms = np.arange(T + 20_123, T + 280_000, 1000)
    values = of.at(at_ms, at_ms) * factor
    return MetricSeries({"__name__": "m"}, at_ms + shift_ms, values)


def outcome(of: Expectation, samples: MetricSeries) -> tuple[Comparison, dict[str, Any] | None]:
    found = compare(KEY, of, samples, (), TOLERANCES)
    if not is_disagreement(found, 3, 0.02):
        return found, None
    return found, finding_row(found, likely_cause(found, of, TOLERANCES), "default", 0)


def evidence(of: Expectation, samples: MetricSeries) -> dict[str, Any]:
    row = outcome(of, samples)[1]
    assert row is not None
    found: dict[str, Any] = json.loads(row["evidence"])
    return found


def test_what_the_log_leads_to_agrees() -> None:
    found, row = outcome(expectation(), measured(expectation()))
    assert (found.compared, found.disagreeing, row) == (260, 0, None)


@pytest.mark.parametrize("shift_ms", [-1500, 900, 2000])
def test_a_stamp_that_is_a_little_off_agrees(shift_ms: int) -> None:
    assert outcome(expectation(), measured(expectation(), shift_ms))[1] is None


@pytest.mark.parametrize("shift_s", [-3600, -47, 30, 7200])
def test_a_clock_that_is_far_off_is_named(shift_s: int) -> None:
    of, samples = expectation(), measured(expectation(), shift_s * 1000)
    found = compare(KEY, of, replace(samples, values=samples.values), (), TOLERANCES)
    cause = likely_cause(found, of, TOLERANCES)
    assert cause.cause == "clocks_differ"
    assert cause.shift_s == shift_s


@pytest.mark.parametrize(
    ("factor", "cause"), [(1.12, "broker_counted_more"), (0.5, "log_holds_more")]
)
def test_who_has_more_is_said(factor: float, cause: str) -> None:
    found = evidence(expectation(), measured(expectation(), factor=factor))
    assert found["likely_cause"] == cause
    assert found["measured_to_expected"] == pytest.approx(factor, rel=0.05)


def test_a_broker_with_another_number_of_samples_is_named() -> None:
    of = expectation()
    other = replace(of, history=of.history.with_rule(replace(RULE, samples=31)))
    found = evidence(of, measured(other))
    assert (found["likely_cause"], found["window_samples"]) == ("other_window", 31)


def test_a_finding_says_who_where_how_much_and_when() -> None:
    samples = measured(expectation())
    values = samples.values.copy()
    values[100:110] *= 3
    row = outcome(expectation(), replace(samples, values=values))[1]
    assert row is not None
    assert (row["kind"], row["severity"], row["decisions"]) == (
        "disagrees_with_metrics", "warning", 10,
    )  # fmt: skip
    assert row["from_ms"] == samples.at_ms[100]
    assert row["until_ms"] == samples.at_ms[109] + 1
    assert row["explanation"].startswith(
        "User 'alice': the metric byte-rate of broker 1 (producer_byte_rate) disagrees with its "
        "log in 10 of 260 samples, mostly 3 times what the log says; at worst it is "
    )


def test_one_odd_sample_here_and_there_is_no_finding() -> None:
    samples = measured(expectation())
    values = samples.values.copy()
    values[[20, 80, 140, 200]] *= 3
    found, row = outcome(expectation(), replace(samples, values=values))
    assert (found.disagreeing, row) == (4, None)


def test_a_value_where_the_log_expects_none_is_more() -> None:
    of = expectation()
    nothing = Expectation("throttle-time", replace(of.history, at_ms=NOBODY, amount=np.zeros(0),
                          bound=np.zeros(0), is_unrecorded=np.zeros(0, bool),
                          throttle_ms=NOBODY, epoch=NOBODY))  # fmt: skip
    found = evidence(nothing, measured(of))
    assert found["likely_cause"] == "broker_counted_more"
    assert found["worst_expected"] is None


def left_out(
    samples: MetricSeries,
    log: BrokerLog,
    first_ms: int | None = None,
    unsure: np.ndarray | None = None,
) -> dict[str, int]:
    of = expectation()
    rows = np.zeros(len(of.history.at_ms), bool) if unsure is None else unsure
    unknown = unknown_periods(DAY, log, of.history, first_ms, ("amount_not_logged", rows), 2000)
    found = compare(KEY, of, samples, unknown, TOLERANCES)
    assert found.compared + sum(found.left_out.values()) == len(samples.at_ms)
    assert set(found.left_out) <= set(REASONS)
    return dict(found.left_out)


WHOLE = BrokerLog(T - 9_000_000, T + 9_000_000)


def test_a_sample_that_is_no_number_is_left_out() -> None:
    samples = measured(expectation())
    values = samples.values.copy()
    values[:7] = [np.nan] * 5 + [np.inf, -np.inf]
    assert left_out(replace(samples, values=values), WHOLE) == {"no_number": 7}


def test_what_the_broker_counted_before_its_log_began_is_not_known_for_a_window() -> None:
    began = T + 50_000
    samples = measured(expectation())
    assert left_out(samples, BrokerLog(began, WHOLE.last_ms)) == {
        "log_began": int((samples.at_ms < began + 12_000 + 2000).sum())
    }


def test_a_log_that_begins_with_its_broker_is_known_from_the_sensor_s_first_amount() -> None:
    log = BrokerLog(T - 9_000, WHOLE.last_ms, ((T - 15_000, True),))
    assert log.begins_with_broker
    samples = measured(expectation())
    assert left_out(samples, log, first_ms=T + 30_000) == {
        "log_began": int((samples.at_ms < T + 32_000).sum())
    }


@pytest.mark.parametrize(("is_logged", "seconds"), [(True, 4), (False, 16)])
def test_a_start_that_is_guessed_leaves_a_window_unknown(is_logged: bool, seconds: int) -> None:
    log = replace(WHOLE, starts=((T + 100_000, is_logged),))
    assert left_out(measured(expectation()), log) == {"broker_started": seconds}


def test_after_the_log_s_last_line_and_on_other_days_nothing_is_compared() -> None:
    samples = measured(expectation())
    ends = T + 200_000
    assert left_out(samples, BrokerLog(WHOLE.first_ms, ends)) == {
        "log_ended": int((samples.at_ms >= ends).sum())
    }
    yesterday = replace(samples, at_ms=samples.at_ms - 86_400_000)
    assert left_out(yesterday, WHOLE) == {"other_day": 260}


def test_while_an_amount_counts_that_is_not_logged_nothing_is_compared() -> None:
    unsure = np.zeros(3000, bool)
    unsure[[1000, 1100]] = True  # at 100 and 110 s
    assert left_out(measured(expectation()), WHOLE, unsure=unsure) == {"amount_not_logged": 26}


def test_periods_may_overlap_and_a_sample_is_counted_once() -> None:
    of = expectation()
    periods = [Period("log_began", [(0, T + 100_000), (T, T + 30_000)]),
               Period("log_ended", [(T, T + 110_000)])]  # fmt: skip
    found = compare(KEY, of, measured(of), periods, TOLERANCES)
    assert dict(found.left_out) == {"log_began": 80, "log_ended": 10}
