from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from quota_pages.addresses import Addresses
from quota_pages.entities_page import entities_of
from spark_jobs.publish.read_facts import findings_of
from spark_jobs.warehouse.scope import RunScope
from tests.plugins.quota_pages.every_address import client_of, every_address, pages_app
from tests.plugins.quota_pages.hostile_day import NAMES, hostile_day
from tests.plugins.quota_pages.page_markup import foreign_markup, unseen

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

BYTES_MAX = 1_000_000
FINDING = "/clusters/{cluster}/{day}/finding"
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@pytest.fixture(scope="module")
def scope(tmp_path_factory: pytest.TempPathFactory) -> RunScope:
    return hostile_day(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def client(scope: RunScope) -> TestClient:
    return client_of(pages_app(scope.warehouse))


def addresses_of(scope: RunScope) -> list[str]:
    """Return every route once, and the page and CSV of every client and finding."""
    to = Addresses("")
    entities = [
        to.entity(scope.cluster, scope.day, one.quota_user, one.quota_client_id)
        for one in entities_of(scope)
    ]
    return [
        *every_address(pages_app(scope.warehouse), scope).values(),
        *entities,
        *(address.replace("/entities/", "/history/") + ".csv" for address in entities),
        *(to.finding(scope.cluster, scope.day, f.finding_id) for f in findings_of(scope)),
        to.file(scope.cluster, scope.day, "whatif.html"),
    ]


def test_names_of_strangers_are_text_on_every_page_and_no_page_grows_with_them(
    client: TestClient, scope: RunScope
) -> None:
    addresses = addresses_of(scope)
    assert len(addresses) > 3 * len(NAMES)
    wrong = {}
    for address in addresses:
        answer = client.get(address)
        is_page = answer.headers["content-type"].startswith("text/html")
        found = {
            "status": [] if answer.status_code == 200 else [answer.status_code],
            "markup": foreign_markup(answer.text) if is_page else [],
            "unseen": unseen(answer.text.replace("\r\n", "\n") if not is_page else answer.text),
            "bytes": [] if len(answer.content) < BYTES_MAX else [len(answer.content)],
        }
        if any(found.values()):
            wrong[address] = {what: those for what, those in found.items() if those}
    assert wrong == {}


@pytest.mark.parametrize("name", NAMES[:6])
def test_what_is_looked_for_is_shown_again_as_text(
    client: TestClient, scope: RunScope, name: str
) -> None:
    audit = Addresses("").audit(scope.cluster, scope.day)
    entity = Addresses("").entity(scope.cluster, scope.day, name, name)
    asked = quote(name, safe="")
    for address in (
        f"{audit}/entities?q={asked}&quota_type={asked}&page={asked}",
        f"{audit}/recommendations?q={asked}&page={asked}",
        f"{entity}?quota_type={asked}",
        f"{entity}?from={asked}",
        f"{entity}?broker={asked}",
        f"{audit}/finding?id={asked}",
        f"/explain?user={asked}&day={scope.day}&at=12:00:05",
        f"/explain?client_id={asked}&cluster={asked}",
        f"/explain?line={asked}:1&day={asked}",
        f"/?run_id={asked}&task_id={asked}",
    ):
        answer = client.get(address)
        assert answer.status_code in (200, 400, 404), address
        assert foreign_markup(answer.text) == [], address


@pytest.mark.parametrize(
    "query",
    [
        "from=0001-01-01T00:00:00Z",
        "until=9999-12-31T23:59:59Z",
        "from=0001-01-01&until=9999-12-31",
        "from=9999-12-31T23:59:59.999999-23:59",
        "from=2026-11-10T12:00:00Z&until=2026-11-10T11:00:00Z",
        "broker=999999999",
        "broker=-1",
        "broker=%D9%A1",
        "from=%ED%A0%80",
        "from=2026-11-10T12:00:00",
        "quota_type=",
    ],
)
@pytest.mark.parametrize("of", ["entities", "history"])
def test_any_range_is_an_answer_or_a_sentence(
    client: TestClient, scope: RunScope, query: str, of: str
) -> None:
    address = Addresses("").entity(scope.cluster, scope.day, NAMES[0], NAMES[0])
    if of == "history":
        address = address.replace("/entities/", "/history/") + ".csv"
    answer = client.get(f"{address}?{query}")
    assert answer.status_code in (200, 400)
    assert len(answer.content) < BYTES_MAX


@pytest.mark.parametrize("page", ["0", "-1", "99999999999999999999", "1e3", "²", "٣", "9" * 5000])
def test_any_number_of_a_page_is_an_answer(client: TestClient, scope: RunScope, page: str) -> None:
    audit = Addresses("").audit(scope.cluster, scope.day)
    for of in ("entities", "recommendations"):
        assert client.get(f"{audit}/{of}", params={"page": page}).status_code == 200


@pytest.mark.parametrize("broker", ["²", "٣", "9" * 5000, "99999999999"])
def test_any_broker_to_explain_is_an_answer_or_a_sentence(client: TestClient, broker: str) -> None:
    answer = client.get("/explain", params={"user": NAMES[0], "broker": broker})
    assert answer.status_code in (200, 400)


@pytest.mark.parametrize(
    "part", ["x" * 5000, "x/" * 2500, "é" * 3000, "\u202e", "2026-11-10" + "0" * 5000, "a" * 300]
)
def test_an_address_of_what_cannot_be_is_of_no_page(
    client: TestClient, scope: RunScope, part: str
) -> None:
    addresses = every_address(pages_app(scope.warehouse), scope)
    tried = 0
    for route, address in addresses.items():
        path, *query = address.split("?")
        parts = path.split("/")
        for place, template in enumerate(route.split("/")):
            if "{" not in template:
                continue
            end = ".csv" if template.endswith(".csv") else ""
            other = "/".join([*parts[:place], quote(part) + end, *parts[place + 1 :]])
            answer = client.get("?".join([other, *query]))
            assert answer.status_code == 404, (route, place)
            assert part not in answer.text
            tried += 1
    assert tried > 20
    assert client.get(addresses[FINDING].split("?")[0], params={"id": part}).status_code == 404


def test_no_cell_of_a_csv_is_a_formula(client: TestClient, scope: RunScope) -> None:
    files = [
        client.get(Addresses("").file(scope.cluster, scope.day, "recommendations.csv")).text,
        *(client.get(address).text for address in addresses_of(scope) if ".csv" in address),
    ]
    assert len(files) > len(NAMES)
    cells = [c for text in files for line in csv.reader(io.StringIO(text)) for c in line]
    assert [c for c in cells if c.startswith(FORMULA) and not is_number(c)] == []


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_evidence_with_half_a_character_is_shown_without_it(
    client: TestClient, scope: RunScope
) -> None:
    finding = findings_of(scope)[0]
    address = Addresses("").finding(scope.cluster, scope.day, finding.finding_id)
    assert client.get(address).status_code == 200


def test_files_of_an_audit_are_named_as_text(tmp_path: Path) -> None:
    scope = hostile_day(tmp_path)
    folder = scope.output_dir("reports")
    for name in ("<script>alert(1)<.html", "a'b.txt", "x\u202ey.txt", "ok.txt"):
        (folder / name.replace("/", "")).write_text("x")
    page = client_of(pages_app(tmp_path)).get(Addresses("").audit(scope.cluster, scope.day)).text
    assert foreign_markup(page) == []
    assert "ok.txt" in page
    assert "alert" not in page.split('id="files"')[1]
