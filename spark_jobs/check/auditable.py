"""How many requests of each quota type can be audited, and why the others cannot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.check.looked_at import Group
from spark_jobs.ingest.messages.message_definition import CONTROLLER_APIS, ZOOKEEPER_APIS
from spark_jobs.quota.codes import QuotaType
from spark_jobs.quota.partition_inventory import DECIDED_ERRORS, NO_ERROR, PartitionInventory
from spark_jobs.replay.rates.recorded_amounts import EXEMPT_APIS
from spark_jobs.replay.sensors.mutation_lines import decided_lines

FETCHES = ("FETCH", "SHARE_FETCH")

HasValue = Callable[[str, int, str, str | None], bool]
"""Whether a value of (quota type, broker, user, client-id) is known for any time of the log."""


@dataclass(frozen=True, slots=True)
class QuotaShare:
    """The requests that one quota type counts; ``auditable``: their size and a value are known."""

    quota_type: str
    requests: int
    unsized: int  # the log does not tell the amount
    without_value: int  # no value is known for the client
    without_controller: int  # mutations that no controller's line tells of
    auditable: int


def controller_listeners(groups: Iterable[Group]) -> frozenset[str]:
    """Return the listeners that only controllers serve, as an ingest tells them."""
    return frozenset(g.listener for g in groups if g.is_forwarded or g.api_name in CONTROLLER_APIS)


def uses_zookeeper(groups: Iterable[Group]) -> bool:
    """Return True if a controller with ZooKeeper tells brokers what to do."""
    return any(g.api_name in ZOOKEEPER_APIS for g in groups)


def quota_shares(
    groups: Mapping[Group, int],
    mutations: Sequence[Mapping[str, Any]],
    has_value: HasValue,
    *,
    is_zookeeper: bool,
    is_whole: bool,
) -> list[QuotaShare]:
    """Return the share of each quota type, in Kafka's order.

    Unless ``is_whole``, the line of a mutation's controller may be where nobody looked, so it is
    missing only where no controller has any.
    """
    listeners = controller_listeners(groups)
    clients = Counter(
        {
            g: n
            for g, n in groups.items()
            if not (g.is_forwarded or g.is_replica or g.listener in listeners)
        }
    )
    produced = {g: n for g, n in clients.items() if g.api_name == "PRODUCE"}
    fetched = {g: n for g, n in clients.items() if g.api_name in FETCHES}
    timed = {g: n for g, n in clients.items() if g.api_name not in EXEMPT_APIS and g.is_answered}
    return [
        _share(QuotaType.PRODUCER_BYTE_RATE, produced, has_value, lambda g: g.is_sized),
        _share(QuotaType.CONSUMER_BYTE_RATE, fetched, has_value, lambda g: g.is_sized),
        _share(QuotaType.REQUEST_PERCENTAGE, timed, has_value, lambda _: True),
        _mutation_share(mutations, listeners, has_value, is_zookeeper, is_whole),
    ]


def _share(
    quota_type: str,
    groups: Mapping[Group, int],
    has_value: HasValue,
    is_sized: Callable[[Group], bool],
) -> QuotaShare:
    unsized = without_value = auditable = 0
    for group, count in groups.items():
        valued = has_value(quota_type, group.broker_id, group.user, group.client_id)
        unsized += 0 if is_sized(group) else count
        without_value += 0 if valued else count
        auditable += count if valued and is_sized(group) else 0
    total = sum(groups.values())
    return QuotaShare(str(quota_type), total, unsized, without_value, 0, auditable)


def _mutation_share(
    mutations: Sequence[Mapping[str, Any]],
    listeners: Collection[str],
    has_value: HasValue,
    is_zookeeper: bool,
    is_whole: bool,
) -> QuotaShare:
    at, alone = decided_lines(mutations, frozenset(listeners), uses_zookeeper=is_zookeeper)
    if at and not is_whole:
        alone = []
    inventory = PartitionInventory()
    unsized = without_value = auditable = decided = 0
    for row in sorted(at, key=lambda row: row["recorded_estimate_us"]):
        if not any(m["error_code"] in DECIDED_ERRORS for m in row["mutations"]):
            continue  # refused before a quota was asked
        decided += 1
        sized = _is_sized(row, inventory)
        quota_type = QuotaType.CONTROLLER_MUTATION_RATE
        valued = has_value(quota_type, row["broker_id"], row["user"], row["client_id"])
        unsized += not sized
        without_value += not valued
        auditable += sized and valued
    return QuotaShare(
        str(QuotaType.CONTROLLER_MUTATION_RATE),
        decided + len(alone),
        unsized,
        without_value,
        len(alone),
        auditable,
    )


def _is_sized(row: Mapping[str, Any], inventory: PartitionInventory) -> bool:
    """Return True if the partitions that a request spends are known; apply it to ``inventory``."""
    is_known = True
    for each in row["mutations"]:
        if each["error_code"] not in DECIDED_ERRORS or each["topic"] is None:
            continue
        is_known &= inventory.cost(row["api_name"], each["topic"], each["partitions"]) is not None
        if each["error_code"] == NO_ERROR and not row["validate_only"]:
            inventory.apply(row["api_name"], each["topic"], each["partitions"])
    return is_known
