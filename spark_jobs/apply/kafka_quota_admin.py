"""Client quotas of a real cluster: ``DescribeClientQuotas`` and ``AlterClientQuotas``.

The calls are those of ``org.apache.kafka.clients.admin.Admin``, made in a JVM of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError

from spark_jobs.apply.changes.quota_admin import (
    ACCEPTED,
    AnswerKind,
    ClusterFacts,
    EntityAnswer,
    QuotaAdminError,
)
from spark_jobs.apply.changes.quota_alteration import Entity, QuotaAlteration, QuotaKey
from spark_jobs.apply.client_properties import (
    ClientProperties,
    check_keys,
    check_no_providers,
    read_client_properties,
    secrets_of,
    without_secrets,
)
from spark_jobs.apply.kafka_errors import FailureSentences
from spark_jobs.apply.kafka_jvm import clients_jar, kafka_jvm
from spark_jobs.errors import BadInputError
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.settings import KafkaAdminSettings

_CLIENT_CONFIGS = (
    "org.apache.kafka.clients.admin.AdminClientConfig",
    "org.apache.kafka.clients.producer.ProducerConfig",
    "org.apache.kafka.clients.consumer.ConsumerConfig",
)
_API_TIMEOUT, _REQUEST_TIMEOUT = "default.api.timeout.ms", "request.timeout.ms"
# Kafka ends every call by itself; this is for the case that it does not.
_GRACE_MS = 5_000
_CLOSE_MS = 3_000
# ``ClientQuotaEntity.USER`` and ``CLIENT_ID``.
_TYPES = ("user", "client-id")


@contextmanager
def kafka_quota_admin(
    servers: str, command_config: Path | None, settings: KafkaAdminSettings
) -> Iterator[KafkaQuotaAdmin]:
    """Yield the quotas of the cluster at ``servers`` (``host:port,…``).

    ``command_config`` is a client properties file. Raises BadInputError where the file, the jar or
    Java cannot be used; nothing is connected to before the first call.
    """
    client = read_client_properties(command_config)
    with kafka_jvm(clients_jar(settings), settings) as running:
        jvm = running.gateway.jvm
        _check(client, jvm, settings)
        hide = partial(without_secrets, secrets=_secrets(client, jvm))
        named = str(client.path or "no --command-config")
        sentences = FailureSentences(servers, named, hide, running.ending)
        timeouts = _timeouts(client, settings)
        admin = _open(jvm, _properties(jvm, servers, client, timeouts), sentences)
        try:
            yield KafkaQuotaAdmin(jvm, admin, sentences, timeouts[_API_TIMEOUT] + _GRACE_MS)
        finally:
            with suppress(Py4JError):
                admin.close(jvm.java.time.Duration.ofMillis(_CLOSE_MS))


class KafkaQuotaAdmin:
    """A :class:`QuotaAdmin`; made by :func:`kafka_quota_admin`."""

    def __init__(self, jvm: Any, admin: Any, sentences: FailureSentences, wait_ms: int) -> None:
        self._jvm = jvm
        self._admin = admin
        self._sentences = sentences
        self._wait_ms = wait_ms
        self._quotas = JavaQuotas(jvm)

    def facts(self) -> ClusterFacts:
        """Return the cluster's id, and which brokers are registered but down."""
        with self._failing():
            described = self._admin.describeCluster()
            cluster_id = self._get(described.clusterId())
        return ClusterFacts(cluster_id and str(cluster_id), self._down_broker_ids())

    def values(self, entities: Iterable[Entity]) -> dict[QuotaKey, float]:
        """Return the own values of the entities, of every quota type."""
        with self._failing():
            asked = [
                (e, self._admin.describeClientQuotas(self._quotas.filter_of(e)).entities())
                for e in dict.fromkeys(entities)
            ]
            return {
                key: value
                for entity, future in asked
                for key, value in self._quotas.values(entity, self._get(future))
            }

    def alter(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool
    ) -> dict[Entity, EntityAnswer]:
        """Return each entity's answer to one ``AlterClientQuotas`` request."""
        by_entity: dict[Entity, list[QuotaAlteration]] = {}
        for one in alterations:
            by_entity.setdefault(one.entity, []).append(one)
        try:
            futures = self._send(by_entity, validate_only)
        except Py4JError as error:
            lost = self._answer_of(error)
            return dict.fromkeys(by_entity, lost)
        return {entity: self._answer(future) for entity, future in futures.items()}

    def _send(
        self, by_entity: Mapping[Entity, list[QuotaAlteration]], validate_only: bool
    ) -> dict[Entity, Any]:
        request = self._jvm.java.util.ArrayList()
        for entity, alterations in by_entity.items():
            request.add(self._quotas.alteration(entity, alterations))
        options = self._jvm.org.apache.kafka.clients.admin.AlterClientQuotasOptions()
        options.validateOnly(validate_only)
        futures = self._admin.alterClientQuotas(request, options).values()
        return {entity: futures.get(self._quotas.entity(entity)) for entity in by_entity}

    def _answer(self, future: Any) -> EntityAnswer:
        try:
            self._get(future)
        except Py4JError as error:
            return self._answer_of(error)
        return ACCEPTED

    def _answer_of(self, error: Py4JError) -> EntityAnswer:
        failure = self._sentences.of(error, is_change=True)
        kind = AnswerKind.REFUSED if failure.is_answer else AnswerKind.UNKNOWN
        return EntityAnswer(kind, failure.message)

    def _down_broker_ids(self) -> tuple[int, ...]:
        """Return the fenced brokers; none where the brokers (before 4.0) do not tell."""
        options = self._jvm.org.apache.kafka.clients.admin.DescribeClusterOptions()
        options.includeFencedBrokers(True)
        with suppress(Py4JError):
            nodes = self._get(self._admin.describeCluster(options).nodes())
            listed = self._jvm.java.util.ArrayList(nodes)
            return tuple(sorted(int(node.id()) for node in listed if node.isFenced()))
        return ()

    def _get(self, future: Any) -> Any:
        return future.get(self._wait_ms, self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except Py4JError as error:
            message = self._sentences.of(error).message
            # Without its cause: that one's text may hold what the message hides.
            raise QuotaAdminError(
                f"The quotas of {self._sentences.servers} cannot be read: {message}."
            ) from None


class JavaQuotas:
    """Makes and reads the objects of ``org.apache.kafka.common.quota`` in a JVM."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._quota = jvm.org.apache.kafka.common.quota

    def entity(self, entity: Entity) -> Any:
        """Return a ``ClientQuotaEntity``; a default is a null name."""
        entries = self._jvm.java.util.HashMap()
        for entity_type, name in _parts(entity):
            entries.put(entity_type, None if name == DEFAULT else name)
        return self._quota.ClientQuotaEntity(entries)

    def filter_of(self, entity: Entity) -> Any:
        """Return the ``ClientQuotaFilter`` of this very entity."""
        component = self._quota.ClientQuotaFilterComponent
        components = self._jvm.java.util.ArrayList()
        for entity_type, name in _parts(entity):
            is_default = name == DEFAULT
            components.add(
                component.ofDefaultEntity(entity_type)
                if is_default
                else component.ofEntity(entity_type, name)
            )
        return self._quota.ClientQuotaFilter.containsOnly(components)

    def alteration(self, entity: Entity, alterations: Iterable[QuotaAlteration]) -> Any:
        """Return the ``ClientQuotaAlteration`` of all changes of one entity; null removes."""
        operations = self._jvm.java.util.ArrayList()
        for one in alterations:
            value = None if one.after is None else float(one.after)
            operations.add(self._quota.ClientQuotaAlteration.Op(one.quota_type, value))
        return self._quota.ClientQuotaAlteration(self.entity(entity), operations)

    def values(self, entity: Entity, described: Any) -> Iterator[tuple[QuotaKey, float]]:
        """Yield the values that a description (entity → type → value) has of ``entity``."""
        of_entity = described.get(self.entity(entity))
        for quota_type, value in (of_entity or {}).items():
            yield (str(quota_type), *entity), float(value)


def _parts(entity: Entity) -> Iterator[tuple[str, str]]:
    for entity_type, name in zip(_TYPES, entity, strict=True):
        if name is not None:
            yield entity_type, name


def _check(client: ClientProperties, jvm: Any, settings: KafkaAdminSettings) -> None:
    if client.path is None:
        return
    known = {str(key) for config in _CLIENT_CONFIGS for key in _class(jvm, config).configNames()}
    check_keys(client, known, settings.extra_keys)
    if not settings.config_providers:
        check_no_providers(client)


def _secrets(client: ClientProperties, jvm: Any) -> tuple[str, ...]:
    """Return the file's secrets: what Kafka itself calls a password, and what it does not know."""
    keys = _class(jvm, _CLIENT_CONFIGS[0]).configDef().configKeys()
    password = jvm.org.apache.kafka.common.config.ConfigDef.Type.PASSWORD

    def is_secret(key: str) -> bool:
        known = keys.get(key)
        return known is None or bool(known.type().equals(password))

    return secrets_of(client, is_secret)


def _timeouts(client: ClientProperties, settings: KafkaAdminSettings) -> dict[str, int]:
    api = client.number(_API_TIMEOUT) or settings.default_api_timeout_ms
    # Kafka refuses a request timeout above the other: ours gives way to the file's.
    request = client.number(_REQUEST_TIMEOUT) or min(settings.request_timeout_ms, api)
    return {_API_TIMEOUT: max(api, request), _REQUEST_TIMEOUT: request}


def _properties(
    jvm: Any, servers: str, client: ClientProperties, timeouts: Mapping[str, int]
) -> Any:
    """Return the client's ``Properties``; the JVM reads the file, so no secret is sent to it."""
    properties = jvm.java.util.Properties()
    for key, value in timeouts.items():
        properties.setProperty(key, str(value))
    if client.path is not None:
        file = jvm.java.io.FileInputStream(str(client.path))
        properties.load(file)
        file.close()
    properties.setProperty("bootstrap.servers", servers)
    return properties


def _open(jvm: Any, properties: Any, sentences: FailureSentences) -> Any:
    try:
        return jvm.org.apache.kafka.clients.admin.Admin.create(properties)
    except Py4JError as error:
        raise BadInputError(
            f"Kafka's client cannot be set up for {sentences.servers} with "
            f"{sentences.command_config}: {sentences.of(error).message}."
        ) from None


def _class(jvm: Any, name: str) -> Any:
    found = jvm
    for part in name.split("."):
        found = getattr(found, part)
    return found
