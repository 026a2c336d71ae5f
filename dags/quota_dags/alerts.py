"""The daily DAG's last two tasks: telling what is new, or that the audit failed and why.

Names in a message come from strangers. In mail they are escaped, in Slack they stand in text
objects that Slack does not parse, to a web server they are JSON. None of it is a template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from html import escape
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol, get_args
from urllib.parse import quote

import msgspec

from quota_dags.process import TaskTerms
from quota_dags.steps import FAILURE_KEY, DailyAudit
from spark_jobs.publish.records import AlertMessage, FailureRecord, NewsRecord, SeverityName
from spark_jobs.settings import AlertSettings
from spark_jobs.warehouse.pipeline import STEPS

NEWS, FAILURE = "alert_news", "alert_failure"
"""The tasks' ids: after a run that published, and after one that did not."""

ALERTS: Mapping[str, str] = {NEWS: "all_success", FAILURE: "one_failed"}
"""Task id → Airflow's rule of when it runs, by the state of the step that publishes.

Two tasks, so that a failed run stays red: what it ends with is then ``alert_news``, which could not
run. One task that always runs would end it green. No callbacks of the DAG: those run in the DAG
processor, where nobody sees them fail and nothing tries them again.
"""

TIMEOUT_S = 30
# Slack takes 3,000 characters in a section's text, and 50 sections; more than this nobody reads.
_SECTION_LENGTH_MAX = 2900

_SECTIONS_MAX = 5

UNSEEN = (
    "Nobody saw it end: it was killed, or stopped because it took too long. Its log may say more."
)

_REASON_LINES_MAX = 30
_LINE_LENGTH_MAX = 600
_RANKS: tuple[SeverityName, ...] = get_args(SeverityName)
Notifier = Callable[[dict[str, Any]], None]
Arguments = dict[str, Any]
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
        """Return the value that was kept; None where none was."""

    def set(self, key: str, value: Any) -> None:
        """Keep a value."""


def alert(
    task_id: str,
    audit: DailyAudit,
    context: Mapping[str, Any],
    terms: TaskTerms,
    settings: AlertSettings,
) -> str:
    """Send the run's one message and return its subject; ``context`` is the task's, of Airflow.

    Raises ``terms.skipped`` where there is nothing to tell, or it was told before in this run;
    NotSentError where it did not go out by every channel.
    """
    if task_id == NEWS:
        message = news_message(audit, context["run_id"], terms, settings)
    else:
        message = failed_run_message(audit, context["ti"], context["run_id"], terms, settings)
    sent = send(message, settings, context["task_state_store"], terms.log)
    if not sent:
        raise terms.skipped(f"this run has told it before: {message.subject}")
    return message.subject


def news_message(
    audit: DailyAudit, run_id: str, terms: TaskTerms, settings: AlertSettings
) -> AlertMessage:
    """Return the message of a published audit; raises ``terms.skipped`` where nothing is urgent."""
    arguments = ["news", *audit.scope_arguments(), "--json"]
    line = terms.run(NEWS, audit.day.isoformat(), arguments)
    news = msgspec.json.decode(line, type=NewsRecord)
    level = settings.level
    if news.urgency is None or _RANKS.index(news.urgency) > _RANKS.index(level):
        raise terms.skipped(f"nothing to tell: nothing new or worse is {level}: {news.subject}")
    page = f"quota-audit/clusters/{quote(audit.cluster)}/{audit.day}"
    return AlertMessage(
        kind="news",
        cluster=audit.cluster,
        day=audit.day,
        run_id=run_id,
        subject=news.subject,
        text=news.text,
        url=_address(page, settings),
        news=news,
    )


