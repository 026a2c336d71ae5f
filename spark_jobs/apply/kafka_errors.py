"""What Kafka's exceptions mean, in sentences for the person who ran the command."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import GatewayClient
from py4j.protocol import (
    REFERENCE_TYPE,
    Py4JError,
    Py4JJavaError,
    Py4JNetworkError,
    get_return_value,
    is_error,
)

_ERRORS = "org.apache.kafka.common.errors."
_CAUSES_MAX = 6
_CALL = re.compile(r"Call\(callName=(\w+),[^)]*\) timed out at \d+ after (\d+) attempt\(s\)")


@dataclass(frozen=True, slots=True)
class KafkaFailure:
    """Why a call failed; ``is_answer``: the cluster refused it, so it did nothing."""

    message: str
    is_answer: bool


@dataclass(frozen=True, slots=True)
class FailureSentences:
    """Makes failures of one cluster's calls; ``hide`` takes secrets out of a text.

    ``jvm_ending`` says how the client's JVM has ended; None: it runs.
    """

    servers: str
    command_config: str
    hide: Callable[[str], str]
    jvm_ending: Callable[[], str | None]

    def of(self, error: Py4JError, *, is_change: bool = False) -> KafkaFailure:
        """Return the failure of a call that raised ``error``.

        ``is_change``: it was to change something, so the same brokers have answered before.
        """
        if not isinstance(error, Py4JJavaError):
            return KafkaFailure(self._lost(error), False)
        chain = _causes(error.java_exception)
        names = [name for name, _ in chain]
        said = self.hide(": ".join(dict.fromkeys(_plain(text) for _, text in chain if text)))
        remedy = self._remedy(names, is_change)
        kind = _telling(names).rpartition(".")[2]
        message = f"{said or names[-1]} ({kind}){remedy and f'. {remedy}'}"
        return KafkaFailure(message, is_answer=_is_answer(error.java_exception, names))

    def _lost(self, error: Py4JError) -> str:
        if (ending := self.jvm_ending()) is not None:
            return f"the JVM of Kafka's client ended ({self.hide(ending)})"
        # Other texts of py4j hold the call's arguments, which are nobody's business.
        is_plain = isinstance(error, Py4JNetworkError)
        said = str(error) if is_plain else type(error).__name__
        return f"the JVM of Kafka's client runs, but the connection to it was lost ({said})"

    def _remedy(self, names: list[str], is_change: bool) -> str:
        unanswered = (
            "The brokers answered before: see whether their controller runs"
            if is_change
            else f"Check that {self.servers} runs and can be reached; a listener with TLS or SASL "
            "answers only a client whose --command-config says so"
        )
        for exception, remedy in (
            ("SaslAuthenticationException", f"{self.servers} did not accept the credentials of "
             f"{self.command_config}"),
            ("SslAuthenticationException", "The TLS handshake failed: check the truststore, the "
             f"keystore and the security.protocol of {self.command_config}"),
            ("ClusterAuthorizationException", "Reading quotas needs the right DescribeConfigs on "
             "the cluster, altering them AlterConfigs: see kafka-acls.sh --cluster"),
            ("UnsupportedVersionException", "Brokers have this since Kafka 2.6"),
            ("TimeoutException", unanswered),
        ):  # fmt: skip
            if _ERRORS + exception in names:
                return remedy
        return ""


def _causes(exception: Any) -> list[tuple[str, str]]:
    """Return class and message of an exception and its causes; wrappers repeat them."""
    chain: list[tuple[str, str]] = []
    while exception is not None and len(chain) < _CAUSES_MAX:
        name = str(exception.getClass().getName())
        if name != "java.util.concurrent.ExecutionException":
            chain.append((name, str(exception.getMessage() or "").strip()))
        exception = exception.getCause()
    return chain or [("java.util.concurrent.ExecutionException", "")]


def _plain(text: str) -> str:
    """Return Kafka's text without what its client keeps about a call."""
    return _CALL.sub(r"\1 had no answer after \2 attempt(s)", text)


def _telling(names: list[str]) -> str:
    """Return the class that says most: the innermost of Kafka's errors, else the outermost."""
    return next((name for name in reversed(names) if name.startswith(_ERRORS)), names[0])


def _is_answer(exception: Any, names: list[str]) -> bool:
    """Return True if a broker refused: no lost answer, no fault on its way."""
    if not any(name.startswith(_ERRORS) for name in names):
        return False
    unclear = ("TimeoutException", "DisconnectException", "NetworkException",
               "UnknownServerException", "InterruptException")  # fmt: skip
    return not any(_ERRORS + name in names for name in unclear)


class OwnExceptionsClient(GatewayClient):  # type: ignore[misc]  # py4j has no types
    """Raises each exception of its JVM as ``Py4JJavaError``, also beside a Spark session.

    A session replaces, for its whole process, what py4j makes of an answer
    (``pyspark.errors.exceptions.captured.install_exception_handler``): every exception is shown to
    Spark's JVM, which knows nothing of another JVM's objects.
    """

    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        """Return the answer to ``command``; raises Py4JJavaError where it is an exception."""
        answer = super().send_command(command, retry, binary)
        if not binary and is_error(answer)[0] and answer[1:2] == REFERENCE_TYPE:
            get_return_value(answer, self)
        return answer
