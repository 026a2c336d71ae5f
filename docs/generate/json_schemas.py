"""``docs/reference/*.schema.json``: a line of ``findings.jsonl``, and what a web server is sent."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from spark_jobs.publish.records import AlertMessage, FindingRecord


def finding_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a line of ``findings.jsonl``."""
    return _schema(FindingRecord, "finding", "A finding of quota-audit")


def finding_schema_text() -> str:
    """Return the JSON Schema of a finding as text."""
    return json.dumps(finding_schema(), indent=2) + "\n"


def alert_schema_text() -> str:
    """Return the JSON Schema (2020-12) of a message as text."""
    return json.dumps(_schema(AlertMessage, "alert", "A message of quota-audit"), indent=2) + "\n"


def _schema(record: type[msgspec.Struct], name: str, title: str) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:quota-audit:{name}:1",
        "title": title,
    } | msgspec.json.schema(record)
