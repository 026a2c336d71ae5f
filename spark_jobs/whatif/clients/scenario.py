"""A scenario file: the policies to replay, each with its configuration.

TOML. One ``[[policy]]`` for each, with ``name`` (see ``quota-audit whatif --list-policies``),
perhaps a ``label`` (else the name) that tells several of one name apart, ``[policy.config]`` in the
document's own keys, ``[[policy.topics]]`` for what no log tells: ``topic``, ``broker-id``,
``partitions`` and ``leaders`` (how many of them that broker leads), and ``[policy.clients]`` for
how clients are set that answer the policy (:class:`ClientSettings`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated

import msgspec

from spark_jobs.errors import BadInputError
from spark_jobs.quota.java_math import INT_MAX
from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.change import TopicAdded
from spark_jobs.whatif.policies.policy import Policy

NotNegative = Annotated[int, msgspec.Meta(ge=0, le=INT_MAX)]

_KAFKA_NAMES = {
    "retry_backoff_ms": "retry.backoff.ms",
    "delivery_timeout_ms": "delivery.timeout.ms",
    "linger_ms": "linger.ms",
    "fills_batches": "fills.batches",
    "keeps_wanting": "keeps.wanting",
}


class ClientSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename=_KAFKA_NAMES):
    """Settings of one client, in a file under Kafka's names.

    Defaults: Apache Kafka 4.0, ``ProducerConfig``.
    """

    retries: NotNegative = INT_MAX
    retry_backoff_ms: NotNegative = 100
    # From the first sending; what was not admitted by then is lost.
    delivery_timeout_ms: NotNegative = 120_000
    # Bytes that came less than this before a request is sent wait for the next one.
    linger_ms: NotNegative = 5
    # A producer's buffer fills while it waits; without, every request is sent as it was logged.
    fills_batches: bool = True
    # A client that was held back until its log's end wanted more than it sent.
    keeps_wanting: bool = False


DEFAULT_SETTINGS = ClientSettings()
"""A producer that was configured with nothing."""


def read_client_settings(where: str, found: object) -> ClientSettings:
    """Return the client settings of a table of a scenario file; the rest has its default.

    Raises BadInputError naming the key and what it takes.

    >>> read_client_settings("s.toml", {"retry.backoff.ms": 50}).retry_backoff_ms
    50
    """
    if not isinstance(found, Mapping):
        raise BadInputError(f"{where}: found {found!r} for clients; it is a table of settings.")
    try:
        return msgspec.convert(dict(found), ClientSettings)
    except msgspec.ValidationError as error:
        known = ", ".join(ClientSettings.__struct_encode_fields__)
        raise BadInputError(f"{where}: clients: {error}. The keys are {known}.") from error


class Mode(StrEnum):
    """What a row of ``tables.WHATIF`` says of its requests' arrivals."""

    AS_LOGGED = "as_logged"
    """Every request arrives when the log says, whatever it would have been answered."""
    CLOSED_LOOP = "closed_loop"
    """Each client waits and retries as its answers tell it."""


_POLICY_KEYS = ("name", "label", "config", "topics", "clients")
_TOPIC_KEYS: Mapping[str, type] = {
    "topic": str,
    "broker-id": int,
    "partitions": int,
    "leaders": int,
}
_EXAMPLE = '[[policy]], name = "kip13", and below it [policy.config]'


@dataclass(frozen=True, slots=True)
class ScenarioPolicy:
    """One policy to replay."""

    name: str
    label: str
    config: Mapping[str, object] = field(default_factory=dict)
    topics: tuple[TopicAdded, ...] = ()
    clients: ClientSettings = DEFAULT_SETTINGS

    def begin(self) -> Policy:
        """Return the policy in its first state. Raises PolicyConfigError."""
        policy = policy_class(self.name).configured(self.config)
        for topic in self.topics:
            policy.observe(topic)
        return policy

    def on_broker(self, broker_config: Mapping[str, object]) -> ScenarioPolicy:
        """Return the policy with what a broker's own configuration says where this one does not."""
        taken = policy_class(self.name).broker_keys
        return replace(
            self, config={k: v for k, v in broker_config.items() if k in taken} | dict(self.config)
        )


