from __future__ import annotations

from pathlib import Path

import pytest

from quota_pages.addresses import entity_id
from spark_jobs.publish.publish_report import publish_report
from spark_jobs.warehouse.scope import RunScope
from tests.builders.page_elements import PageElements
from tests.builders.published_day import small_warehouse
from tests.plugins.quota_pages.every_address import client_of, every_address, pages_app
from tests.plugins.quota_pages.page_checks import HOSTILE

OWNERS = "owners: [{match: alice, part: user, team: Orders, contact: '#orders'}]"


@pytest.fixture
def scope(tmp_path: Path) -> RunScope:
    scope = small_warehouse(tmp_path)
    own(scope, OWNERS)
    return scope


def own(scope: RunScope, text: str) -> None:
    (scope.warehouse / "owners.yaml").write_text(text, encoding="utf-8")
    publish_report(scope)


def shown(scope: RunScope, address: str) -> str:
    found = client_of(pages_app(scope.warehouse)).get(address)
    assert found.status_code == 200, found.text
    return PageElements(found.text).text


def of_day(scope: RunScope) -> str:
    return f"/clusters/{scope.cluster}/{scope.day}"


def test_every_page_that_names_a_client_says_whose_it_is(scope: RunScope) -> None:
    day = of_day(scope)
    for address in (day, f"{day}/entities", f"{day}/recommendations"):
        assert "user 'alice' Orders" in shown(scope, address), address
    assert "Owner: Orders" in shown(scope, f"{day}/entities/{entity_id('alice', '')}")
    assert "Owner:" not in shown(scope, f"{day}/entities/{entity_id('bob', '')}")


def test_clients_are_found_by_their_owner(scope: RunScope) -> None:
    found = shown(scope, f"{of_day(scope)}/entities?q=ORDER")
    assert "user 'alice'" in found
    assert "user 'bob'" not in found


def test_the_reports_of_owners_are_reached_from_the_day_and_from_all_days(scope: RunScope) -> None:
    client = client_of(pages_app(scope.warehouse))
    address = f"/reports/{scope.cluster}/{scope.day}/owners.html"
    for page in ("/", of_day(scope)):
        assert address in PageElements(client.get(page).text).attributes("href")
    listed = client.get(address)
    (name,) = [h for h in PageElements(listed.text).attributes("href") if h.startswith("owner-")]
    assert "clients of Orders" in client.get(address.replace("owners.html", name)).text


def test_the_first_page_says_what_is_new(scope: RunScope) -> None:
    assert "1 warning 1 new" in shown(scope, "/").replace("1 critical", "1 warning")


def test_owners_may_be_named_anything_and_a_broken_file_hides_no_page(scope: RunScope) -> None:
    for text in (OWNERS.replace("Orders", repr(HOSTILE.replace("\u202e", ""))), "owners: 7"):
        own(scope, text)
        app = pages_app(scope.warehouse)
        for address in every_address(app, scope).values():
            answer = client_of(app).get(address)
            assert answer.status_code < 400, address
            assert "<script>alert" not in answer.text, address
