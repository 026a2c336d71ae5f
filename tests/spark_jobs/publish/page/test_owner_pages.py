from __future__ import annotations

from pathlib import Path

from spark_jobs.publish.facts.owner_facts import team_summaries
from spark_jobs.publish.page.report_page import page_name
from spark_jobs.publish.publish_report import publish_report
from spark_jobs.publish.read_facts import gather
from spark_jobs.warehouse.scope import RunScope
from tests.builders.day_builder import HOSTILE, busy_day
from tests.builders.page_elements import PageElements, outside_references

OWNERS = """owners:
  - {match: alice, part: user, team: Orders, contact: "#orders"}
  - {match: "tenant-[12]", part: user, team: Billing & Co., contact: billing@example.com}
  - {match: nobody-there, team: Idle, contact: idle@example.com}
"""


def owned_day(warehouse: Path, owners: str = OWNERS, clients: int = 5) -> RunScope:
    scope = busy_day(warehouse, clients=clients)
    (warehouse / "owners.yaml").write_text(owners, encoding="utf-8")
    return scope


def published(scope: RunScope) -> dict[str, str]:
    folder = publish_report(scope).parent
    return {path.name: path.read_text("utf-8") for path in folder.glob("*.html")}


def test_each_owner_with_clients_has_a_report_and_the_unowned_are_listed(tmp_path: Path) -> None:
    pages = published(owned_day(tmp_path))
    orders, billing = page_name("Orders"), page_name("Billing & Co.")
    assert sorted(pages) == sorted(["report.html", "owners.html", orders, billing])
    listed = PageElements(pages["owners.html"])
    assert listed.text.endswith("user 'tenant-3' user 'tenant-4'")
    assert set(listed.attributes("href")) >= {orders, billing, "report.html"}
    assert "Idle" not in listed.text


def test_a_report_of_an_owner_names_no_client_of_others(tmp_path: Path) -> None:
    pages = published(owned_day(tmp_path))
    orders, billing = pages[page_name("Orders")], pages[page_name("Billing & Co.")]
    assert "alice" in orders
    assert "tenant-" not in orders
    assert "tenant-1" in billing
    assert "tenant-2" in billing
    assert not any(name in billing for name in ("alice", "tenant-3", "tenant-4"))


def test_the_reports_of_all_owners_and_of_nobody_are_the_whole(tmp_path: Path) -> None:
    facts = gather(owned_day(tmp_path))
    parts = [summary.facts for summary in team_summaries(facts)]
    assert [part.team for part in parts] == ["Orders", "Billing & Co.", None]
    assert sum(part.verdicts.recorded for part in parts) == facts.verdicts.recorded
    assert sum((part.throttled for part in parts), ()) == facts.throttled
    assert [f for part in parts for f in part.findings] == list(facts.findings)
    assert [c for part in parts for c in part.news.changes] == list(facts.news.changes)


def test_the_report_on_all_clients_says_whose_each_is(tmp_path: Path) -> None:
    page = PageElements(published(owned_day(tmp_path))["report.html"])
    assert "user 'alice' Orders" in page.text
    assert "user 'tenant-1' Billing & Co." in page.text
    assert "owners.html" in page.attributes("href")


def test_without_a_file_of_owners_nothing_is_said_of_them(tmp_path: Path) -> None:
    pages = published(busy_day(tmp_path))
    assert list(pages) == ["report.html"]
    assert "owners.html" not in pages["report.html"]


def test_reports_of_owners_that_are_none_any_more_are_removed(tmp_path: Path) -> None:
    scope = owned_day(tmp_path)
    published(scope)
    owned_day(tmp_path, 'owners: [{match: alice, team: Alone, contact: "#a"}]')
    assert set(published(scope)) == {"report.html", "owners.html", page_name("Alone")}
    (tmp_path / "owners.yaml").unlink()
    assert set(published(scope)) == {"report.html"}


def test_names_of_teams_may_be_anything(tmp_path: Path) -> None:
    text = f"owners: [{{match: alice, team: {HOSTILE!r}, contact: {HOSTILE!r}}}]"
    text = text.replace("\\u202e", "x")
    pages = published(owned_day(tmp_path, text))
    assert len(pages) == 3
    for page in pages.values():
        found = PageElements(page)
        assert found.mismatched == []
        assert not any(tag == "script" for tag, _ in found.tags)
        left = [r for r in outside_references(page) if r not in pages]
        assert left == []


def test_two_teams_never_share_a_page() -> None:
    names = ["Orders", "orders", "ORDERS ", "???", "!!!", "ordērs", "a" * 300, "a" * 301]
    assert len({page_name(name) for name in names}) == len(names)
