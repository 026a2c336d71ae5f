"""A change of one client quota: what every target renders, and what is applied and taken back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """One entity's value of one quota type, before and after.

    Entity parts are as in the tables: None = no such part, ``<default>`` = the default one. A value
    None is none of the entity's own: there was none, or it is to be deleted. ``before`` is what the
    evidence saw in the cluster.
    """

    quota_type: str
    user: str | None
    client_id: str | None
    before: float | None
    after: float | None
    reason: str = ""

    @property
    def entity(self) -> tuple[str | None, str | None]:
        """Return user and client-id."""
        return self.user, self.client_id

    def taken_back(self) -> QuotaAlteration:
        """Return the alteration that undoes this one."""
        return QuotaAlteration(
            self.quota_type, self.user, self.client_id, self.after, self.before, self.reason
        )


PROPOSED = "proposed"


def proposed_alterations(recommendations: Iterable[Mapping[str, Any]]) -> list[QuotaAlteration]:
    """Return what the proposed rows of ``tables.RECOMMENDATIONS`` change, in their order.

    ``previous`` of a row is the entity's own value in the cluster; ``proposed`` None removes it.
    """
    return [
        QuotaAlteration(
            row["quota_type"],
            row["quota_user"],
            row["quota_client_id"],
            row["previous"],
            row["proposed"],
            row["reason"],
        )
        for row in recommendations
        if row["status"] == PROPOSED
    ]
