"""A day's controller mutations, all brokers' together: few, and replayed without Spark."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from spark_jobs.judge.verdicts import Tolerances
from spark_jobs.transforms.aligned_amounts import align_amounts
from spark_jobs.transforms.amounts import RECORD_ORDER, SENSOR_COLUMNS
from spark_jobs.transforms.sensor_replay import (
    REPLAYED,
    BrokerRules,
    CarriedState,
    SensorKey,
    replay_sensors,
)


def replay_amounts(
    amounts: pa.Table,
    rules: Mapping[int, BrokerRules],
    carried: Mapping[SensorKey, CarriedState],
    tolerances: Tolerances,
) -> pa.Table:
    """Return decisions and states (REPLAYED) of ``amounts`` (AMOUNTS, in any order)."""
    order = [(name, "ascending") for name in (*SENSOR_COLUMNS, *RECORD_ORDER)]
    batches = iter(amounts.sort_by(order).combine_chunks().to_batches())
    align, replay = align_amounts(rules, carried), replay_sensors(rules, carried, tolerances)
    return pa.Table.from_batches(list(replay(align(batches))), schema=REPLAYED)
