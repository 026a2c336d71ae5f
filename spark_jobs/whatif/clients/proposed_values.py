"""The day's quotas with other values: what was set of an entity is replaced from the beginning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_jobs.whatif.policies.change import Change, QuotaChanged

EntityKey = tuple[str, str | None, str | None]
"""Quota type, user and client-id as ``tables.QUOTA_CHANGES`` spells them."""


def with_values(
    changes: Sequence[Change], values: Mapping[EntityKey, float | None]
) -> list[Change]:
    """Return the changes had each of ``values`` been set before all of them; None is no value.

    ``changes`` are in time order, and whatever they say of these entities is left out.
    """
    first_ms = changes[0].at_ms if changes else 0
    others = [c for c in changes if not (isinstance(c, QuotaChanged) and _entity(c) in values)]
    set_first = [
        QuotaChanged(first_ms, *entity, bound)
        for entity, bound in values.items()
        if bound is not None
    ]
    return [*set_first, *others]


def _entity(change: QuotaChanged) -> EntityKey:
    return change.quota_type, change.user, change.client_id
