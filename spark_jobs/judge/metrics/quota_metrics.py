"""Which sensor of which broker a series of the JMX exporter is about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import msgspec
import numpy as np
import numpy.typing as npt

from spark_jobs.errors import BadInputError
from spark_jobs.quota.sensor_key import SensorKey

_EXPECTED = (
    "the JSON that Prometheus answers to /api/v1/query of a range, as "
    "kafka_server_quota_byte_rate[1d], or to /api/v1/query_range"
)


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """Samples of one metric with one set of labels, in their order; times in epoch ms."""

    labels: Mapping[str, str]
    at_ms: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]

    @property
    def name(self) -> str:
        """Return the metric's name."""
        return self.labels.get("__name__", "")

    @property
    def is_resampled(self) -> bool:
        """Return True if the times are a query's, on whole seconds, and no scrape's.

        A target is scraped at its own offset within the second; a range query has its own times,
        and gives what was scraped last before each.
        """
        return bool((self.at_ms % 1000 == 0).all())


class _Result(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct):
    resultType: str
    result: list[_Result] = []


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""


def read_export(text: str | bytes, where: str) -> tuple[MetricSeries, ...]:
    """Return the series of an export; ``where`` is what errors call it.

    Raises BadInputError where it is no such JSON, an error that Prometheus answered, or holds one
    moment only.

    Source: Prometheus' documentation, HTTP API, expression query result formats.
    """
    try:
        answer = msgspec.json.decode(text, type=_Answer)
        if answer.status == "success" and answer.data and answer.data.resultType == "matrix":
            return tuple(_series(result, where) for result in answer.data.result)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInputError(f"{where}: {error}. Expected {_EXPECTED}.") from error
    if answer.error:
        raise BadInputError(f"{where} is an error of Prometheus, {answer.error!r}. Ask it again.")
    kind = answer.data.resultType if answer.data else "nothing"
    raise BadInputError(f"{where} holds a {kind!r}, not a 'matrix'. Expected {_EXPECTED}.")


def _series(result: _Result, where: str) -> MetricSeries:
    try:
        values = np.array([float(value) for _, value in result.values], np.float64)
    except ValueError as error:
        raise BadInputError(f"{where}: {error}. Expected numbers, NaN, +Inf or -Inf.") from error
    # Prometheus keeps whole milliseconds, and prints seconds.
    seconds = np.array([at for at, _ in result.values], np.float64)
    return MetricSeries(result.metric, np.rint(seconds * 1000).astype(np.int64), values)


BYTE_RATE, THROTTLE_TIME = "byte-rate", "throttle-time"
"""Attributes of the MBeans ``kafka.server:type=Produce|Fetch,user=…,client-id=…``."""

_QUOTA_TYPES = {"produce": "producer_byte_rate", "fetch": "consumer_byte_rate"}
_ATTRIBUTES = {"byte_rate": BYTE_RATE, "throttle_time": THROTTLE_TIME}
# kafka_server_quota_byte_rate{resource="Produce"} by the exporter's examples for Kafka,
# kafka_server_produce_byte_rate by its default naming.
_NAME = re.compile(r"kafka_server_(quota|produce|fetch)_(byte_rate|throttle_time)", re.IGNORECASE)
_RESOURCE_LABELS = ("resource", "type")
_USER_LABELS = ("user",)
_CLIENT_LABELS = ("clientId", "client_id", "clientid", "client-id")
_BROKER_LABELS = ("broker", "broker_id", "brokerid", "kafka_id", "node_id")
_POD_LABELS = ("pod", "kubernetes_pod_name", "statefulset_kubernetes_io_pod_name", "pod_name")
_POD = re.compile(r".*-(\d{1,9})")
_NAMES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class QuotaSeries:
    """A series that says what a broker measured on one sensor; ``metric`` is the attribute."""

    broker_id: int
    quota_type: str
    user: str
    client_id: str
    metric: str
    samples: MetricSeries

    def is_of(self, key: SensorKey) -> bool:
        """Return True if the series is the sensor's; metrics have the user's name encoded."""
        return (
            (self.broker_id, self.quota_type) == (key.broker_id, key.quota_type)
            and self.user in (key.quota_user, sanitized(key.quota_user))
            and self.client_id in (key.quota_client_id, sanitized(key.quota_client_id))
        )


