"""A busy broker's request log of any size, made of captured lines.

Every line is a captured one with another stamp, correlation id, times, sizes, offsets, connection
and client id, so that columns repeat about as much as those of a busy broker.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Iterator
from pathlib import Path

from spark_jobs.ingest.archive import find_archive
from spark_jobs.ingest.log_stream import line_blocks

EXAMPLE = Path(__file__).parent.parent / "examples" / "capture"
SHARES = {"PRODUCE": 0.49, "FETCH": 0.49, "rest": 0.0195, "admin": 0.0005}
"""Of lines, by the name of their request; ``admin`` changes topics or quotas."""
ADMIN = {"CREATE_TOPICS", "DELETE_TOPICS", "CREATE_PARTITIONS", "ALTER_CLIENT_QUOTAS"}
CONNECTIONS, CLIENTS, PARTITIONS_MAX = 2000, 400, 3
FIRST_DAY = dt.datetime(2026, 11, 21, 0, 0, 1)
LINES_PER_SECOND = 2500

_API = re.compile(r'"requestApiKeyName":"(\w+)"')
_STAMP_CHARS = len("[2026-11-21 02:40:27,064]")
_VARIED = re.compile(
    r'"(correlationId|baseOffset|fetchOffset|highWatermark|recordsSizeInBytes)":\d+'
    r'|"(totalTimeMs|requestQueueTimeMs|localTimeMs|remoteTimeMs|responseQueueTimeMs|sendTimeMs)":[\d.]+'
    r'|"(clientId)":"([^"]+)"|"(connection)":"([\d.]+:\d+-[\d.]+):\d+-'
)  # fmt: skip


def write_archive(folder: Path, megabytes: int, files: int = 2) -> int:
    """Write ``files`` logs of ``megabytes`` in all, a broker each; return their bytes."""
    pools, total = _pools(), 0
    for broker in range(1, files + 1):
        place = folder / f"broker={broker}"
        place.mkdir(parents=True)
        with (place / "kafka-request.log").open("w") as log:
            written = 0
            for line in _lines(pools, random.Random(broker)):
                written += log.write(line)
                if written >= megabytes * 1e6 / files:
                    break
        total += (place / "kafka-request.log").stat().st_size
    return total


def _pools() -> dict[str, list[str]]:
    pools: dict[str, list[str]] = {name: [] for name in SHARES}
    for log in find_archive(EXAMPLE, "default").request_logs:
        for line in b"".join(line_blocks(log.path)).decode().splitlines():
            found = _API.search(line)
            if found is not None:
                name = "admin" if found[1] in ADMIN else found[1]
                pools[name if name in pools else "rest"].append(line[_STAMP_CHARS:] + "\n")
    return pools


def _lines(pools: dict[str, list[str]], chance: random.Random) -> Iterator[str]:
    names, weights = list(SHARES), list(SHARES.values())
    number = 0
    while True:
        for name in chance.choices(names, weights, k=1000):
            number += 1
            at = FIRST_DAY + dt.timedelta(seconds=number / LINES_PER_SECOND)
            stamp = f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}]"
            yield stamp + _varied(chance.choice(pools[name]), number, chance)


def _varied(line: str, number: int, chance: random.Random) -> str:
    def other(found: re.Match[str]) -> str:
        whole, time, client, client_id, connection, ends = found.groups()
        if whole == "correlationId":
            return f'"{whole}":{number}'
        if whole:
            return f'"{whole}":{chance.randrange(1 << 20)}'
        if time:
            return f'"{time}":{chance.randrange(9000) / 1000}'
        if client:
            return f'"{client}":"{client_id}-{chance.randrange(CLIENTS)}"'
        return f'"{connection}":"{ends}:{20_000 + chance.randrange(CONNECTIONS)}-'

    return _VARIED.sub(other, line)
