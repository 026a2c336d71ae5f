"""The one interface of everything that can decide on requests."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, Protocol, Self, runtime_checkable

from spark_jobs.whatif.policies.change import Change
from spark_jobs.whatif.policies.decision import Decision
from spark_jobs.whatif.policies.request import PolicyRequest


class StateScope(StrEnum):
    """What shares one state: requests of different ones can be replayed side by side."""

    SENSOR = "sensor"
    """One client on one broker, as :meth:`Policy.state_key` names it."""
    BROKER = "broker"
    CLUSTER = "cluster"


class Policy(Protocol):
    """A rule with its state. Pure: time comes with requests and changes, in order.

    A policy is made by :meth:`configured`, hears :meth:`observe` of every change before the
    requests that it holds for, and answers each request with :meth:`decide`, which moves its state
    on as the system would have, were the answer its own.
    """

    name: ClassVar[str]
    # The document's title, for people.
    title: ClassVar[str]
    apis: ClassVar[frozenset[str]]
    scope: ClassVar[StateScope]
    # Keys of the configuration whose values are, where nothing is said, those of the broker's own
    # configuration.
    broker_keys: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, config: Mapping[str, object]) -> None: ...

    @classmethod
    def configured(cls, config: Mapping[str, object]) -> Self:
        """Return the policy in its first state.

        ``config`` has the document's own keys and value syntax. Raises PolicyConfigError naming
        the key, what was found, and the rule that it breaks.
        """
        return cls(config)

    def state_key(self, request: PolicyRequest) -> str:
        """Return the name of the state that decides on a request, unique within its scope."""
        ...

    def decide(self, request: PolicyRequest) -> Decision:
        """Return the decision on a request of one of ``apis``; times never go back by much."""
        ...

    def observe(self, change: Change) -> None:
        """Take notice of a change. Raises PolicyConfigError where the system would refuse it."""
        ...


@runtime_checkable
class CutsFetches(Protocol):
    """A policy under which brokers read less than a fetch asks for, where they play along."""

    def largest_fetch(self, request: PolicyRequest) -> float:
        """Return the most bytes that a fetch may bring, infinity where nothing bounds it."""
        ...
