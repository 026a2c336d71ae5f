"""What a policy hears of besides requests; each at the moment it holds from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """Keys of the policy's own configuration, with their new values; None removes one."""

    at_ms: int
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class QuotaChanged:
    """A value of Kafka's dynamic client quotas; ``bound`` None removes it.

    Entity parts: None is no such part, ``<default>`` the default one.
    """

    at_ms: int
    quota_type: str
    user: str | None
    client_id: str | None
    bound: float | None
    broker_id: int | None = None  # None: on every broker


@dataclass(frozen=True, slots=True)
class TopicAdded:
    """A topic of which a broker now has a partition; counts where they are known."""

    at_ms: int
    broker_id: int
    topic: str
    partitions: int | None = None
    leaders: int | None = None  # of its partitions, on this broker


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    """A topic of which a broker has no partition any more."""

    at_ms: int
    broker_id: int
    topic: str


@dataclass(frozen=True, slots=True)
class BrokerStarted:
    """A broker that began anew, with whatever it had counted forgotten."""

    at_ms: int
    broker_id: int


@dataclass(frozen=True, slots=True)
class ControllerFailedOver:
    """Another controller took over; it has counted nothing."""

    at_ms: int


Change = (
    ConfigChanged | QuotaChanged | TopicAdded | TopicRemoved | BrokerStarted | ControllerFailedOver
)
