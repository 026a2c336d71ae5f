"""What is said of the cost of request logging is what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.logged_requests import logged_requests
from benchmarks.logging_cost import medians
from benchmarks.logging_cost_tables import KEPT, appender_table, cost_table
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "onboarding.md"


def row(logged: bool, cpu: float, **more: float) -> dict[str, Any]:
    return {"rate": 100, "logged": logged, "requests": 10, "cpu_s_per_1000": cpu, **more}


def test_the_page_has_the_tables_of_the_results() -> None:
    kept = json.loads(KEPT.read_text())
    page = PAGE.read_text("utf-8")
    assert cost_table(kept) in page
    assert appender_table(kept) in page


def test_rounds_give_a_median_and_lost_lines_a_sum() -> None:
    rounds = [
        row(True, 3.0, lost=1),
        row(False, 1.0),
        row(True, 9.0, lost=4),
        row(True, 4.0, lost=0),
    ]
    off, on = medians(rounds)
    assert off == {"rate": 100, "logged": False, "cpu_s_per_1000": 1.0, "requests": 10}
    assert (on["cpu_s_per_1000"], on["lost"], on["requests"]) == (4.0, 5, 30)


def test_only_produces_are_counted_each_for_its_client(tmp_path: Path) -> None:
    def line(api: str, client: str) -> bytes:
        return b'{"clientId":"%b","requestApiKeyName":"%b"}\n' % (client.encode(), api.encode())

    log = tmp_path / "kafka-request.log"
    lines = [
        line("PRODUCE", "a"),
        line("METADATA", "a"),
        line("PRODUCE", "b"),
        line("PRODUCE", "a"),
    ]
    log.write_bytes(b"".join(lines))
    logged = logged_requests([log])
    assert {client: found.lines for client, found in logged.items()} == {"a": 2, "b": 1}
    assert logged["a"].text == lines[0] + lines[3]
