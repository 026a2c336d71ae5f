from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from spark_jobs.errors import BadInputError
from spark_jobs.publish.facts.news import News, news_subject, news_text, owner_text
from spark_jobs.publish.follow.changes import Status
from spark_jobs.publish.read_facts import acknowledgements_of, news_of, owners_of
from tests.builders.followed_days import (
    DAYS,
    KNOWN_FROM,
    KNOWN_UNTIL,
    MENDED_ON,
    SPREADS_ON,
    write_days,
)
from tests.builders.tables_builder import row, scope_in, write_rows

GOLDEN = Path(__file__).parents[2] / "golden" / "report" / "news-of-ten-days.txt"


@pytest.fixture(scope="module")
def ten_days(tmp_path_factory: pytest.TempPathFactory) -> list[News]:
    return [news_of(scope) for scope in write_days(tmp_path_factory.mktemp("days"))]


def statuses(ten_days: list[News], user: str) -> list[str]:
    """Return what each day said of a user's problem; "known" where it is acknowledged."""
    said = []
    for news in ten_days:
        of_user = [c for c in news.changes if c.problem.sensor.quota_user == user]
        said += ["known" if c.acknowledged else str(c.status) for c in of_user] or ["nothing"]
    return said


def test_the_messages_of_ten_days_are_these(ten_days: list[News]) -> None:
    assert "\n".join(news_text(news) for news in ten_days) == GOLDEN.read_text("utf-8")


def test_a_fault_that_stays_is_new_once(ten_days: list[News]) -> None:
    assert statuses(ten_days, "same") == ["new", *["still there"] * (DAYS - 1)]


def test_a_fault_that_grows_is_told_again_and_again(ten_days: list[News]) -> None:
    said = statuses(ten_days, "growing")
    assert said[0] == "new"
    assert [place for place, status in enumerate(said) if status == "worse"] == [2, 4, 6, 8]


def test_a_fault_that_was_mended_is_gone_once(ten_days: list[News]) -> None:
    said = statuses(ten_days, "mended")
    assert said == [
        "new", *["still there"] * (MENDED_ON - 1), "gone", *["nothing"] * (DAYS - MENDED_ON - 1),
    ]  # fmt: skip


def test_a_fault_that_is_known_is_told_when_it_is_worse(ten_days: list[News]) -> None:
    said = statuses(ten_days, "known")
    assert said[:KNOWN_FROM] == ["new", "still there"]
    assert set(said[KNOWN_FROM:SPREADS_ON]) == {"known"}
    assert KNOWN_UNTIL < SPREADS_ON
    assert said[SPREADS_ON:] == ["worse", "still there"]


def test_only_days_with_news_are_urgent(ten_days: list[News]) -> None:
    assert [news.is_urgent() for news in ten_days] == [True] + [False] * (DAYS - 1)
    from_warning = [place for place, news in enumerate(ten_days) if news.is_urgent(1)]
    assert from_warning == [0, 2, 4, 6, 8]


def test_a_subject_says_how_many_are_critical(ten_days: list[News]) -> None:
    assert news_subject(ten_days[0]) == "Kafka quotas, prod on 2026-11-10: 4 new (1 critical)"


def test_each_owner_reads_of_its_own_clients(ten_days: list[News]) -> None:
    news = ten_days[-1]
    assert news.owners is not None
    (orders,) = news.owners.teams()
    own, unowned = owner_text(news, orders), owner_text(news, None)
    assert "user 'growing'" in own
    assert "user 'same'" not in own
    assert "user 'same'" in unowned
    assert "user 'growing'" not in unowned
    assert own.startswith("Orders (#orders), prod on 2026-11-19\n")


def test_bad_data_is_said_first(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    write_rows(scope, "findings", [])
    folder = scope.output_dir("data_quality")
    folder.mkdir(parents=True)
    rule = {"rule": "requests_are_counted_once", "severity": "critical", "success": False}
    stage = {
        "stage": "ingested",
        "outcome": "failed",
        "tables": [{"table": "requests", "rows": 3, "rules": [rule]}],
    }
    (folder / "ingested.json").write_bytes(msgspec.json.encode(stage))
    news = news_of(scope)
    assert news.is_urgent()
    assert "data quality failed" in news_subject(news)
    assert "  requests: requests_are_counted_once\n" in news_text(news)


def test_a_day_without_findings_is_not_urgent(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    write_rows(scope, "findings", [])
    news = news_of(scope)
    assert not news.is_urgent(2)
    assert news_subject(news).endswith("nothing found")


def test_text_of_strangers_is_made_visible(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    finding = row("findings", quota_user="a\x1b[31m\n", explanation="b\u202e\x1b[2J" * 300)
    write_rows(scope, "findings", [finding])
    text = news_text(news_of(scope))
    assert all(line.isprintable() for line in text.splitlines())
    assert max(map(len, text.splitlines())) < 450


def test_long_lists_say_how_much_they_leave_out(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    rows = [row("findings", quota_user=f"u{n}", finding_id=str(n)) for n in range(25)]
    write_rows(scope, "findings", rows)
    news = news_of(scope)
    assert len(news.of(Status.NEW)) == 25
    assert "and 15 more: quota-audit news --all" in news_text(news)
    assert "more:" not in news_text(news, 25)


def test_an_owners_file_that_was_named_must_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUOTA_AUDIT_FOLLOW_OWNERS", str(tmp_path / "none.yaml"))
    scope = scope_in(tmp_path)
    write_rows(scope, "findings", [])
    news = news_of(scope)
    assert news.owners is None
    assert "QUOTA_AUDIT_FOLLOW_OWNERS" in news.errors[0]


def test_a_file_that_cannot_be_read_is_said_and_the_news_are_told(tmp_path: Path) -> None:
    scope = scope_in(tmp_path)
    write_rows(scope, "findings", [row("findings")])
    (tmp_path / "acknowledged.yaml").write_text("acknowledged: 3\n")
    text = news_text(news_of(scope))
    assert "Passed over: " in text
    assert "is not a list named 'acknowledged'" in text
    assert "New (1)" in text


def test_a_pipe_in_place_of_a_file_that_people_keep_is_refused_and_not_waited_for(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "owners.yaml")
    with pytest.raises(BadInputError, match=r"owners\.yaml is no regular file"):
        owners_of(tmp_path)
    os.mkfifo(tmp_path / "acknowledged.yaml")
    with pytest.raises(BadInputError, match=r"acknowledged\.yaml is no regular file"):
        acknowledgements_of(tmp_path)
