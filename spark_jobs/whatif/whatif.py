"""Step whatif: an ingested day's requests under other rules → the table ``whatif``.

Policies that decide on mutations alone are replayed here, all others through Spark. A day is
replayed on its own, with states that begin empty at midnight.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import WHATIF
from spark_jobs.warehouse.write import write_table
from spark_jobs.whatif.clients.mode import Mode
from spark_jobs.whatif.clients.scenario import ScenarioPolicy
from spark_jobs.whatif.logged_day import LoggedDay, logged_day, logged_requests
from spark_jobs.whatif.whatif_lanes import rows_of_lanes
from spark_jobs.whatif.whatif_mutations import only_mutates, rows_of_mutations


def whatif(
    spark: SparkSession,
    scope: RunScope,
    policies: Sequence[ScenarioPolicy],
    modes: Sequence[Mode] = (Mode.AS_LOGGED,),
) -> pa.Table:
    """Write what the requests of an ingested and resolved day get under each of the policies.

    Returns the rows, of schema WHATIF. Raises BadInputError where the day was not ingested, and
    PolicyConfigError where a policy refuses a quota or a topic of the log.
    """
    requests = logged_requests(spark, scope)
    day = logged_day(spark, requests, scope)
    for policy in policies:
        _hear_all(policy, day)
    on_mutations = [p for p in policies if only_mutates(p)]
    others = [p for p in policies if not only_mutates(p)]
    rows = rows_of_mutations(requests, scope, day, on_mutations, modes)
    for mode in modes:
        rows += rows_of_lanes(requests, day, others, mode)
    place = {policy.label: i for i, policy in enumerate(policies)}
    # The sort is stable, and each policy's rows come in their order.
    rows.sort(key=lambda row: (modes.index(row["mode"]), place[row["label"]], row["broker_id"]))
    table = pa.Table.from_pylist(rows, schema=WHATIF)
    write_table(table, "whatif", scope)
    return table


def _hear_all(policy: ScenarioPolicy, day: LoggedDay) -> None:
    """Let a policy hear every change, so that one it refuses is refused before Spark works."""
    begun = day.on_broker(policy, None).begin()
    for change in day.heard_by(policy):
        begun.observe(change)
