"""The form of a run: what the forms of all DAGs ask alike, and reading what was answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zoneinfo import available_timezones

from spark_jobs.settings import ApprovalSettings, DailyAuditSettings
from spark_jobs.warehouse.storage import CLUSTER_PATTERN

VERSION_PATTERN = r"^(\d+(\.\d+){1,3}|\d+=\d+(\.\d+){1,3}(,\d+=\d+(\.\d+){1,3})*)?$"
PLACE_PATTERN = "^(/|s3://[^/])"
# A host may be an IPv6 address in brackets.
_SERVER = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9._-]*):\d{1,5}"
SERVERS_PATTERN = rf"^({_SERVER}(,{_SERVER})*)?$"

NOTE_FIELD: Mapping[str, Any] = {
    "default": None,
    "type": ["null", "string"],
    "format": "multiline",
    "maxLength": 1000,
    "title": "Note",
    "description": "Recorded beside each change. May be empty.",
}
"""The form's field that is filled in with the answer: the arguments of Airflow's ``Param``."""


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
            "pattern": PLACE_PATTERN,
            "title": "Warehouse",
            "description": "Where tables and reports are written to: the absolute path of a "
            "folder, or s3://bucket/key.",
        },
        "timezone": {
            "default": settings.timezone,
            "type": "string",
            "enum": sorted(available_timezones()),
            "title": "Time zone of the log lines",
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


def approval_fields(
    audit: DailyAuditSettings, approval: ApprovalSettings
) -> dict[str, dict[str, Any]]:
    """Return the fields of the form about applying proposals: the arguments of ``Param``."""
    shared = shared_fields(audit)
    return {
        "day": {
            "default": None,
            "type": ["null", "string"],
            "format": "date",
            "title": "Day (UTC)",
            "description": "The audited day. Empty: the last with recommendations.",
        },
        "cluster": shared["cluster"],
        "warehouse": shared["warehouse"],
        "bootstrap_servers": {
            "default": approval.bootstrap_servers,
            "type": "string",
            "pattern": SERVERS_PATTERN,
            "title": "Bootstrap servers",
            "description": "Brokers of the Kafka cluster to change: host:port,host:port.",
        },
        "command_config": {
            "default": str(approval.command_config or ""),
            "type": ["null", "string"],
            "pattern": "^(/|$)",
            "title": "Client properties file",
            "description": "Absolute path of a file with TLS and SASL settings, where applying "
            "runs. Secrets stand there and nowhere else. May be empty.",
        },
        "dry_run": {
            "default": approval.dry_run,
            "type": "boolean",
            "title": "Dry run",
            "description": "Check what is approved against the cluster, and change nothing.",
        },
        "allow_delete": {
            "default": approval.allow_delete,
            "type": "boolean",
            "title": "Allow removing values",
            "description": "Also offer the proposals that remove an entity's value.",
        },
    }


def text_of(params: Mapping[str, Any], name: str) -> str:
    """Return a field that no form can be sent without."""
    value = params.get(name)
    assert isinstance(value, str), f"the DAG's schema lets no run start without {name}"
    assert value, f"the DAG's schema lets no run start without {name}"
    return value
