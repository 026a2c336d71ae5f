"""Proposals as shell scripts for Kafka's ``kafka-configs.sh``: one to apply, one to take back."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from spark_jobs.recommend.proposal import PROPOSED, amount
from spark_jobs.tables import DEFAULT

_HEAD = """\
#!/usr/bin/env bash
# {title}
# BOOTSTRAP       host:port of a broker (required)
# COMMAND_CONFIG  path of a properties file with the client's credentials (optional)
# KAFKA_CONFIGS   the tool, if it is not on PATH (optional)
# Stops at the first command that fails; every command may be repeated.
set -euo pipefail
: "${{BOOTSTRAP:?is not set: give host:port of a broker, as in BOOTSTRAP=broker-1:9092 $0}}"

alter() {{
  "${{KAFKA_CONFIGS:-kafka-configs.sh}}" --bootstrap-server "$BOOTSTRAP" \\
    ${{COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"}} --alter "$@"
}}
"""
_NOTHING = "\n# No change is proposed.\n"


def apply_script(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the script that sets every proposed value; ``rows`` are of ``recommendations``."""
    commands = [_apply(row) for row in rows if row["status"] == PROPOSED]
    return _script("Sets the proposed quotas. rollback.sh takes them back.", commands)


def rollback_script(rows: Sequence[Mapping[str, Any]], previous: Sequence[float | None]) -> str:
    """Return the script that undoes :func:`apply_script`, the last change first.

    ``previous`` has for each row the value the entity itself had, None where it had none: such a
    value is deleted, and the entity follows what it followed before.
    """
    pairs = zip(rows, previous, strict=True)
    commands = [_rollback(row, value) for row, value in pairs if row["status"] == PROPOSED]
    return _script("Takes back what apply.sh set.", commands[::-1])


def entity_arguments(user: str | None, client_id: str | None) -> list[str]:
    """Return the tool's arguments that name an entity.

    >>> " ".join(entity_arguments("alice", "<default>"))
    '--entity-type users --entity-name alice --entity-type clients --entity-default'
    """
    arguments = []
    for entity_type, name in (("users", user), ("clients", client_id)):
        if name is not None:
            arguments += ["--entity-type", entity_type]
            arguments += ["--entity-default"] if name == DEFAULT else ["--entity-name", name]
    return arguments


def config_value(value: float) -> str:
    """Return a value as the tool reads it: byte rates must have no fraction.

    >>> config_value(1_250_000.0), config_value(2.5)
    ('1250000', '2.5')
    """
    return str(int(value)) if value.is_integer() else repr(value)


def _apply(row: Mapping[str, Any]) -> str:
    quota_type = row["quota_type"]
    if row["proposed"] is None:
        now = amount(row["current"], quota_type)
        return _command(row, [f"{now} → none. {row['reason']}"], ["--delete-config", quota_type])
    now, then = amount(row["current"], quota_type), amount(row["proposed"], quota_type)
    change = ["--add-config", f"{quota_type}={config_value(row['proposed'])}"]
    return _command(row, [f"{now} → {then}. {row['reason']}"], change)


def _rollback(row: Mapping[str, Any], previous: float | None) -> str:
    quota_type = row["quota_type"]
    if previous is None:
        return _command(
            row,
            ["Back to none of its own: it had no value in the cluster before."],
            ["--delete-config", quota_type],
        )
    change = ["--add-config", f"{quota_type}={config_value(previous)}"]
    return _command(row, [f"Back to {amount(previous, quota_type)}."], change)


def _command(row: Mapping[str, Any], reasons: Sequence[str], change: Sequence[str]) -> str:
    entity = entity_arguments(row["quota_user"], row["quota_client_id"])
    lines = [f"{row['quota_type']} of {_named(row)}", *reasons]
    comment = "".join(f"# {_one_line(line)}\n" for line in lines)
    return f"\n{comment}alter {shlex.join([*entity, *change])}\n"


def _named(row: Mapping[str, Any]) -> str:
    parts = (("user", row["quota_user"]), ("client-id", row["quota_client_id"]))
    return ", ".join(
        f"every {kind} by default" if name == DEFAULT else f"{kind} '{name}'"
        for kind, name in parts
        if name is not None
    )


def _one_line(text: str) -> str:
    """Return ``text`` with what is not printable spelled out: a name may hold a line break."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _script(title: str, commands: Sequence[str]) -> str:
    return _HEAD.format(title=title) + ("".join(commands) or _NOTHING)
