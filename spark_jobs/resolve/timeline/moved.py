"""The timeline with each broker's own moments: where it is known when a change was in force."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Moments = Mapping[tuple[int, int], int]
"""(broker id, moment as quota_changes has it) → when the change was in force there."""


def moved_changes(
    rows: Iterable[Mapping[str, Any]], in_force_ms: Moments, broker_ids: Sequence[int]
) -> list[dict[str, Any]]:
    """Return rows of ``tables.QUOTA_CHANGES`` with the moments of ``in_force_ms``.

    A row that holds on every broker becomes one per broker where their moments differ; a value
    that was replaced before the broker learned of it has no row there.
    """
    moved: list[dict[str, Any]] = []
    for row in rows:
        each = [row["broker_id"]] if row["broker_id"] is not None else [*broker_ids]
        of_brokers = [_moved(row, broker_id, in_force_ms) for broker_id in each]
        spans = {(r["valid_from_ms"], r["valid_until_ms"]) for r in of_brokers}
        if row["broker_id"] is None and len(spans) <= 1:
            of_brokers = [{**(of_brokers[0] if of_brokers else row), "broker_id": None}]
        moved += [r for r in of_brokers if r["valid_from_ms"] != r["valid_until_ms"]]
    return moved


def _moved(row: Mapping[str, Any], broker_id: int, in_force_ms: Moments) -> dict[str, Any]:
    valid_from_ms, valid_until_ms = row["valid_from_ms"], row["valid_until_ms"]
    return {
        **row,
        "broker_id": broker_id,
        "valid_from_ms": in_force_ms.get((broker_id, valid_from_ms), valid_from_ms),
        "valid_until_ms": in_force_ms.get((broker_id, valid_until_ms), valid_until_ms),
    }
