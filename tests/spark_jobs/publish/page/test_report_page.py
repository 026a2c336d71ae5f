from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_jobs.publish.publish_report import REPORT_NAME, report_pages
from spark_jobs.publish.read_facts import gather
from spark_jobs.settings import ReportSettings
from spark_jobs.warehouse.scope import RunScope
from tests.builders.day_builder import (
    HOSTILE,
    busy_day,
    decision,
    empty_day,
    quiet_day,
    throttled,
)
from tests.builders.page_elements import PageElements, outside_references
from tests.builders.tables_builder import row, write_rows

Day = Callable[[Path], RunScope]


@pytest.fixture(scope="module", params=[busy_day, quiet_day, empty_day])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the page of a day of each kind."""
    day: Day = request.param
    return page_of(day(tmp_path_factory.mktemp("warehouse")))


@pytest.fixture(scope="module")
def quiet_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return PageElements(page_of(quiet_day(tmp_path_factory.mktemp("quiet")))).text


@pytest.fixture(scope="module")
def busy_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return PageElements(page_of(busy_day(tmp_path_factory.mktemp("busy")))).text


def page_of(scope: RunScope, **settings: int) -> str:
    return dict(
        report_pages(gather(scope), ReportSettings(**settings), scope.output_dir("reports"))
    )[REPORT_NAME]


def hostile_day(warehouse: Path) -> RunScope:
    """Write a day on which everything a stranger can name is hostile."""
    scope = busy_day(warehouse, user=HOSTILE)
    bound = row("quota_changes", quota_user=HOSTILE, source_file=HOSTILE)
    write_rows(scope, "quota_changes", [bound])
    write_rows(scope, "quarantine", [row("quarantine", text=HOSTILE, source_file=HOSTILE)])
    write_rows(scope, "files", [row("files", source_file=HOSTILE)])
    proposal = row("recommendations", quota_user=HOSTILE, reason=HOSTILE, evidence=HOSTILE)
    write_rows(scope, "recommendations", [proposal])
    return scope


def test_the_page_refers_to_nothing_outside_itself(page: str) -> None:
    assert outside_references(page) == []


def test_the_tags_of_the_page_are_balanced(page: str) -> None:
    elements = PageElements(page)
    assert (elements.open, elements.mismatched) == ([], [])


def test_every_table_has_a_caption_and_every_picture_says_what_it_shows(
    page: str,
) -> None:
    tags = PageElements(page).tags
    tables = [i for i, (tag, _) in enumerate(tags) if tag == "table"]
    assert [tags[i + 1][0] for i in tables] == ["caption"] * len(tables)
    for tag, attributes in tags:
        if tag == "svg":
            assert attributes.get("aria-label") or attributes.get("aria-hidden") == "true"


def test_every_link_leads_somewhere_and_no_id_repeats(page: str) -> None:
    elements = PageElements(page)
    ids = elements.attributes("id")
    assert len(ids) == len(set(ids))
    links = {link[1:] for link in elements.attributes("href") if link.startswith("#")}
    assert links <= set(ids)


def test_the_page_has_its_landmarks_and_says_its_language(page: str) -> None:
    tags = PageElements(page).tags
    assert ("html", {"lang": "en"}) in tags
    names = [tag for tag, _ in tags]
    assert [names.count(name) for name in ("main", "nav", "h1", "footer")] == [1, 1, 1, 1]


def test_names_of_strangers_are_text_and_their_hidden_characters_are_spelled_out(
    tmp_path: Path,
) -> None:
    page = page_of(hostile_day(tmp_path))
    elements = PageElements(page)
    assert "script" not in {tag for tag, _ in elements.tags}
    assert "\u202e" not in page
    shown = HOSTILE.replace("\u202e", "\\u202e")
    # Finding, throttle, picture, recommendation, quota, quarantine and file all name it.
    assert elements.text.count(shown) >= 7
    labels = [a["aria-label"] or "" for tag, a in elements.tags if tag == "svg" and "role" in a]
    assert len(labels) == 1
    assert shown in labels[0]


def test_tables_are_cut_and_say_the_total(tmp_path: Path) -> None:
    scope = busy_day(tmp_path, clients=30)
    text = PageElements(page_of(scope, table_rows_max=20, pictures_max=3)).text
    assert "The first 20 of 30 are shown" in text
    assert "3 of 30 with a finding or a throttle are drawn" in text
    assert "user 'tenant-29'" not in text


def test_more_findings_than_fit_are_counted(tmp_path: Path) -> None:
    scope = busy_day(tmp_path)
    write_rows(scope, "findings", [row("findings", finding_id=f"f-{n}") for n in range(8)])
    page = page_of(scope, table_rows_max=5)
    assert page.count("<article") == 5
    assert "The first 5 of 8 are shown" in PageElements(page).text


def test_a_throttled_client_is_named_with_broker_quota_and_time(busy_text: str) -> None:
    row_of_alice = busy_text[busy_text.index("Who was throttled As the") :]
    for part in ("user 'alice'", "producer_byte_rate", "50 kB/s", "120 % of the quota", "2 s"):
        assert part in row_of_alice


def test_a_finding_shows_its_sentence_and_its_evidence(busy_text: str) -> None:
    assert "Broker 1 throttled user 'alice' too little." in busy_text
    assert "decisions checked 40" in busy_text


def test_a_recommendation_shows_now_proposed_and_the_replayed_effect(busy_text: str) -> None:
    assert "50 kB/s 100 kB/s +100 % 80 kB/s to 120 kB/s 0 ms instead of 40 s high" in busy_text


def test_what_cannot_be_decided_is_counted_by_reason(tmp_path: Path) -> None:
    scope = quiet_day(tmp_path)
    undecided = {"verdict": "indeterminate", "reason": "quota_change_in_flight"}
    write_rows(scope, "decisions", [decision(0), decision(1, **undecided)])
    text = PageElements(page_of(scope)).text
    assert "1 of 2 decisions (50 %)" in text
    assert "the quota was being changed at that moment quota_change_in_flight 1 50 %" in text


def test_a_quiet_day_says_so_in_every_section(quiet_text: str) -> None:
    for sentence in (
        "Every quota was enforced as configured",
        "Findings None.",
        "Who was throttled Nobody.",
        "No change of a quota is proposed.",
        "every decision under a quota could be decided",
        "Under a quota and never throttled: 1",
    ):
        assert sentence in quiet_text


def test_a_day_of_which_nothing_is_known_is_still_a_page(tmp_path: Path) -> None:
    text = PageElements(page_of(empty_day(tmp_path))).text
    for sentence in ("No request was read.", "No file was read.", "Nothing to draw"):
        assert sentence in text


def test_lines_that_went_nowhere_are_shouted(tmp_path: Path) -> None:
    scope = quiet_day(tmp_path)
    write_rows(scope, "files", [row("files", lines_read=105)])
    assert "5 lines are unaccounted for" in PageElements(page_of(scope)).text


def test_the_same_tables_give_the_same_page(tmp_path: Path) -> None:
    scope = busy_day(tmp_path)
    assert page_of(scope) == page_of(scope)


def test_a_refused_mutation_is_drawn_and_counted(tmp_path: Path) -> None:
    scope = busy_day(tmp_path)
    mutation = {"quota_type": "controller_mutation_rate", "quota_user": "carol"}
    refused = throttled(0, 0, logged_admitted=False, rate=None, tokens=-3.0, bound=10.0, **mutation)
    write_rows(scope, "decisions", [refused])
    write_rows(scope, "rates", [row("rates", tokens=-3.0, rate=None, bound=10.0, **mutation)])
    text = PageElements(page_of(scope)).text
    assert "At the lowest −3 partitions left to spend, with a quota of 10 partitions/s." in text
    assert "1 mutation refused." in text


def test_the_page_says_how_exactly_the_replay_follows_the_log_the_worst_client_first(
    tmp_path: Path,
) -> None:
    scope = quiet_day(tmp_path)
    sensors = (("alice", 4, 4, 1), ("bob", 1000, 970, 82), ("idle", 0, 0, 0))
    rows = [
        row(
            "agreement",
            quota_user=user,
            decisions=2_000,
            throttles=throttles,
            within_1ms=within,
            residual_max_ms=farthest,
        )
        for user, throttles, within, farthest in sensors
    ]
    write_rows(scope, "agreement", rows)
    agreement = gather(scope).agreement
    assert [each.sensor.quota_user for each in agreement.sensors] == ["bob", "alice"]
    text = PageElements(page_of(scope)).text
    assert "974 of 1,004 produce throttles" in text
    assert "82 ms" in text


def test_a_day_without_throttles_has_nothing_to_compare(tmp_path: Path) -> None:
    assert (
        "nothing to compare to the millisecond" in PageElements(page_of(empty_day(tmp_path))).text
    )
