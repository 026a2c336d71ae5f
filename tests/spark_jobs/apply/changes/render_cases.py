"""What the golden files of each target hold: the folder's name, and what it is rendered from."""

from __future__ import annotations

from spark_jobs.apply.changes.quota_alteration import QuotaAlteration, QuotaValue
from spark_jobs.apply.render import TARGETS
from tests.spark_jobs.apply.changes.fixed_alterations import (
    ALTERATIONS,
    IN_FORCE,
    JIKKOUS,
    REDPANDAS,
    UNCHANGED,
    in_force_of,
    value,
)

Case = tuple[str, list[QuotaAlteration], list[QuotaValue]]

# For Jikkou and rpk a second cluster: of the first they express nothing.
CASES: dict[str, Case] = {target: (target, ALTERATIONS, IN_FORCE) for target in TARGETS} | {
    "jikkou": ("jikkou", JIKKOUS, [*UNCHANGED, *in_force_of(JIKKOUS)]),
    "rpk": (
        "rpk",
        REDPANDAS,
        [*in_force_of(REDPANDAS), value("ivan", "etl", "producer_byte_rate")],
    ),
    "jikkou-none": ("jikkou", ALTERATIONS, IN_FORCE),
    "rpk-none": ("rpk", ALTERATIONS, IN_FORCE),
}
