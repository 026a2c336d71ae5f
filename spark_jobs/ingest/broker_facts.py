"""What is known of each broker: its version, rate profile and window settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from spark_jobs.errors import BadInputError
from spark_jobs.ingest.archive import Archive
from spark_jobs.ingest.archived_file import read_small_text
from spark_jobs.ingest.ingest_options import ANY_BROKER, IngestOptions
from spark_jobs.ingest.lines.served_apis import ServedBeyond, newer_than_known
from spark_jobs.ingest.quota_sources.static_config import StaticConfig, read_static_config
from spark_jobs.quota.rate_profile import profile_of_version, throttle_max_of_version

T = TypeVar("T")
OPTION, ARCHIVE, UNKNOWN = "option", "archive", "unknown"
_RELEASE = re.compile(r"(\d+)\.(\d+)")
_FIRST_THAT_CAN_DO_WITHOUT_ZOOKEEPER = (2, 8)


def broker_facts(
    archive: Archive,
    options: IngestOptions,
    broker_ids: Sequence[int],
    served_beyond: Mapping[int, ServedBeyond],
) -> list[dict[str, Any]]:
    """Return a row of ``tables.BROKERS`` for each broker; its profile is None until detected.

    ``served_beyond`` has what the log shows brokers to serve that no known release does.
    Raises BadInputError where a version is unreadable, or a broker decides its quotas by a plugin.
    """
    configs = static_configs(archive, options, at_ms=0)
    return [
        _row(broker_id, archive, options, configs.get(broker_id))
        | {"newer_than_known": newer_than_known(version, served_beyond.get(broker_id, {}))}
        for broker_id in broker_ids
        for version, _ in [_version(broker_id, archive.kafka_version, options.versions)]
    ]


def static_configs(archive: Archive, options: IngestOptions, at_ms: int) -> dict[int, StaticConfig]:
    """Return the quota settings of each broker's server.properties, where it is to be used.

    ``at_ms`` is since when its static quotas are known to hold: the begin of the log.
    """
    if not options.use_server_properties:
        return {}
    configs = {}
    for broker_id, path in archive.properties.items():
        source_file = path.relative_to(archive.root).as_posix()
        version, _ = _version(broker_id, archive.kafka_version, options.versions)
        text = read_small_text(path, "replace")
        config = read_static_config(text, source_file, broker_id, at_ms, version)
        if config.callback_class is not None:
            raise BadInputError(
                f"{source_file}: client.quota.callback.class={config.callback_class} lets a plugin "
                "choose every quota, so the log cannot tell them. Only Kafka's own quotas can be "
                "audited; leave this broker out, or pass --ignore-server-properties to audit "
                "as if the plugin were not there."
            )
        configs[broker_id] = config
    return configs


def _row(
    broker_id: int, archive: Archive, options: IngestOptions, config: StaticConfig | None
) -> dict[str, Any]:
    version, source = _version(broker_id, archive.kafka_version, options.versions)
    config = config or StaticConfig()
    return {
        "broker_id": broker_id,
        "version": version,
        "version_source": source,
        "rate_profile": None if version is None else str(_of(version, profile_of_version)),
        "throttle_max_ms": None if version is None else _of(version, throttle_max_of_version),
        "uses_zookeeper": _uses_zookeeper(version, config),
        "samples": config.samples,
        "window_ms": config.window_size_ms,
        "controller_samples": config.controller_samples,
        "controller_window_ms": config.controller_window_size_ms,
    }


def _version(
    broker_id: int, archived: str | None, given: Mapping[int | None, str]
) -> tuple[str | None, str]:
    version = given.get(broker_id) or given.get(ANY_BROKER)
    if version:
        return version, OPTION
    return (archived, ARCHIVE) if archived else (None, UNKNOWN)


def _of(version: str, rule: Callable[[str], T]) -> T:
    try:
        return rule(version)
    except ValueError as error:
        raise BadInputError(
            f"kafka-version.txt: {error}. Correct it or pass --broker-version."
        ) from error


def _uses_zookeeper(version: str | None, config: StaticConfig) -> bool:
    if config.uses_zookeeper is not None:
        return config.uses_zookeeper
    release = _RELEASE.match(version or "")
    known = (int(release[1]), int(release[2])) if release else None
    return known is not None and known < _FIRST_THAT_CAN_DO_WITHOUT_ZOOKEEPER
