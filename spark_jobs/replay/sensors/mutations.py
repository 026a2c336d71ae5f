"""Controller mutations → amounts: one per topic, in the order the controller met them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.constants import EXPIRED_AFTER_MS
from spark_jobs.quota.kernels import CHARGES_MISSING, OTHER_BUCKET, SAME_BUCKET
from spark_jobs.quota.partition_inventory import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DECIDED_ERRORS,
    MUTATION_APIS,
    NO_ERROR,
    PartitionInventory,
    Process,
    is_strict,
)
from spark_jobs.replay.sensors.amounts import AMOUNTS
from spark_jobs.replay.sensors.mutation_lines import decided_lines
from spark_jobs.replay.sensors.resolution_table import ClientIndex, ResolutionTable
from spark_jobs.replay.verdicts.mutation_throttle import response_interval_ms
from spark_jobs.resolve.broker_log import BrokerLog

MUTATION_COLUMNS = (
    "broker_id", "source_file", "source_line", "connection", "correlation_id", "api_name",
    "api_version", "user", "client_id", "is_forwarded", "log_time_ms", "recorded_estimate_us",
    "recorded_earliest_ms", "recorded_latest_ms", "remote_time_us", "response_queue_time_us",
    "send_time_us", "throttle_time_ms", "mutations", "validate_only", "listener",
)  # fmt: skip
_LINE_ORDER = ("recorded_estimate_us", "source_file", "source_line")
# A KRaft controller takes their topics in the order of the request (ReplicationControlManager).
ORDERED_APIS = (CREATE_TOPICS, CREATE_PARTITIONS)


MutationLine = tuple[Mapping[str, Any], int]
"""A line with MUTATION_COLUMNS, and whether a mutation's bucket is the sensor's own."""


def mutation_lines(
    requests: pa.Table,
    *,
    controller_listeners: frozenset[str] = frozenset(),
    uses_zookeeper: bool = False,
) -> list[MutationLine]:
    """Return the lines that tell of the mutations among ``requests``, each once, in their order.

    With KRaft the controller's lines are the decisions. A mutation that only a broker's line tells
    of cannot be judged, but it moves the inventory and may have been charged to any controller.
    """
    rows = [r for r in requests.to_pylist() if r["api_name"] in MUTATION_APIS]
    decided, told = decided_lines(rows, controller_listeners, uses_zookeeper=uses_zookeeper)
    ordered = [(r, SAME_BUCKET) for r in decided] + [(r, OTHER_BUCKET) for r in told]
    return sorted(ordered, key=lambda line: [line[0][name] for name in _LINE_ORDER])


def expand_mutations(
    lines: Iterable[MutationLine],
    inventory: PartitionInventory,
    resolutions: ResolutionTable,
    broker_log: BrokerLog | None = None,
    *,
    uses_zookeeper: bool = False,
) -> pa.Table:
    """Return the amounts (schema AMOUNTS) of ``lines``; ``inventory`` moves on in place."""
    log, listed = broker_log or BrokerLog(), list(lines)
    amounts = [
        amount | {"bucket_gap": gap}
        for (row, gap), process in zip(listed, _processes(listed, log), strict=True)
        for amount in _amounts_of(row, process, inventory, uses_zookeeper=uses_zookeeper)
    ]
    return _with_gaps(_resolve(amounts, resolutions, log))


def follow_mutations(
    lines: Iterable[MutationLine],
    inventory: PartitionInventory,
    broker_log: BrokerLog,
    *,
    uses_zookeeper: bool = False,
) -> None:
    """Move ``inventory`` on by ``lines``."""
    listed = list(lines)
    for (row, _), process in zip(listed, _processes(listed, broker_log), strict=True):
        _charged_in_order(row, process, inventory, uses_zookeeper)


def _processes(lines: Sequence[MutationLine], broker_log: BrokerLog) -> list[Process | None]:
    """Return the process that decided each line, such as broker 1 as started at 0 ms: ``(1, 0)``.

    None for a line that only tells of a decision: another broker's process made it.
    """
    broker_id = np.array([row["broker_id"] for row, _ in lines], np.int64)
    at_ms = np.array([row["recorded_estimate_us"] // 1000 for row, _ in lines], np.int64)
    restart_ms = broker_log.epochs(broker_id, at_ms).restart_ms
    processes = zip(broker_id.tolist(), restart_ms.tolist(), strict=True)
    return [
        None if gap == OTHER_BUCKET else process
        for (_, gap), process in zip(lines, processes, strict=True)
    ]


def _amounts_of(
    row: Mapping[str, Any],
    process: Process | None,
    inventory: PartitionInventory,
    *,
    uses_zookeeper: bool,
) -> Iterator[dict[str, Any]]:
    latest_ms = row["recorded_latest_ms"]
    if uses_zookeeper:
        # Each topic is recorded as its creation begins, all of them in the handler
        # (ZkAdminManager.createTopics); KRaft's controller records after it (event queue).
        latest_ms = max(row["recorded_earliest_ms"], latest_ms - row["remote_time_us"] // 1000)
    response_earliest_ms, response_latest_ms = response_interval_ms(
        row["log_time_ms"], row["response_queue_time_us"], row["send_time_us"]
    )
    # ZkAdminManager charges nothing for what it only validates; a KRaft controller does.
    is_charged = not (uses_zookeeper and row["validate_only"])
    charged = _charged_in_order(row, process, inventory, uses_zookeeper)
    for position, (mutation, cost) in enumerate(charged):
        if not is_charged:
            return
        error = mutation["error_code"]
        yield {
            **{name: row[name] for name in AMOUNTS.names if name in row},
            "quota_type": str(QuotaType.CONTROLLER_MUTATION_RATE),
            "order_us": row["recorded_estimate_us"],
            "resource_index": position,
            "resource": mutation["topic"],
            "recorded_at_ms": row["recorded_estimate_us"] // 1000,
            "earliest_ms": row["recorded_earliest_ms"],
            "latest_ms": latest_ms,
            # A controller with ZooKeeper creates topic by topic in the handler's thread, and other
            # handlers go on meanwhile (ZkAdminManager); KRaft's has one thread (QuorumController).
            "is_atomic": not uses_zookeeper,
            "is_order_open": False,
            "amount": float("nan") if cost is None else float(cost),
            "is_strict": is_strict(row["api_name"], row["api_version"]),
            "response_earliest_ms": int(response_earliest_ms),
            "response_latest_ms": int(response_latest_ms),
            "logged_throttle_time_ms": row["throttle_time_ms"],
            "logged_admitted": error == NO_ERROR,
        }


def _charged_in_order(
    row: Mapping[str, Any],
    process: Process | None,
    inventory: PartitionInventory,
    uses_zookeeper: bool,
) -> list[tuple[Mapping[str, Any], int | None]]:
    """Return the topics that the quota was asked for, with their partitions, as it was asked.

    Kept in a hash map, topics come in the map's own order: any deletion (``ControllerApis``), and
    all with ZooKeeper (``KafkaApis``). Nothing then says which was first. A refused one leaves the
    debt that it met, so those admitted came before; of them the largest may always be the last.
    """
    api_name = row["api_name"]
    charged = []
    for mutation in row["mutations"] or ():
        topic, stated, error = mutation["topic"], mutation["partitions"], mutation["error_code"]
        if error not in DECIDED_ERRORS:
            continue
        if process is not None:
            inventory.hand_over(process)
        charged.append((mutation, inventory.cost(api_name, topic, stated)))
        if row["validate_only"]:
            continue
        if error == NO_ERROR:
            inventory.apply(api_name, topic, stated)
        elif process is not None:
            inventory.refuse(api_name, topic, process)
    if uses_zookeeper or api_name not in ORDERED_APIS:
        charged.sort(key=lambda c: (c[0]["error_code"] != NO_ERROR, c[1] or 0))
    return charged


def _with_gaps(amounts: pa.Table) -> pa.Table:
    """Return ``amounts`` with every controller's next one on a sensor after a charge elsewhere.

    Which controller took the charge of a mutation that only a broker tells of is not known, so on
    each of them there may be fewer tokens than the log tells, until such a sensor expires.
    """
    if not amounts.num_rows:
        return amounts
    names = ["broker_id", "quota_user", "quota_client_id", "recorded_at_ms", "logged_admitted"]
    gap = amounts["bucket_gap"].to_numpy().copy()
    charged: dict[tuple[str, str], tuple[int, int]] = {}  # the last charge's row and time
    seen: dict[tuple[int, str, str], int] = {}
    for i, (broker_id, user, client_id, at_ms, is_admitted) in enumerate(
        zip(*(amounts[name].to_pylist() for name in names), strict=True)
    ):
        if gap[i] == OTHER_BUCKET:
            if is_admitted:
                charged[user, client_id] = i, at_ms
            continue
        row, charged_ms = charged.get((user, client_id), (-1, 0))
        if row > seen.get((broker_id, user, client_id), -1):
            gap[i] = CHARGES_MISSING if at_ms - charged_ms <= EXPIRED_AFTER_MS else gap[i]
        seen[broker_id, user, client_id] = i
    column = amounts.schema.get_field_index("bucket_gap")
    return amounts.set_column(column, AMOUNTS.field(column), pa.array(gap))


def _resolve(
    amounts: Iterable[dict[str, Any]], resolutions: ResolutionTable, broker_log: BrokerLog
) -> pa.Table:
    listed = list(amounts)
    known = pa.schema([f for f in AMOUNTS if not listed or f.name in listed[0]])
    table = pa.Table.from_pylist(listed, schema=known)
    if not listed:
        return table
    (batch,) = table.combine_chunks().to_batches()
    at_ms = batch["recorded_at_ms"].to_numpy()
    index = ClientIndex.of(batch)
    found = resolutions.resolve(QuotaType.CONTROLLER_MUTATION_RATE, index, at_ms)
    epochs = broker_log.epochs(batch["broker_id"].to_numpy(), at_ms)
    resolved = {
        "restart_ms": pa.array(epochs.restart_ms),
        "has_request_bound": pa.array(resolutions.has_request_bound(index, at_ms)),
        "quota_user": found.quota_user,
        "quota_client_id": found.quota_client_id,
        "quota_level": found.quota_level,
        "bound": pa.array(found.bound),
        "bound_until": pa.array(found.bound_until),
        "has_joined": pa.array(found.has_joined),
        "bound_left": pa.array(found.bound_left),
        "known_for_ms": pa.array(epochs.known_for_ms(at_ms, found.known_from_ms)),
        "since_change_ms": pa.array(at_ms - found.changed_at_ms),
        "change_distance_ms": pa.array(
            np.minimum(at_ms - found.changed_at_ms, found.changes_at_ms - at_ms)
        ),
    }
    columns = [resolved[f.name] if f.name in resolved else batch[f.name] for f in AMOUNTS]
    full = pa.Table.from_arrays(
        [c.cast(f.type) for c, f in zip(columns, AMOUNTS, strict=True)], schema=AMOUNTS
    )
    return full.filter(pa.array(found.is_enabled))
