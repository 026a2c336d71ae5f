"""``docs/reference/finding.schema.json``: what a line of ``findings.jsonl`` holds."""

from __future__ import annotations

import json

from spark_jobs.publish.records import finding_schema


def finding_schema_text() -> str:
    """Return the JSON Schema as text."""
    return json.dumps(finding_schema(), indent=2) + "\n"
