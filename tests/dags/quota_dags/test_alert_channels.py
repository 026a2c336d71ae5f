from __future__ import annotations

import json

from quota_dags.alerts import mail, slack, webhook
from spark_jobs.settings import AlertSettings
from tests.spark_jobs.publish.messages import HOSTILE, message

SETTINGS = AlertSettings(
    mail_to=("a@example.com", "b@example.com"),
    mail_connection="our_smtp",
    slack_connection="our_slack",
    webhook_connection="our_hook",
)


def test_the_settings_say_what_messages_are_sent_by() -> None:
    assert AlertSettings().channels == ()
    assert SETTINGS.channels == ("mail", "slack", "webhook")
    assert AlertSettings(webhook_connection="hook").channels == ("webhook",)


def test_a_mail_goes_to_everybody_at_once_and_a_name_in_it_is_no_html() -> None:
    arguments = mail(message(), SETTINGS)
    assert arguments["to"] == ["a@example.com", "b@example.com"]
    assert arguments["smtp_conn_id"] == "our_smtp"
    html = arguments["html_content"]
    assert "{{ 7*7 }}&lt;script&gt;" in html
    assert (
        html.count("<") == html.count(">") == len(["<pre>", "</pre>", "<p>", "<a>", "</a>", "</p>"])
    )
    assert '<a href="https://a.example/x?a=1&amp;b=2">The audit</a>' in html
    # Airflow falls back to what the connection says.
    assert arguments["from_email"] is None


def test_slack_parses_no_name() -> None:
    arguments = slack(message(), SETTINGS)
    told, link = (block["text"] for block in arguments["blocks"])
    assert told == {"type": "plain_text", "emoji": False, "text": message().text.rstrip("\n")}
    assert link["text"] == "<https://a.example/x?a=1&amp;b=2|The audit>"
    assert arguments["text"] == (
        "1 new: {{ 7*7 }}&lt;script&gt;alert(1)&lt;/script&gt;&lt;!channel&gt;&amp;&lt;@U1&gt;"
    )


def test_a_long_message_comes_to_slack_in_pieces_that_it_takes_and_says_if_it_is_cut() -> None:
    lines = [f"line {number} " + "x" * 90 for number in range(100)]
    blocks = slack(message("\n".join(lines), url=""), SETTINGS)["blocks"]
    texts = [block["text"]["text"] for block in blocks]
    assert max(map(len, texts)) <= 3000
    assert "".join(texts) == "\n".join(lines)
    texts = [b["text"]["text"] for b in slack(message("\n".join(lines * 9)), SETTINGS)["blocks"]]
    assert texts[-2] == "… the rest does not fit into Slack"
    assert len(texts) == 7


def test_one_line_that_is_longer_than_slack_takes_is_cut() -> None:
    blocks = slack(message("x" * 10_000), SETTINGS)["blocks"]
    assert len(blocks[0]["text"]["text"]) <= 3000


def test_a_web_server_gets_json_with_names_as_they_are() -> None:
    arguments = webhook(message(), SETTINGS)
    body = json.loads(json.dumps(arguments["json"]))
    assert HOSTILE in body["text"]
    assert body["day"] == "2026-11-10"
    assert arguments["http_conn_id"] == "our_hook"


def test_a_message_without_a_link_has_none() -> None:
    assert "<a" not in mail(message(url=""), SETTINGS)["html_content"]
    assert len(slack(message(url=""), SETTINGS)["blocks"]) == 1
