from __future__ import annotations

from typing import Any

import pytest

from quota_dags.alerts import Notifier, NotSentError, provider_notifier, send
from spark_jobs.settings import AlertSettings
from tests.spark_jobs.publish.messages import HOSTILE, message

SETTINGS = AlertSettings(mail_to=("a@example.com",), webhook_connection="hook")


class Kept(dict[str, Any]):
    """Stands for what Airflow keeps of a task over its attempts."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value


class Post:
    """Keeps what was sent by which channel, and refuses what it is told to."""

    def __init__(self, *refused: str) -> None:
        self.refused = set(refused)
        self.sent: list[str] = []

    def notifier(self, channel: str, arguments: dict[str, Any]) -> Notifier:
        def notify(context: dict[str, Any]) -> None:
            if channel in self.refused:
                raise ConnectionError("nobody listens")
            self.sent.append(channel)

        return notify


def test_a_message_is_sent_by_each_channel_once_however_often_it_is_asked_for() -> None:
    post, kept, log = Post(), Kept(), []
    assert send(message(), SETTINGS, kept, log.append, post.notifier) == 2
    assert send(message(), SETTINGS, kept, log.append, post.notifier) == 0
    assert post.sent == ["mail", "webhook"]
    assert log[-1] == "webhook: this message was sent before"


def test_another_message_of_the_same_run_is_sent() -> None:
    post, kept = Post(), Kept()
    send(message(), SETTINGS, kept, print, post.notifier)
    assert send(message("something else"), SETTINGS, kept, print, post.notifier) == 2


def test_a_channel_that_fails_keeps_no_other_from_the_message_and_gets_it_later() -> None:
    post, kept, log = Post("mail"), Kept(), []
    with pytest.raises(
        NotSentError, match=r"^Not sent by mail \(ConnectionError: nobody listens\)"
    ):
        send(message(), SETTINGS, kept, log.append, post.notifier)
    assert post.sent == ["webhook"]
    # What the log says last is what `make audit` ends with.
    assert log[-1].startswith("Not sent by mail (")
    post.refused.clear()
    assert send(message(), SETTINGS, kept, print, post.notifier) == 1
    assert post.sent == ["webhook", "mail"]


def test_a_provider_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = {"mail": ("smtp", "airflow_of_nobody.smtp", "SmtpNotifier")}
    monkeypatch.setattr("quota_dags.alerts.NOTIFIERS", gone)
    with pytest.raises(NotSentError, match="the package apache-airflow-providers-smtp is not inst"):
        provider_notifier("mail", {})


@pytest.mark.airflow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("channel", "arguments"),
    [
        ("mail", {"to": ["a@example.com"], "subject": HOSTILE, "html_content": HOSTILE}),
        ("slack", {"slack_webhook_conn_id": "x", "text": HOSTILE, "blocks": [{"text": HOSTILE}]}),
        ("webhook", {"http_conn_id": "x", "json": {"text": HOSTILE}}),
    ],
)
def test_no_name_is_ever_rendered_as_a_template(
    channel: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    notifier = provider_notifier(channel, arguments)
    monkeypatch.setattr(type(notifier), "notify", lambda self, context: None)
    notifier({})
    assert {name: getattr(notifier, name) for name in arguments} == arguments
