"""Options of an ingest, checked once."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.errors import BadInputError
from spark_jobs.quota.rate_profile import profile_of_version

_VERSION = re.compile(r"^\d+\.\d+(\.\d+)?([.-].*)?$")
ANY_BROKER = None


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """What the archive itself does not say about its logs."""

    timezone: str
    versions: Mapping[int | None, str]  # None: every broker not named
    listener_brokers: Mapping[str, int]
    prefix: str | None
    snapshots: tuple[Path, ...]
    use_server_logs: bool
    use_server_properties: bool
    until_ms: int | None = None  # lines from then on are of the future; None: as the logs say

    @classmethod
    def of(
        cls,
        *,
        timezone: str = "UTC",
        broker_version: str | None = None,
        listeners: Sequence[str] = (),
        prefix: str | None = None,
        snapshots: tuple[Path, ...] = (),
        use_server_logs: bool = True,
        use_server_properties: bool = True,
    ) -> IngestOptions:
        """Return checked options; raises BadInputError naming the option that is wrong."""
        _check_timezone(timezone)
        _check_prefix(prefix)
        return cls(
            timezone=timezone,
            versions=parse_versions(broker_version) if broker_version else {},
            listener_brokers=listener_brokers(list(listeners)),
            prefix=prefix,
            snapshots=snapshots,
            use_server_logs=use_server_logs,
            use_server_properties=use_server_properties,
        )


def parse_versions(text: str) -> dict[int | None, str]:
    """Return versions per broker from ``4.1.0`` or ``1=3.7.2,2=4.1.0`` (None: every other broker).

    >>> parse_versions("1=3.7.2,2=4.1.0")
    {1: '3.7.2', 2: '4.1.0'}
    >>> parse_versions("4.1.0")
    {None: '4.1.0'}
    """
    versions: dict[int | None, str] = {}
    for part in text.split(","):
        broker, separator, version = part.strip().rpartition("=")
        if not _VERSION.match(version) or (separator and not broker.isdigit()):
            raise BadInputError(
                f"--broker-version {text!r}: {part!r} is neither a version like 4.1.0 nor "
                "<broker id>=<version> like 2=3.7.2."
            )
        try:
            profile_of_version(version)
        except ValueError as error:
            raise BadInputError(f"--broker-version {text!r}: {error}.") from error
        versions[int(broker) if separator else ANY_BROKER] = version
    return versions


def listener_brokers(options: list[str]) -> dict[str, int]:
    """Return listener address → broker id from options like ``10.0.0.5:9092=3``.

    Raises BadInputError naming the option that does not read so.
    """
    brokers: dict[str, int] = {}
    for option in options:
        address, separator, broker = option.rpartition("=")
        if not separator or ":" not in address or not broker.isdigit():
            raise BadInputError(
                f"--listener {option!r} is not of the form host:port=<broker id>, "
                "for example 10.0.0.5:9092=3."
            )
        brokers[address] = int(broker)
    return brokers


def _check_timezone(name: str) -> None:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadInputError(
            f"--timezone {name!r} is not a known time zone; expected an IANA name like UTC or "
            "Europe/Berlin."
        ) from error


def _check_prefix(prefix: str | None) -> None:
    try:
        re.compile(prefix or "")
    except re.error as error:
        raise BadInputError(f"--prefix {prefix!r} is not a regular expression: {error}.") from error
