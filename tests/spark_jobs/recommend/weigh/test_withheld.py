"""When another value would not help."""

from __future__ import annotations

import pytest

from spark_jobs.recommend.recommendations import observed
from spark_jobs.recommend.weigh.backtest import broker_rules
from spark_jobs.recommend.weigh.proposal import Rules
from spark_jobs.recommend.weigh.withheld import IGNORES_THROTTLE, why_not_the_quota
from spark_jobs.settings import RecommendSettings
from tests.builders.tables_builder import Row, row, table_of
from tests.spark_jobs.recommend.day import fetches, produces, rates_of, steady

BROKERS = table_of("brokers", [row("brokers", broker_id=b) for b in (1, 2, 3)])
RULES = Rules(broker_rules(BROKERS), {}, RecommendSettings())


def why(decisions: list[Row], current: float, faults: frozenset[str] = frozenset()) -> str | None:
    seen = observed(table_of("decisions", decisions), rates_of(decisions), BROKERS)
    return why_not_the_quota(seen, current, set(faults), RULES)


def busy(rate: float, broker_id: int, bound: float = 50_000.0) -> list[Row]:
    return produces(steady(rate, 60), bound, waits=True, broker_id=broker_id)


def test_what_one_broker_leads_alone_is_to_be_spread() -> None:
    decisions = busy(80_000.0, 2) + busy(10_000.0, 1) + busy(12_000.0, 3)
    found = why(decisions, 50_000.0)
    assert found
    assert found.startswith("Not the quota: broker 2 serves")
    assert found.endswith("Move leaders of its partitions away from broker 2.")


@pytest.mark.parametrize(
    "decisions",
    [
        busy(80_000.0, 2),
        busy(80_000.0, 2) + busy(60_000.0, 1),
        # Even spread over both, the quota is too small.
        busy(200_000.0, 2) + busy(10_000.0, 1),
    ],
    ids=["one broker", "as much on the other", "too much for both"],
)
def test_otherwise_it_is_the_quota(decisions: list[Row]) -> None:
    assert why(decisions, 50_000.0) is None


def test_a_fetch_larger_than_a_window_is_too_large_whatever_the_traffic() -> None:
    small = [(i * 1_000, 500.0) for i in range(120)]
    # Asked once: such a fetch is never served, however often it is tried.
    as_fetch = {"quota_type": "consumer_byte_rate", "api_name": "FETCH"}
    found = why(produces([*small, (120_000, 40_000.0)], 2_000.0, **as_fetch), 2_000.0)
    assert found
    assert "one fetch of 40,000 bytes is more than the 22,000" in found
    assert why(fetches(small, 2_000.0), 2_000.0) is None


def test_a_client_that_ignores_its_throttles_is_to_be_mended() -> None:
    found = why(busy(80_000.0, 1), 50_000.0, frozenset({IGNORES_THROTTLE}))
    assert found
    assert "goes on sending while it is throttled" in found
