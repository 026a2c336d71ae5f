"""A real capture at another time of day, so that midnight can be anywhere in it."""

from __future__ import annotations

import datetime as dt
import gzip
import re
from pathlib import Path

CAPTURE = Path(__file__).parents[1] / "golden" / "captures" / "kafka-3.7.2"
STAMP = re.compile(rb"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]")


def shifted(folder: Path, by: dt.timedelta) -> Path:
    """Write the capture with all its times moved, without its server logs."""

    def move(found: re.Match[bytes]) -> bytes:
        moment = dt.datetime.strptime(found[1].decode(), "%Y-%m-%d %H:%M:%S,%f") + by
        return f"[{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}]".encode()

    for log in CAPTURE.glob("broker=*/kafka-request.log.gz"):
        target = folder / log.parent.name / "kafka-request.log"
        target.parent.mkdir(parents=True)
        target.write_bytes(STAMP.sub(move, gzip.decompress(log.read_bytes())))
    return folder


def from_the_middle_to_midnight() -> dt.timedelta:
    """Return how long after the capture's middle line its day ends."""
    times = [
        dt.datetime.strptime(stamp.decode(), "%Y-%m-%d %H:%M:%S,%f")
        for log in CAPTURE.glob("broker=*/kafka-request.log.gz")
        for stamp in STAMP.findall(gzip.decompress(log.read_bytes()))
    ]
    middle = sorted(times)[len(times) // 2]
    return dt.datetime.combine(middle.date() + dt.timedelta(days=1), dt.time()) - middle
