"""Sending a message by each channel once, through the notifiers of Airflow's providers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

from quota_dags.alert_channels import CHANNELS
from spark_jobs.publish.alert_message import AlertMessage
from spark_jobs.settings import AlertSettings

Notifier = Callable[[dict[str, Any]], None]
_PROVIDERS = "airflow.providers"
NOTIFIERS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "mail": ("smtp", f"{_PROVIDERS}.smtp.notifications.smtp", "SmtpNotifier"),
        "slack": (
            "slack",
            f"{_PROVIDERS}.slack.notifications.slack_webhook",
            "SlackWebhookNotifier",
        ),
        "webhook": ("http", f"{_PROVIDERS}.http.notifications.http", "HttpNotifier"),
    }
)
"""Channel → provider, module and class of its notifier."""


class NotSentError(RuntimeError):
    """A message did not go out by every channel; another attempt sends only what is missing."""


class Sent(Protocol):
    """What a task remembers over its attempts: Airflow's ``task_state_store``."""

    def get(self, key: str) -> Any:
        """Return what was kept; None: nothing was."""

    def set(self, key: str, value: Any) -> None:
        """Keep a value."""


def send(
    message: AlertMessage,
    settings: AlertSettings,
    sent: Sent,
    log: Callable[[str], None],
    notifier: Callable[[str, dict[str, Any]], Notifier] | None = None,
) -> int:
    """Send ``message`` by every channel that has not got it; return by how many it was sent.

    Raises NotSentError after all were tried, where one did not take it.
    """
    notifier = notifier or provider_notifier
    digest = sha256(msgspec.json.encode(message)).hexdigest()
    failed = []
    number = 0
    for channel in settings.channels:
        key = f"sent_by_{channel}"
        if sent.get(key) == digest:
            log(f"{channel}: this message was sent before")
            continue
        try:
            notifier(channel, CHANNELS[channel](message, settings))({})
        except Exception as error:
            failed.append(f"{channel} ({type(error).__name__}: {error})")
            continue
        sent.set(key, digest)
        number += 1
        log(f"{channel}: sent: {message.subject}")
    if failed:
        said = (
            f"Not sent by {' and '.join(failed)}: check the connection named by the setting "
            "QUOTA_AUDIT_ALERT_…. The audit itself is not affected; clear this task to try again."
        )
        log(said)
        raise NotSentError(said)
    return number


def provider_notifier(channel: str, arguments: dict[str, Any]) -> Notifier:
    """Return the notifier of a channel's provider; nothing of ``arguments`` is a template.

    Raises NotSentError where the provider is not installed.
    """
    provider, module, name = NOTIFIERS[channel]
    try:
        cls = getattr(import_module(module), name)
    except ImportError as error:
        raise NotSentError(
            f"the package apache-airflow-providers-{provider} is not installed: {error}"
        ) from error
    literal = import_module("airflow.sdk").literal
    templated = {
        key: literal(value) if key in cls.template_fields and value is not None else value
        for key, value in arguments.items()
    }
    made: Notifier = cls(**templated)
    return made
