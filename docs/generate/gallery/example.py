"""An example that a document works out, to be worked out again by the policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

TODAY = "Today's brokers, Kafka 3.8 and later"


class Basis(StrEnum):
    """Where an expected value comes from."""

    PRINTED = "printed"
    RULE = "its rule"
    KAFKA = "Kafka"


@dataclass(frozen=True, slots=True)
class Example:
    """What a document says, and how to ask the policy for the same.

    ``expected`` is written from the document, and ``basis`` says whether it is printed there;
    ``run`` returns what the policy's own classes say, as text of the same form.
    """

    policy: str
    document: str
    says: str
    expected: str
    run: Callable[[], str]
    basis: Basis = Basis.RULE
