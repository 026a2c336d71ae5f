"""The figures of a score under the names that people and programs read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from spark_jobs.errors import BadInputError
from spark_jobs.quota.codes import BANDWIDTH_TYPES
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.score.agreement import FIRST_QUOTA_SLACK_MS, Agreement, Tally
from spark_jobs.score.consistency import Consistency
from spark_jobs.score.logged_outcomes import DecisionKey, LoggedOutcomes


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


class _Truth(msgspec.Struct):
    violations: list[DecisionKey]


@dataclass(frozen=True, slots=True)
class PlantedFound:
    """Counts of planted faults, of flags, and of what is both; bandwidth is without mutations."""

    planted: int
    flagged: int
    found: int
    bandwidth_flagged: int
    bandwidth_found: int


def read_planted(text: bytes, where: str) -> frozenset[DecisionKey]:
    """Return the planted faults of a truth file, an object with ``violations``.

    Each is [broker id, connection, correlation id, topic or null]. Raises BadInputError naming
    ``where``.
    """
    try:
        return frozenset(msgspec.json.decode(text, type=_Truth).violations)
    except msgspec.DecodeError as error:
        raise BadInputError(
            f"{where} is no list of planted faults: {error}. Expected "
            '{"violations": [[<broker id>, "<connection>", <correlation id>, "<topic>" or null]]}.'
        ) from error


def count_found(planted: Collection[DecisionKey], flagged: Collection[DecisionKey]) -> PlantedFound:
    """Return the counts of planted faults, of flags, and of planted faults that are flagged."""
    found = set(planted) & set(flagged)
    return PlantedFound(
        planted=len(set(planted)),
        flagged=len(set(flagged)),
        found=len(found),
        bandwidth_flagged=sum(key[3] is None for key in flagged),
        bandwidth_found=sum(key[3] is None for key in found),
    )


def planted_figures(counts: PlantedFound) -> dict[str, Any]:
    """Return recall and precision of planted faults."""
    return {
        "tampered": counts.planted,
        "recall": share(counts.found, counts.planted),
        "precision": share(counts.found, counts.flagged),
        "precision_bandwidth": share(counts.bandwidth_found, counts.bandwidth_flagged),
    }
