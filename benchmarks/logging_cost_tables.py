"""The tables of docs/onboarding.md, made of what ``logging_cost.py`` kept.

python -m benchmarks.logging_cost_tables    prints them
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks.kept_results import RESULTS

KEPT = RESULTS / "logging_cost.json"
_FILE = "file"


def cost_table(kept: dict[str, Any]) -> str:
    """Return what logging into a file costs: a row for each Kafka version and rate."""
    head = [
        *("Kafka", "requests/s", "MB per 1000 requests", "packed (gzip)"),
        *("CPU s per 1000: off", "on", "p50 ms: off", "on", "p99 ms: off", "on"),
    ]
    return _table(head, _cost_rows(kept))


def _cost_rows(kept: dict[str, Any]) -> Iterator[list[str]]:
    for version, ways in kept.items():
        rows = ways[_FILE]["steady"]
        for rate in dict.fromkeys(row["rate"] for row in rows):
            off, on = _off_and_on(rows, rate)
            both = [
                form.format(row[name])
                for name, form in (("cpu_s_per_1000", "{:.3f}"), ("p50_ms", "{:.1f}"),
                                   ("p99_ms", "{:.0f}"))
                for row in (off, on)
            ]  # fmt: skip
            sizes = [f"{on['mb_per_1000']:.2f}", f"{on['gzip_mb_per_1000']:.3f}"]
            yield [version, f"{rate:,}", *sizes, *both]


def _off_and_on(rows: list[dict[str, Any]], rate: int) -> list[dict[str, Any]]:
    return sorted((row for row in rows if row["rate"] == rate), key=lambda row: row["logged"])


def appender_table(kept: dict[str, Any]) -> str:
    """Return what each appender loses, and what a log that stalls costs."""
    some = next(iter(kept.values()))[_FILE]["stalled"]
    head = ["Kafka", "appender", "CPU s per 1000: added", "lost"]
    for row in some:
        head += [f"stalls, {row['rate']:,}/s: lost", "p99 ms"]
    return _table(head, _appender_rows(kept))


def _appender_rows(kept: dict[str, Any]) -> Iterator[list[str]]:
    for version, ways in kept.items():
        for way, found in ways.items():
            rate = max(row["rate"] for row in found["steady"])
            off, on = _off_and_on(found["steady"], rate)
            added = on["cpu_s_per_1000"] - off["cpu_s_per_1000"]
            cells = [version, way, f"{added:.3f}", _lost(on)]
            for row in found["stalled"]:
                cells += [_lost(row), f"{row['p99_ms']:,.0f}"]
            yield cells


def _lost(row: dict[str, Any]) -> str:
    return f"{row['lost']:,} of {row['requests']:,}"


def _table(head: Iterable[str], rows: Iterable[list[str]]) -> str:
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    results = json.loads(KEPT.read_text())
    print(cost_table(results))
    print(appender_table(results))
