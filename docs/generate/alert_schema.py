"""``docs/reference/alert.schema.json``: what a web server is sent of a run."""

from __future__ import annotations

import json

from spark_jobs.publish.records import alert_schema


def alert_schema_text() -> str:
    """Return the JSON Schema as text."""
    return json.dumps(alert_schema(), indent=2) + "\n"
