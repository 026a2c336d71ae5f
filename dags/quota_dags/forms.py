"""The form of a run: what the forms of all DAGs ask alike, and reading what was answered.

Settings are bounds: a form can only be stricter. Airflow refuses what the form's schema does not
allow; a task asks again, for its worker's settings count, and takes what no schema knows for bad.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

from spark_jobs.settings import DEFAULT_TARGET, ApprovalSettings, DailyAuditSettings, KafkaTarget
from spark_jobs.warehouse.storage import CLUSTER_PATTERN

VERSION_PATTERN = r"^(\d+(\.\d+){1,3}|\d+=\d+(\.\d+){1,3}(,\d+=\d+(\.\d+){1,3})*)?$"
_NOTHING_DONE = "Nothing was read or written."
_SHOWN_MAX = 120
# Fields of earlier versions, by which a form chose whom to send the credentials of a setting.
_HOST_FIELDS = ("bootstrap_servers", "command_config")


class FormError(ValueError):
    """What a form or an event asks for is not allowed by the settings, or is none: a sentence."""


@contextmanager
def refused_for_good(final_error: type[Exception]) -> Iterator[None]:
    """Raise ``final_error`` for a FormError of the block: another attempt would say the same."""
    try:
        yield
    except FormError as error:
        raise final_error(str(error)) from error


NOTE_FIELD: Mapping[str, Any] = {
    "default": None,
    "type": ["null", "string"],
    "format": "multiline",
    "maxLength": 1000,
    "title": "Note",
    "description": "Recorded beside each change. May be empty.",
}
"""The form's field that is filled in with the answer: the arguments of Airflow's ``Param``."""


def plan_field(digest: str) -> dict[str, Any]:
    """Return the question's field that brings the digest of what was shown back."""
    return {
        "default": digest,
        "type": "string",
        "enum": [digest],
        "title": "Plan",
        "description": "Stands for what is asked about here, and comes back with the answer: "
        "nothing else is applied.",
    }


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
            "pattern": place_pattern(warehouses_of(settings)),
            "title": "Warehouse",
            "description": "Where tables and reports are written to: the setting's, one of "
            "QUOTA_AUDIT_WAREHOUSES, or a folder below.",
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


def archive_field(settings: DailyAuditSettings) -> dict[str, Any]:
    """Return the field of the archive to read: the arguments of Airflow's ``Param``."""
    return {
        "default": str(settings.archive),
        "type": "string",
        "pattern": place_pattern(archives_of(settings)),
        "title": "Archive",
        "description": "Has [cluster=<name>/]broker=<id>/…/kafka-request.log* below. The "
        "setting's, one of QUOTA_AUDIT_ARCHIVES, or a folder below.",
    }


def approval_fields(
    audit: DailyAuditSettings, approval: ApprovalSettings
) -> dict[str, dict[str, Any]]:
    """Return the fields of the form about applying proposals: the arguments of ``Param``.

    What a setting leaves no choice about is no field.
    """
    shared, targets = shared_fields(audit), approval.every_target()
    default = next((name for name in (DEFAULT_TARGET, audit.cluster) if name in targets), None)
    fields = {
        "day": {
            "default": None,
            "type": ["null", "string"],
            "format": "date",
            "title": "Day (UTC)",
            "description": "The audited day. Empty: the last with recommendations.",
        },
        "cluster": shared["cluster"],
        "warehouse": shared["warehouse"],
        "target": {
            "default": default,
            "type": ["null", "string"],
            "enum": [*([] if default else [None]), *targets],
            "title": "Target",
            "description": "The Kafka cluster to change, by its name in the settings.",
        },
    }
    if not approval.dry_run:
        fields["dry_run"] = {
            "default": False,
            "type": "boolean",
            "title": "Dry run",
            "description": "Check what is approved against the cluster, and change nothing.",
        }
    if approval.allow_delete:
        fields["allow_delete"] = {
            "default": True,
            "type": "boolean",
            "title": "Allow removing values",
            "description": "Also offer the proposals that remove an entity's value.",
        }
    return fields


def archives_of(settings: DailyAuditSettings) -> tuple[str, ...]:
    """Return the places at or below which a form may name an archive."""
    return (str(settings.archive), *settings.archives)


def warehouses_of(settings: DailyAuditSettings) -> tuple[str, ...]:
    """Return the places at or below which a form, or an event, may name a warehouse."""
    return (str(settings.warehouse), *settings.warehouses)


def place_pattern(places: Sequence[str]) -> str:
    r"""Return a pattern of ``places`` and of what is below them.

    >>> place_pattern(["/wh"])
    '^(/wh)(/(?!\\.\\.?(/|$))[^/\\x00-\\x1f]+)*/?$'
    """
    known = "|".join(re.escape(place.rstrip("/")) for place in places)
    return rf"^({known})(/(?!\.\.?(/|$))[^/\x00-\x1f]+)*/?$"


