"""The form of a run: what the forms of all DAGs ask alike, and reading what was answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_jobs.settings import DailyAuditSettings

CLUSTER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
TIMEZONE_PATTERN = r"^[A-Za-z][A-Za-z0-9_+/-]*$"
VERSION_PATTERN = r"^(\d+(\.\d+){1,3}|\d+=\d+(\.\d+){1,3}(,\d+=\d+(\.\d+){1,3})*)?$"


def shared_fields(settings: DailyAuditSettings) -> dict[str, dict[str, Any]]:
    """Return the fields that every form has, by name: the arguments of Airflow's ``Param``."""
    return {
        "cluster": {
            "default": settings.cluster,
            "type": "string",
            "pattern": CLUSTER_PATTERN,
            "title": "Cluster",
            "description": "As in the archive's folder cluster=<name>; any name where it has none.",
        },
        "warehouse": {
            "default": str(settings.warehouse),
            "type": "string",
            "pattern": "^/",
            "title": "Warehouse",
            "description": "Absolute path of the folder the tables and reports are written to.",
        },
        "timezone": {
            "default": settings.timezone,
            "type": "string",
            "pattern": TIMEZONE_PATTERN,
            "title": "Time zone of the log lines",
            "examples": ["UTC", "Europe/Berlin", "America/New_York"],
            "description": "A name of the IANA database, as the brokers' clocks were set.",
        },
        "broker_version": {
            "default": settings.broker_version,
            "type": ["null", "string"],
            "pattern": VERSION_PATTERN,
            "title": "Broker version",
            "description": "Decides the rate profile. As 4.1.0 or 1=3.7.2,2=4.1.0; "
            "empty: found out.",
        },
    }


def text_of(params: Mapping[str, Any], name: str) -> str:
    """Return a field that no form can be sent without."""
    value = params.get(name)
    assert isinstance(value, str), f"the DAG's schema lets no run start without {name}"
    assert value, f"the DAG's schema lets no run start without {name}"
    return value
