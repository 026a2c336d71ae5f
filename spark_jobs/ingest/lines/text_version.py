"""Tells logs of brokers before 2.0 from those of 2.0 to 2.7, which look the same line by line.

Until 1.1 a throttled response was held back for its throttle time; since 2.0 (KIP-219) it is sent
at once and the connection is muted: another rule of when a request was recorded and answered. 1.0
and 1.1 already wrote the text format of 2.0, so a line alone does not tell. Two kinds of line do:

- The answer to API_VERSIONS names the highest version of every request that the broker knows:
  2.0 was the first with Produce 6 (KIP-219 raised it).
- A held response of a produce or fetch spent its throttle time in the broker, so ``throttleTime``
  is at least as long; from 2.0 to 2.5 it is not the throttle time (KAFKA-9652), and 2.6 prints it
  without decimals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from spark_jobs.ingest.lines.text_line import TextLine

HELD_MIN_MS = 50
"""Shorter throttles may have been waited for by chance."""
HELD_IN_A_ROW = 3
"""So many held responses without one that was not: no pause of a broker does that."""

_PRODUCE, _FETCH, _API_VERSIONS = 0, 1, 18
_PRODUCE_OF_2_0 = 6
PRODUCE_VERSIONS = re.compile(r"\{api_key=0,min_version=\d+,max_version=(\d+)[,}]")
"""What the text of an API_VERSIONS answer says of produces."""


class VersionClue(Enum):
    """What one line says of the version of the broker that wrote it."""

    NONE = 0
    BEFORE_2_0 = 1
    SINCE_2_0 = 2
    HELD = 3  # as before 2.0, or by chance


def version_clue(parts: TextLine, throttle_time_ms: int | None) -> VersionClue:
    """Return the clue of one line; ``throttle_time_ms`` is the response's."""
    api_key = parts.line.requestHeader.requestApiKey
    if api_key == _API_VERSIONS:
        found = PRODUCE_VERSIONS.search(parts.response)
        if found is None:
            return VersionClue.NONE
        is_since_2_0 = int(found[1]) >= _PRODUCE_OF_2_0
        return VersionClue.SINCE_2_0 if is_since_2_0 else VersionClue.BEFORE_2_0
    is_timed = api_key in (_PRODUCE, _FETCH)  # of the others the wait is in remoteTime
    if not is_timed or throttle_time_ms is None or throttle_time_ms < HELD_MIN_MS:
        return VersionClue.NONE
    if not parts.throttle_has_decimals:
        return VersionClue.SINCE_2_0
    is_held = parts.line.throttleTimeMs >= throttle_time_ms
    return VersionClue.HELD if is_held else VersionClue.SINCE_2_0


@dataclass(slots=True)
class BrokerVersion:
    """What the lines of one file told so far; a broker may be upgraded in the middle of it."""

    is_before_2_0: bool = False
    held_in_a_row: int = 0

    def take(self, clue: VersionClue) -> None:
        """Take a line's clue into account."""
        if clue is VersionClue.HELD:
            self.held_in_a_row += 1
            self.is_before_2_0 |= self.held_in_a_row >= HELD_IN_A_ROW
        elif clue is not VersionClue.NONE:
            self.held_in_a_row = 0
            self.is_before_2_0 = clue is VersionClue.BEFORE_2_0