def check_places(params: Mapping[str, Any], settings: DailyAuditSettings) -> None:
    """Raise FormError where a form names an archive or warehouse that no setting allows."""
    for name, places in (
        ("archive", archives_of(settings)),
        ("warehouse", warehouses_of(settings)),
    ):
        if place := params.get(name):
            _check_place(f"the form's {name}", place, places, f"QUOTA_AUDIT_{name.upper()}S")


def _check_place(what: str, place: Any, places: Sequence[str], setting: str) -> None:
    if not any(_is_at_or_below(place, known) for known in places):
        raise FormError(
            f"{what.capitalize()} is {shown(place)}, and the settings allow {', '.join(places)} "
            f"and what is below: name one of these, or add the place to {setting}. {_NOTHING_DONE}"
        )


def _is_at_or_below(place: Any, known: str) -> bool:
    if not isinstance(place, str) or not re.fullmatch(place_pattern([known]), place):
        return False
    if "://" in known:
        return True
    try:
        # A link may lead out of the folder.
        return Path(place).resolve().is_relative_to(Path(known).resolve())
    except (OSError, ValueError):
        return False


def check_event(extra: Any, settings: DailyAuditSettings) -> None:
    """Raise FormError where what an asset's event carries would not be taken from a form."""
    if not isinstance(extra, Mapping):
        raise FormError(f"The asset's event carries {shown(extra)}: expected an object.")
    cluster, day, warehouse = (extra.get(name) for name in ("cluster", "day", "warehouse"))
    if cluster is not None and not _reads_like(CLUSTER_PATTERN, cluster):
        raise FormError(
            f"The event's cluster is {shown(cluster)}: expected up to 100 of the characters A-Z, "
            f"a-z, 0-9, '.', '_' and '-', the first a letter or digit. {_NOTHING_DONE}"
        )
    if day is not None and not is_day(day):
        raise FormError(
            f"The event's day is {shown(day)}: expected a date as 2026-11-20. {_NOTHING_DONE}"
        )
    if warehouse is not None:
        places = warehouses_of(settings)
        _check_place("the event's warehouse", warehouse, places, "QUOTA_AUDIT_WAREHOUSES")


def _reads_like(pattern: str, value: Any) -> bool:
    # A $ would let a line's end pass.
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def is_day(value: Any) -> bool:
    """Return True for a date as 2026-11-20.

    >>> is_day("2026-11-20"), is_day("20261120"), is_day("2026-11-31")
    (True, False, False)
    """
    if not _reads_like(r"\d{4}-\d{2}-\d{2}", value):
        return False
    try:
        dt.date.fromisoformat(value)
    except ValueError:
        return False
    return True


def shown(value: Any) -> str:
    """Return ``value`` as a sentence can show it: one line, and no longer than it needs."""
    return ascii(value)[:_SHOWN_MAX]


def bounded_flags(params: Mapping[str, Any], approval: ApprovalSettings) -> dict[str, bool]:
    """Return ``dry_run`` and ``allow_delete``: the settings', or stricter.

    Raises FormError where a form is to be less strict.
    """
    found = {}
    for name, strict in (("dry_run", True), ("allow_delete", False)):
        setting = getattr(approval, name)
        value = params.get(name, setting)
        if not isinstance(value, bool) or (setting is strict and value is not strict):
            raise FormError(
                f"The form asks for {name} = {shown(value)}, and the setting "
                f"QUOTA_AUDIT_KAFKA_{name.upper()} is {str(setting).lower()}: a form can be "
                f"stricter than the settings, never less strict. {_NOTHING_DONE}"
            )
        found[name] = value
    return found


def chosen_target(params: Mapping[str, Any], approval: ApprovalSettings) -> KafkaTarget | None:
    """Return the target that a form names; None where it names none.

    Raises FormError where there is none of that name, or the form itself says how to connect.
    """
    targets = approval.every_target()
    told = [name for name in _HOST_FIELDS if params.get(name)]
    if told:
        raise FormError(
            f"The form says {' and '.join(told)}, which settings alone may: name a target in the "
            f"field target. {_known_targets(targets)} {_NOTHING_DONE}"
        )
    name = params.get("target")
    if name and (not isinstance(name, str) or name not in targets):
        raise FormError(
            f"There is no target {shown(name)}. {_known_targets(targets)} {_NOTHING_DONE}"
        )
    return targets[name] if name else None


def _known_targets(targets: Mapping[str, KafkaTarget]) -> str:
    return (
        f"There are: {', '.join(targets) or 'none'} (QUOTA_AUDIT_KAFKA_BOOTSTRAP_SERVERS, "
        "QUOTA_AUDIT_KAFKA_TARGETS)."
    )


def text_of(params: Mapping[str, Any], name: str) -> str:
    """Return a field that no form can be sent without."""
    value = params.get(name)
    assert isinstance(value, str), f"the DAG's schema lets no run start without {name}"
    assert value, f"the DAG's schema lets no run start without {name}"
    return value
