from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from spark_jobs.publish.facts.news import news_text
from spark_jobs.publish.json_records import news_json, news_record
from spark_jobs.publish.read_facts import news_of
from spark_jobs.publish.records import NewsRecord
from tests.builders.followed_days import write_days
from tests.builders.tables_builder import row, scope_in, write_rows


def test_a_day_s_json_says_what_its_message_says(tmp_path: Path) -> None:
    for scope in write_days(tmp_path):
        news = news_of(scope)
        line = news_json(news)
        assert "\n" not in line
        record = msgspec.json.decode(line, type=NewsRecord)
        assert record == news_record(news)
        assert record.text == news_text(news)
        told = [p for p in record.problems if p.acknowledged_until is None]
        assert sum(record.counts.values()) == len(told)
        assert record.acknowledged == len(record.problems) - len(told)


@pytest.mark.parametrize(
    ("severities", "urgency"),
    [(["critical", "info"], "critical"), (["info", "warning"], "warning"), (["info"], "info"),
     ([], None)],
)  # fmt: skip
def test_the_urgency_is_the_worst_of_what_is_new(
    severities: list[str], urgency: str | None, tmp_path: Path
) -> None:
    scope = scope_in(tmp_path)
    found = [row("findings", severity=one, quota_user=one, finding_id=one) for one in severities]
    write_rows(scope, "findings", found)
    assert news_record(news_of(scope)).urgency == urgency


def test_ten_problems_of_a_status_are_listed_unless_all_are_asked_for(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    found = [row("findings", quota_user=f"u{n}", finding_id=f"f{n}") for n in range(12)]
    write_rows(scope, "findings", found)
    news = news_of(scope)
    record = news_record(news)
    assert (len(record.problems), record.counts["new"]) == (10, 12)
    assert len(news_record(news, 12).problems) == 12


def test_a_name_stays_as_it_is_on_one_line(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    write_rows(scope, "findings", [row("findings", quota_user="a<b>\u2028")])
    (problem,) = json.loads(news_json(news_of(scope)))["problems"]
    assert problem["quota_user"] == "a<b>\u2028"
