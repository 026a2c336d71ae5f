"""A message as each channel shows it: arguments of the channel's notifier.

Names in it come from strangers. In mail they are escaped, in Slack they stand in text objects that
Slack does not parse, to a web server they are JSON. None of it is a template: see ``sending``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from types import MappingProxyType
from typing import Any

import msgspec

from spark_jobs.publish.alert_message import AlertMessage
from spark_jobs.settings import AlertSettings

Arguments = dict[str, Any]
TIMEOUT_S = 30
# Slack takes 3,000 characters in a section's text, and 50 sections; more than this nobody reads.
_SECTION_LENGTH_MAX = 2900
_SECTIONS_MAX = 5


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
    sections = [_section(text) for text in _pieces(message.text)]
    if message.url:
        link = f"<{_slack_escaped(message.url)}|{_link_name(message)}>"
        sections.append({"type": "section", "text": {"type": "mrkdwn", "text": link}})
    return {
        "slack_webhook_conn_id": settings.slack_connection,
        # What notifications show; this one Slack parses.
        "text": _slack_escaped(message.subject),
        "blocks": sections,
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


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "plain_text", "text": text, "emoji": False}}


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
