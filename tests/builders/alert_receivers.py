"""A web server and a mail server on 127.0.0.1 that keep what they are sent, for tests of alerts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session


class _AnyPort(Controller):
    """Listens on a free port, which it then connects to itself to see that it is there."""

    def _trigger_server(self) -> None:
        assert self.server is not None
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@dataclass(slots=True)
class Receivers:
    """What came, and what the web server answers next (200 when ``answers`` is empty)."""

    http_port: int = 0
    smtp_port: int = 0
    posts: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    mails: list[EmailMessage] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)

    def environment(self, *channels: str, **settings: str) -> dict[str, str]:
        """Return settings and connections that send to these servers by ``channels``."""
        smtp = {"conn_type": "smtp", "host": "127.0.0.1", "port": self.smtp_port,
                "extra": {"disable_ssl": True, "disable_tls": True}}  # fmt: skip
        slack = {"conn_type": "slackwebhook", "password": "T0/B0/slack-secret",
                 "host": f"http://127.0.0.1:{self.http_port}/services"}  # fmt: skip
        webhook = {"conn_type": "http", "host": f"http://127.0.0.1:{self.http_port}/hook",
                   "extra": {"Authorization": "Bearer webhook-secret"}}  # fmt: skip
        chosen = {
            "mail": {
                "QUOTA_AUDIT_ALERT_MAIL_TO": '["platform@example.com", "ada@example.com"]',
                "QUOTA_AUDIT_ALERT_MAIL_FROM": "airflow@example.com",
                "AIRFLOW_CONN_SMTP_DEFAULT": json.dumps(smtp),
            },
            "slack": {
                "QUOTA_AUDIT_ALERT_SLACK_CONNECTION": "quota_slack",
                "AIRFLOW_CONN_QUOTA_SLACK": json.dumps(slack),
            },
            "webhook": {
                "QUOTA_AUDIT_ALERT_WEBHOOK_CONNECTION": "quota_webhook",
                "AIRFLOW_CONN_QUOTA_WEBHOOK": json.dumps(webhook),
            },
        }
        named = {f"QUOTA_AUDIT_ALERT_{name.upper()}": value for name, value in settings.items()}
        return {k: v for channel in channels for k, v in chosen[channel].items()} | named


@contextmanager
def receivers() -> Iterator[Receivers]:
    """Run both servers for the time of the block."""
    got = Receivers()

    class Web(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.posts.append((self.path, dict(self.headers), json.loads(body)))
            self.send_response(got.answers.pop(0) if got.answers else 200)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Mail:
        async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
            assert isinstance(envelope.content, bytes)
            mail = message_from_bytes(envelope.content, policy=policy.default)
            got.mails.append(mail)
            return "250 OK"

    web = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    smtp = _AnyPort(Mail(), hostname="127.0.0.1", port=0)
    thread = threading.Thread(target=web.serve_forever)
    thread.start()
    smtp.start()
    try:
        got.http_port = web.server_address[1]
        got.smtp_port = smtp.port
        yield got
    finally:
        smtp.stop()
        web.shutdown()
        thread.join()
        web.server_close()