def sanitized(name: str) -> str:
    """Return a name as brokers' metrics have it. Kafka: ``Sanitizer.sanitize``.

    >>> sanitized("CN=a b,O=*")
    'CN%3Da%20b%2CO%3D%2A'
    """
    return quote(name, safe="._-").replace("~", "%7E")


def quota_series(
    series: Sequence[MetricSeries], where: str, instances: Mapping[str, int], brokers: Iterable[int]
) -> tuple[list[QuotaSeries], int]:
    """Return the series of byte rates and throttle times, and how many are other quota metrics.

    ``instances`` is broker id by the label ``instance``; ``brokers`` are those of the audit: where
    there is one, series that name none are its. Raises BadInputError where no name is known, or
    where a series does not tell its broker.
    """
    known = sorted(set(brokers))
    found, others = [], Counter[str]()
    for one in series:
        named = _named(one)
        if named is None:
            others[one.name or "(no __name__)"] += 1
        else:
            quota_type, metric = named
            user = _label(one, _USER_LABELS) or _resource(one)[1]
            client_id = _label(one, _CLIENT_LABELS)
            broker_id = _broker_of(one, where, instances, known)
            found.append(
                QuotaSeries(
                    broker_id, quota_type, _unquoted(user), _unquoted(client_id), metric, one
                )
            )
    if others and not found:
        raise BadInputError(
            f"{where} has no metric of a produce or fetch quota; found "
            f"{', '.join(name for name, _ in others.most_common(_NAMES_SHOWN))}. Expected "
            "kafka_server_quota_byte_rate and kafka_server_quota_throttle_time with the label "
            "resource (Produce, Fetch), or kafka_server_produce_byte_rate, "
            "kafka_server_fetch_throttle_time and the like: docs/crosscheck.md has the rules for "
            "the JMX exporter."
        )
    return found, others.total()


def _named(series: MetricSeries) -> tuple[str, str] | None:
    """Return quota type and attribute; None where it is no rate or throttle time of bytes."""
    matched = _NAME.fullmatch(series.name)
    if matched is None:
        return None
    kind = matched[1].lower()
    resource = _resource(series)[0].lower() if kind == "quota" else kind
    quota_type, metric = _QUOTA_TYPES.get(resource), _ATTRIBUTES[matched[2].lower()]
    return None if quota_type is None else (quota_type, metric)


def _resource(series: MetricSeries) -> tuple[str, str]:
    """Return the quota's kind, and the user that the exporter's rules for Kafka 2 leave in it."""
    resource, _, user = _label(series, _RESOURCE_LABELS).partition(", user=")
    return resource, user


def _broker_of(
    series: MetricSeries, where: str, instances: Mapping[str, int], brokers: Sequence[int]
) -> int:
    instance = series.labels.get("instance", "")
    if instance in instances:
        return instances[instance]
    label = _label(series, _BROKER_LABELS)
    if label.isdigit():
        return int(label)
    for name in _POD_LABELS:
        if matched := _POD.fullmatch(series.labels.get(name, "")):
            return int(matched[1])
    if len(brokers) == 1:
        return brokers[0]
    labels = ", ".join(f"{name}={value!r}" for name, value in sorted(series.labels.items()))
    raise BadInputError(
        f"{where}: which broker is {{{labels}}}? Expected a number in one of the labels "
        f"{', '.join(_BROKER_LABELS)}, or a pod's name that ends with it. Say it by --broker "
        f"1={instance or 'host:7071'}, or for the daily audit by "
        f"QUOTA_AUDIT_CROSSCHECK_INSTANCES='{{\"{instance or 'host:7071'}\": 1}}'."
    )


def _label(series: MetricSeries, names: Iterable[str]) -> str:
    return next((series.labels[name] for name in names if name in series.labels), "")


def _unquoted(value: str) -> str:
    """Return a value as it was before an ObjectName quoted it. Java: ``ObjectName.unquote``."""
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], value[1:-1])
    return value
