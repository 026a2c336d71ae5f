"""The figures of a score under the names that people and programs read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_jobs.quota.codes import BANDWIDTH_TYPES
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.score.agreement import (
    FIRST_QUOTA_SLACK_MS,
    Agreement,
    Tally,
)
from spark_jobs.score.consistency import Consistency
from spark_jobs.score.logged_outcomes import LoggedOutcomes
from spark_jobs.score.planted_faults import PlantedFound


def share(part: int, whole: int) -> float | None:
    """Return ``part`` of ``whole``; None of nothing.

    >>> share(1, 4), share(0, 0)
    (0.25, None)
    """
    return part / whole if whole else None


def capture_figures(
    found: Agreement, logged: LoggedOutcomes, consistency: Consistency
) -> dict[str, Any]:
    """Return the figures of a whole capture by name, in the order they are read.

    Shares are None where there was nothing to count.
    """
    produces = found.total("producer_byte_rate")
    mutations = found.total("controller_mutation_rate")
    due = list(logged.due_decisions(FIRST_QUOTA_SLACK_MS))
    return {
        "produce_decisions": produces.decisions,
        "decision_agreement": share(produces.agreeing, produces.decisions),
        "throttled": produces.throttled,
        **_throttle_shares(produces),
        "mutation_decisions": mutations.decisions,
        "mutation_agreement": share(mutations.agreeing, mutations.decisions),
        "coverage": share(sum(found.rows_of[key] == 1 for key in due), len(due)),
        "duplicates": sum(rows > 1 for rows in found.rows_of.values()),
        "rows_not_in_log": found.rows_not_in_log,
        "indeterminate_share": share(produces.indeterminate, produces.decisions),
        "consistent": share(consistency.equal, consistency.checked),
        "admissible": share(found.inside_phases, found.produce_rows),
        "flags_by_type": dict(found.flags_by_type),
        "flagged_bandwidth": sum(found.flags_by_type[kind] for kind in BANDWIDTH_TYPES),
        "flagged": len(found.flagged),
    }


def planted_figures(counts: PlantedFound) -> dict[str, Any]:
    """Return recall and precision of planted faults."""
    return {
        "tampered": counts.planted,
        "recall": share(counts.found, counts.planted),
        "precision": share(counts.found, counts.flagged),
        "precision_bandwidth": share(counts.bandwidth_found, counts.bandwidth_flagged),
    }


def sensor_figures(sensors: Mapping[SensorKey, Tally]) -> list[dict[str, Any]]:
    """Return the figures of each sensor that decided something or was flagged, in key order."""
    rows = []
    for key in sorted(sensors):
        tally = sensors[key]
        if not (tally.decisions or tally.flagged):
            continue
        rows.append(
            {
                **key._asdict(),
                "decisions": tally.decisions,
                "decision_agreement": share(tally.agreeing, tally.decisions),
                "throttled": tally.throttled,
                **_throttle_shares(tally),
                "indeterminate_share": share(tally.indeterminate, tally.decisions),
                "flagged": tally.flagged,
            }
        )
    return rows


def _throttle_shares(tally: Tally) -> dict[str, float | None]:
    return {
        "throttle_exact": share(tally.exact, tally.throttled),
        "throttle_within_1ms": share(tally.within_1ms, tally.throttled),
        "throttle_within_5ms": share(tally.within_5ms, tally.throttled),
    }
