"""A published day whose every text comes from a stranger who means harm."""

from __future__ import annotations

import json
from pathlib import Path

from quota_pages.addresses import entity_id
from spark_jobs.publish.facts.quality import RuleResult
from spark_jobs.publish.publish_report import publish_whatif
from spark_jobs.warehouse.scope import RunScope
from tests.builders.published_day import BOUND, published, write_quality
from tests.builders.tables_builder import DAY, Row, row, write_rows
from tests.spark_jobs.publish.page.whatif_builder import POLICIES, three_policies
from tests.spark_jobs.recommend.day import produces, steady

NAMES = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>' onfocus='alert(1)",
    "--><svg onload=alert(1)>{{ 7*7 }}",
    "javascript:alert(1)",
    "line one\r\nline two\u2028three\x00\x1b[31m\x85",
    "../../etc/passwd",
    "gpj.exe\u202etxt\u2066\u200b\ufeff",
    "=HYPERLINK(\"http://evil.example\")",
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1+1)",
    "<b>" + "x" * 32_764,
)  # fmt: skip
"""Kafka's strings have up to 32,767 characters; Parquet's hold no lone surrogate, JSON's may."""
LONG_TEXT = "<i>" + "é\x07" * 32_768
LONE_SURROGATE = "\ud800<script>alert(1)</script>"


def hostile_day(warehouse: Path) -> RunScope:
    """Write the day and return its scope."""
    scope = RunScope(warehouse, "default", DAY)
    decisions = [made for number, name in enumerate(NAMES) for made in _decisions(name, number)]
    published(
        scope,
        decisions,
        findings=[_finding(name) for name in NAMES],
        recommendations=[_proposal(name) for name in NAMES],
        quarantine=[
            row("quarantine", source_file=name[:255], source_line=line, text=text, reason=name)
            for name in NAMES for line, text in ((1, name), (2, LONG_TEXT))
        ],
        files=[row("files", source_file=name[:255]) for name in NAMES],
        demand=[row("demand", quota_user=name, quota_client_id=name) for name in NAMES],
        quota_changes=[
            row("quota_changes", quota_user=name, quota_client_id=name, source_file=name[:255])
            for name in NAMES
        ],
        requests=[
            row("requests", user=name, client_id=name, principal=name, source_file=name[:255],
                topics=[{"topic": name, "records_bytes": 1}]) for name in NAMES
        ],
    )  # fmt: skip
    rows = [r for name in NAMES for r in three_policies(user=name, client_id=name)]
    write_rows(scope, "whatif", rows)
    publish_whatif(scope, rows, POLICIES)
    write_quality(scope, RuleResult(NAMES[0], NAMES[1], "error", found=LONG_TEXT, error=NAMES[2]))
    docs = warehouse / "data_docs" / "index.html"
    docs.parent.mkdir(exist_ok=True)
    docs.write_text("<!doctype html><title>Data Docs</title>")
    return scope


def _decisions(name: str, number: int) -> list[Row]:
    made = produces(
        steady(80_000.0, 15, per_second=2), BOUND, waits=True, user=name, quota_user=name,
        client_id=name, quota_client_id=name, source_file=name[:255],
    )  # fmt: skip
    return [r | {"source_line": 1000 * number + i} for i, r in enumerate(made)]


def _finding(name: str) -> Row:
    return row(
        "findings", finding_id=f"f-{entity_id(name, '')}", quota_user=name, quota_client_id=name,
        explanation=LONG_TEXT if name == NAMES[0] else name, hypothesis=name, runner_up=name,
        evidence=json.dumps({name: [name, LONE_SURROGATE], LONE_SURROGATE: name * 2}),
    )  # fmt: skip


def _proposal(name: str) -> Row:
    return row(
        "recommendations", quota_user=name, quota_client_id=name, reason=name,
        evidence=json.dumps({name: LONE_SURROGATE}),
    )  # fmt: skip
