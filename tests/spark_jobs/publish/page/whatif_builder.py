"""Rows of ``tables.WHATIF`` and what a what-if page tells besides, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spark_jobs.publish.page.whatif_page import WhatifPolicy
from spark_jobs.warehouse.scope import RunScope
from tests.builders.tables_builder import DAY, Row, row

WhatifFacts = tuple[RunScope, tuple[WhatifPolicy, ...]]

POLICIES = (
    WhatifPolicy("now", "broker_bandwidth", "Apache Kafka: producer_byte_rate", None),
    WhatifPolicy("strict", "kip13", "KIP-13 Quotas", 'quota.producer.default = "1M"'),
    WhatifPolicy("lossy", "kip13_immediate_error", "KIP-13 Quotas, rejected", "retries = 2"),
)
_QUIET: Row = {
    "kind": "produce",
    "requests": 10,
    "unsized_requests": 0,
    "delayed_requests": 0,
    "refused_requests": 0,
    "harmed_requests": 0,
    "asked": 1000.0,
    "admitted": 1000.0,
    "delayed": 0.0,
    "refused": 0.0,
    "taken_back": 0.0,
    "lost": 0.0,
    "waiting": 0.0,
    "throttle_time_ms": 0,
    "throttle_time_max_ms": 0,
    "worst_burst": 300.0,
    "harm_time_ms": 0,
}


def quiet(label: str = "now", **overrides: Any) -> Row:
    """Return a client's row of produces of which nothing was delayed or refused."""
    return row("whatif", **{**_QUIET, "label": label, **overrides})


def delayed(label: str = "strict", throttle_time_ms: int = 5000, **overrides: Any) -> Row:
    """Return a client's row of produces of which four waited."""
    times = {"throttle_time_ms": throttle_time_ms, "throttle_time_max_ms": throttle_time_ms // 2}
    return quiet(label, **{"delayed_requests": 4, "delayed": 400.0, **times, **overrides})


def refused(label: str = "lossy", amount: float = 250.0, **overrides: Any) -> Row:
    """Return a client's row of produces of which ``amount`` was refused and lost."""
    amounts = {"admitted": 1000.0 - amount, "refused": amount, "lost": amount}
    return quiet(label, **{"refused_requests": 2, **amounts, **overrides})


def three_policies(**overrides: Any) -> list[Row]:
    """Return one client's rows under the three policies."""
    return [quiet(**overrides), delayed(**overrides), refused(**overrides)]


def facts(*policies: WhatifPolicy, cluster: str = "default") -> WhatifFacts:
    """Return facts of the default day; of all three policies where none is named."""
    return RunScope(Path(), cluster, DAY), policies or POLICIES
