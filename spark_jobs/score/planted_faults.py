"""How many planted faults an audit found, and how many of its flags are planted faults."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from spark_jobs.errors import BadInputError
from spark_jobs.score.logged_outcomes import DecisionKey


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
    """Return how flags and planted faults overlap."""
    found = set(planted) & set(flagged)
    return PlantedFound(
        planted=len(set(planted)),
        flagged=len(set(flagged)),
        found=len(found),
        bandwidth_flagged=sum(key[3] is None for key in flagged),
        bandwidth_found=sum(key[3] is None for key in found),
    )