def read_scenario(text: str, where: str) -> tuple[ScenarioPolicy, ...]:
    """Return the policies of a scenario file in its order, each one's configuration checked.

    ``where`` names the file in messages. Raises BadInputError on what is no scenario, and
    PolicyConfigError on a configuration that its policy refuses.
    """
    try:
        found = tomllib.loads(text)
    except ValueError as error:  # also a number of thousands of digits
        raise BadInputError(f"{where}: this is no TOML: {error}. Correct that line.") from error
    except RecursionError as error:
        raise BadInputError(f"{where}: tables or lists in it are nested too deep.") from error
    _refuse_unknown(where, found, ("policy",))
    entries = found.get("policy")
    if not isinstance(entries, list) or not entries:
        raise BadInputError(
            f"{where}: found {_shown(entries)} for policy; a scenario has one or more "
            f"policies: {_EXAMPLE}."
        )
    policies = tuple(
        _policy(f"{where}: policy {i}", entry) for i, entry in enumerate(entries, start=1)
    )
    _refuse_same_label(where, policies)
    return policies


def chosen_policies(
    policies: Sequence[ScenarioPolicy], names: Collection[str], where: str
) -> tuple[ScenarioPolicy, ...]:
    """Return those policies whose label or name is one of ``names``; all where there are none.

    Raises BadInputError where a name is none of them.
    """
    known = {known for one in policies for known in (one.name, one.label)}
    for name in names:
        if name not in known:
            there = ", ".join(one.label for one in policies)
            raise BadInputError(f"{where}: there is no policy {name!r} in it; there are: {there}.")
    return tuple(p for p in policies if not names or p.name in names or p.label in names)


def _policy(where: str, entry: object) -> ScenarioPolicy:
    if not isinstance(entry, Mapping):
        raise BadInputError(f"{where}: found {_shown(entry)}; write a policy as {_EXAMPLE}.")
    _refuse_unknown(where, entry, _POLICY_KEYS)
    name = _text(where, entry, "name")
    label = _text(where, entry, "label") if "label" in entry else name
    config = entry.get("config", {})
    if not isinstance(config, Mapping):
        raise BadInputError(
            f"{where}: found {_shown(config)} for config; it is a table of the policy's keys, "
            "[policy.config]."
        )
    _refuse_unquoted(where, config)
    added = _topics(where, entry.get("topics", []))
    clients = read_client_settings(where, entry.get("clients", {}))
    # The policy's own class raises on a name or a configuration that there is not.
    policy = ScenarioPolicy(name, label, config, added, clients)
    policy.begin()
    return policy


def _topics(where: str, found: object) -> tuple[TopicAdded, ...]:
    if not isinstance(found, list):
        raise BadInputError(
            f"{where}: found {_shown(found)} for topics; they are tables, [[policy.topics]]."
        )
    return tuple(_topic(f"{where}, topic {i}", entry) for i, entry in enumerate(found, start=1))


def _topic(where: str, entry: object) -> TopicAdded:
    if not isinstance(entry, Mapping):
        raise BadInputError(f"{where}: found {_shown(entry)}; it is a table, [[policy.topics]].")
    _refuse_unknown(where, entry, tuple(_TOPIC_KEYS))
    for key, kind in _TOPIC_KEYS.items():
        found = entry.get(key)
        is_needed = key in ("topic", "broker-id")
        if found is None and not is_needed:
            continue
        if not isinstance(found, kind) or isinstance(found, bool):
            wanted = "a text" if kind is str else "a whole number"
            raise BadInputError(f"{where}: found {_shown(found)} for {key}; it is {wanted}.")
    return TopicAdded(
        0, entry["broker-id"], entry["topic"], entry.get("partitions"), entry.get("leaders")
    )


def _refuse_unquoted(where: str, config: Mapping[str, object]) -> None:
    # TOML takes an unquoted a.b = 1 for a table a; the documents have tables below dotted keys.
    for key, found in config.items():
        if isinstance(found, Mapping) and "." not in key:
            inner = next(iter(found), "…")
            raise BadInputError(
                f"{where}: found a table for {key} in its config. Keys with dots are written in "
                f'quotes: "{key}.{inner}" = …'
            )


def _refuse_unknown(where: str, entry: Mapping[str, object], known: Collection[str]) -> None:
    for key in entry:
        if key not in known:
            raise BadInputError(
                f"{where}: there is no key {key!r}; the keys are {', '.join(known)}."
            )


def _refuse_same_label(where: str, policies: Sequence[ScenarioPolicy]) -> None:
    labels = [one.label for one in policies]
    for label in labels:
        if labels.count(label) > 1:
            raise BadInputError(
                f"{where}: {labels.count(label)} policies are labelled {label!r}; give each a "
                "label of its own."
            )


def _text(where: str, entry: Mapping[str, object], key: str) -> str:
    found = entry.get(key)
    if isinstance(found, str) and found.strip():
        return found.strip()
    raise BadInputError(f"{where}: found {_shown(found)} for {key}; it is a text, not empty.")


def _shown(found: object) -> str:
    return "nothing" if found is None else repr(found)