def failed_run_message(
    audit: DailyAudit, ti: Any, run_id: str, terms: TaskTerms, settings: AlertSettings
) -> AlertMessage:
    """Return the message of a run that failed at a step; ``ti`` is Airflow's task instance."""
    states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[run_id]).get(run_id, {})
    step = next((name for name in STEPS if states.get(name) == "failed"), None)
    if step is None:
        raise terms.skipped("nothing to tell: no step of this run is failed any more")
    ended = ti.xcom_pull(task_ids=step, key=FAILURE_KEY)
    exit_code = ended["exit_code"] if ended else None
    reason = _shortened(ended["reason"]) if ended else UNSEEN
    subject = f"Kafka quotas, {audit.cluster} on {audit.day}: the audit failed at {step}"
    how = f" with exit code {exit_code}" if exit_code is not None else ""
    text = (
        f"{subject}\nThe step ended{how}. Nothing of this run was published: what readers see is "
        f"as it was before.\n\n{reason}\n"
    )
    page = f"dags/{ti.dag_id}/runs/{quote(run_id, safe='')}/tasks/{step}"
    return AlertMessage(
        kind="failure",
        cluster=audit.cluster,
        day=audit.day,
        run_id=run_id,
        subject=subject,
        text=text,
        url=_address(page, settings),
        failure=FailureRecord(step=step, exit_code=exit_code, reason=reason),
    )


def _shortened(reason: str) -> str:
    lines = reason.splitlines()
    shown = [line if len(line) <= _LINE_LENGTH_MAX else f"{line[:_LINE_LENGTH_MAX]}…"
             for line in lines[:_REASON_LINES_MAX]]  # fmt: skip
    more = len(lines) - len(shown)
    return "\n".join([*shown, f"… and {more} lines more in its log"] if more else shown)


def _address(page: str, settings: AlertSettings) -> str | None:
    return f"{settings.base_url.rstrip('/')}/{page}" if settings.base_url else None


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


def mail(message: AlertMessage, settings: AlertSettings) -> Arguments:
    """Return the arguments of ``SmtpNotifier``."""
    link = ""
    if message.url:
        link = f'<p><a href="{escape(message.url)}">{_link_name(message)}</a></p>'
    return {
        "smtp_conn_id": settings.mail_connection,
        "to": list(settings.mail_to),
        "from_email": settings.mail_from or None,
        "subject": message.subject,
        "html_content": f"<pre>{escape(message.text)}</pre>{link}",
        # So that nobody's out-of-office reply answers.
        "custom_headers": {"Auto-Submitted": "auto-generated"},
    }


def slack(message: AlertMessage, settings: AlertSettings) -> Arguments:
    """Return the arguments of ``SlackWebhookNotifier``."""
    texts = [{"type": "plain_text", "text": t, "emoji": False} for t in _pieces(message.text)]
    if message.url:
        link = f"<{_slack_escaped(message.url)}|{_link_name(message)}>"
        texts.append({"type": "mrkdwn", "text": link})
    return {
        "slack_webhook_conn_id": settings.slack_connection,
        # What notifications show; this one Slack parses.
        "text": _slack_escaped(message.subject),
        "blocks": [{"type": "section", "text": text} for text in texts],
        "unfurl_links": False,
        "unfurl_media": False,
        "timeout": TIMEOUT_S,
    }


def webhook(message: AlertMessage, settings: AlertSettings) -> Arguments:
    """Return the arguments of ``HttpNotifier``."""
    return {
        "http_conn_id": settings.webhook_connection,
        "json": msgspec.to_builtins(message),
        "extra_options": {"timeout": TIMEOUT_S},
    }


CHANNELS: Mapping[str, Callable[[AlertMessage, AlertSettings], Arguments]] = MappingProxyType(
    {"mail": mail, "slack": slack, "webhook": webhook}
)
"""Channel → what makes its notifier's arguments of a message."""


def _link_name(message: AlertMessage) -> str:
    return "The audit" if message.kind == "news" else "The log of the step"


def _pieces(text: str) -> list[str]:
    """Return ``text`` cut between lines into pieces that Slack takes; the last says what is not."""
    pieces = [""]
    for line in text.rstrip("\n").splitlines(keepends=True):
        if len(pieces[-1]) + len(line) > _SECTION_LENGTH_MAX:
            pieces.append("")
        pieces[-1] += line[:_SECTION_LENGTH_MAX]
    if len(pieces) > _SECTIONS_MAX:
        pieces = [*pieces[:_SECTIONS_MAX], "… the rest does not fit into Slack"]
    return [piece for piece in pieces if piece.strip()]


def _slack_escaped(text: str) -> str:
    # The three characters that Slack parses, and no other.
    return escape(text, quote=False)
