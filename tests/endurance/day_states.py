"""What a warehouse shows of each day: rows, files, and pages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import xxhash

from spark_jobs.errors import BadInputError
from spark_jobs.warehouse.scope import OUTPUTS, RunScope, clusters_of_warehouse, days_of
from spark_jobs.warehouse.tables import TABLES
from tests.endurance.fault_world import rows_digest
from tests.plugins.quota_pages.every_address import client_of, pages_app

States = Mapping[str, Mapping[str, str]]
"""By cluster and day: a digest of each table's rows and of each file."""
_PAGES = (
    *("/clusters/{}/{}" + rest for rest in ("", "/entities", "/recommendations", "/quality")),
    *("/reports/{}/{}/" + name for name in ("report.html", "apply.sh", "findings.jsonl")),
    "/data_docs/cluster={}/date={}/judged/index.html",
)


def states_of(warehouse: Path) -> States:
    """Return what is published of each day, as this program and as others find it."""
    found = {}
    for cluster in clusters_of_warehouse(warehouse):
        for day in days_of(warehouse, cluster):
            scope = RunScope(warehouse, cluster, day).pinned()
            found[f"{cluster} {day}"] = _tables(scope) | _files(scope)
    return found


def _tables(scope: RunScope) -> dict[str, str]:
    found = {}
    for table in TABLES:
        try:
            digest = rows_digest(scope, table)
        except BadInputError:  # of an earlier version, or removed by age
            found[table] = _digests(scope.partition_dir(table))
            continue
        parts = sum(1 for _ in scope.partition_dir(table).glob("*.parquet"))
        found[table] = f"{digest} in {parts} files"
    return found


def _files(scope: RunScope) -> dict[str, str]:
    found = {kind: _digests(scope.output_dir(kind)) for kind in OUTPUTS}
    return found | {f"{kind} of others": _digests(scope.plain_dir(kind)) for kind in OUTPUTS}


def _digests(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return ", ".join(
        f"{path.relative_to(folder)} {xxhash.xxh3_64_hexdigest(path.read_bytes())}"
        for path in files
    )


class PageReader:
    """Reads the pages of each day, and knows how they were before and after a command."""

    def __init__(self, before: Path, after: Path) -> None:
        self._addresses = [
            page.format(cluster, day)
            for cluster in clusters_of_warehouse(before)
            for day in days_of(before, cluster)
            for page in _PAGES
        ]
        self._known = {address: set[str]() for address in self._addresses}
        for warehouse in (before, after):
            for address, text in self._read(warehouse):
                self._known[address].add(text)
        self._next = 0

    def mixed(self, warehouse: Path) -> list[str]:
        """Return the address of the next page, where it is neither as before nor as after."""
        address = self._addresses[self._next % len(self._addresses)]
        self._next += 1
        text = self._text(warehouse, address)
        return [] if text in self._known[address] else [f"{address} is a mixture: {text[:80]}"]

    def _read(self, warehouse: Path) -> list[tuple[str, str]]:
        return [(address, self._text(warehouse, address)) for address in self._addresses]

    @staticmethod
    def _text(warehouse: Path, address: str) -> str:
        answer = client_of(pages_app(warehouse)).get(address)
        # Pages name the warehouse in commands to copy.
        return f"{answer.status_code} {answer.text.replace(str(warehouse), 'W')}"
