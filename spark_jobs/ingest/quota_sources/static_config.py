"""A broker's ``server.properties``: how its quotas are measured, and the old static quotas.

Names and defaults: ``QuotaConfig`` (4.x) and ``KafkaConfig`` (before). KIP-13's
``quota.producer.default`` and ``quota.consumer.default`` were removed in Kafka 3.0 (KAFKA-12591).
Its per-client overrides never were part of a release: dynamic client quotas took their place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.quota_sources.events import SINCE_UNKNOWN_MS, QuotaEvent
from spark_jobs.ingest.quota_sources.java_properties import Property, read_properties
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.quota.constants import SAMPLES, WINDOW_MS

_DEFAULTS = {
    "quota.producer.default": "producer_byte_rate",
    "quota.consumer.default": "consumer_byte_rate",
}
_OVERRIDES = {
    "quota.producer.override": "producer_byte_rate",
    "quota.consumer.override": "consumer_byte_rate",
    "quota.producer.bytes.per.second.overrides": "producer_byte_rate",
    "quota.consumer.bytes.per.second.overrides": "consumer_byte_rate",
}
_FIRST_WITHOUT_STATIC_DEFAULTS = 3
_UNLIMITED = 2**63 - 1
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_BYTES = re.compile(r"([1-9]\d*)([KMG]?)", re.IGNORECASE)
_OVERRIDE = re.compile(r"(.+)[:=]\s*(\S+)")


@dataclass(frozen=True, slots=True)
class StaticConfig:
    """What ``server.properties`` says about quotas.

    A ``callback_class`` other than None decides quotas by rules of its own, so such a broker
    cannot be audited. ``uses_zookeeper`` is None where neither way is configured. ``ignored`` are
    the static quotas that a broker of this version does not read. Counts and windows that are not
    set have Kafka's defaults.
    """

    samples: int = SAMPLES
    window_size_ms: int = WINDOW_MS
    controller_samples: int = SAMPLES
    controller_window_size_ms: int = WINDOW_MS
    callback_class: str | None = None
    uses_zookeeper: bool | None = None
    quota_events: tuple[QuotaEvent, ...] = ()
    ignored: tuple[str, ...] = ()


def read_static_config(
    text: str,
    source_file: str,
    broker_id: int,
    at_ms: int = SINCE_UNKNOWN_MS,
    version: str | None = None,
) -> StaticConfig:
    """Return the quota settings of a broker's properties; static quotas hold from ``at_ms`` on.

    ``version`` is the broker's, such as ``2.8.1``: a release ignores static quotas that it does
    not know. Where it is None, every static quota counts. ``4M`` is read as 4 · 2^20 bytes.

    Raises BadInputError naming the line that cannot be read.
    """
    properties = read_properties(text, source_file)
    in_force, ignored = _split_by_version(properties, version)
    quotas = [*_default_quotas(in_force, source_file), *_override_quotas(in_force, source_file)]
    return StaticConfig(
        samples=_count(properties, "quota.window.num", 11, source_file),
        window_size_ms=_count(properties, "quota.window.size.seconds", 1, source_file) * 1000,
        controller_samples=_count(properties, "controller.quota.window.num", 11, source_file),
        controller_window_size_ms=1000
        * _count(properties, "controller.quota.window.size.seconds", 1, source_file),
        callback_class=_text(properties, "client.quota.callback.class"),
        uses_zookeeper=_uses_zookeeper(properties),
        quota_events=tuple(
            QuotaEvent(
                quota_type=quota_type,
                quota_user=None,
                quota_client_id=client_id,
                bound=float(bound),
                broker_id=broker_id,
                earliest_ms=at_ms,
                latest_ms=at_ms,
                source="static",
                source_file=source_file,
                source_line=line,
            )
            for quota_type, client_id, bound, line in quotas
        ),
        ignored=ignored,
    )


def _uses_zookeeper(properties: Mapping[str, Property]) -> bool | None:
    # Both are set while a cluster migrates: a node with process.roles then reads from KRaft.
    if "process.roles" in properties:
        return False
    return True if "zookeeper.connect" in properties else None


_StaticQuota = tuple[str, str, int, int]
"""(quota type, client-id, bound, line)"""


def _split_by_version(
    properties: Mapping[str, Property], version: str | None
) -> tuple[dict[str, Property], tuple[str, ...]]:
    """Return the static quotas that a broker of ``version`` reads, and the names of the others."""
    found = re.match(r"\d+", version or "")
    unread: set[str] = set()
    if found is not None:
        unread |= set(_OVERRIDES)
        if int(found[0]) >= _FIRST_WITHOUT_STATIC_DEFAULTS:
            unread |= set(_DEFAULTS)
    static = {name: properties[name] for name in (*_DEFAULTS, *_OVERRIDES) if name in properties}
    in_force = {name: each for name, each in static.items() if name not in unread}
    return in_force, tuple(name for name in static if name in unread)


def _default_quotas(properties: Mapping[str, Property], source_file: str) -> Iterator[_StaticQuota]:
    for name, quota_type in _DEFAULTS.items():
        if name in properties:
            found = properties[name]
            bound = _bytes(found.value.strip(), name, f"{source_file}, line {found.line}")
            # Kafka's own default of the property: no quota (ClientQuotaManager.start).
            if bound < _UNLIMITED:
                yield quota_type, DEFAULT, bound, found.line


def _override_quotas(
    properties: Mapping[str, Property], source_file: str
) -> Iterator[_StaticQuota]:
    for name, quota_type in _OVERRIDES.items():
        if name not in properties:
            continue
        found = properties[name]
        where = f"{source_file}, line {found.line}"
        # The KIP separates by semicolons; books and mails, by commas.
        for part in re.split(r"[,;]", found.value.strip().strip('"')):
            override = _OVERRIDE.fullmatch(part.strip())
            if override is not None:
                bound = _bytes(override[2], name, where)
                yield quota_type, override[1].strip(), bound, found.line
            elif part.strip():
                raise BadInputError(
                    f"{where}: found {part.strip()!r} in {name}, expected <client-id>:<bytes per "
                    "second>, such as clientA:4194304. Correct the property."
                )


def _bytes(text: str, name: str, where: str) -> int:
    found = _BYTES.fullmatch(text)
    if found is None:
        raise BadInputError(
            f"{where}: found {name} with {text!r}, expected bytes per second as a whole number of "
            "at least 1, such as 4194304. Correct the property."
        )
    return int(found[1]) * _UNITS[found[2].upper()]


def _count(properties: Mapping[str, Property], name: str, default: int, source_file: str) -> int:
    text = _text(properties, name)
    if text is None:
        return default
    if not re.fullmatch(r"\+?0*[1-9]\d*", text, re.ASCII):
        raise BadInputError(
            f"{source_file}, line {properties[name].line}: found {name}={text!r}, expected a whole "
            f"number of at least 1 (Kafka's default is {default}). Correct the property."
        )
    return int(text)


def _text(properties: Mapping[str, Property], name: str) -> str | None:
    """Return a property's value without spaces around it, None where it is empty or missing."""
    found = properties.get(name)
    return found.value.strip() or None if found else None
