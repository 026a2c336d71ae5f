from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

ROOT = Path(__file__).parents[2]
DAY = dt.date(2026, 11, 20)
REPORT = "/reports/east/2026-11-20/report.html"

pytestmark = [
    pytest.mark.airflow,
    # Airflow's own imports warn; this project's code is imported under "error" elsewhere.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def plugin(migrated_home: Path) -> Any:
    import quota_audit_plugin

    return quota_audit_plugin


@pytest.fixture(scope="module")
def auth_manager(plugin: Any) -> Iterator[Any]:
    from airflow.api_fastapi import app

    yield app.create_auth_manager()
    app.purge_cached_app()


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    folder = tmp_path / "warehouse"
    publish(folder, "east", DAY, {"report.html": "<h1>East</h1>", "recommendations.csv": "a,b\n"})
    publish(folder, "west", dt.date(2026, 11, 21), {"report.html": "<h1>West</h1>"})
    return folder


def publish(warehouse: Path, cluster: str, day: dt.date, files: dict[str, str]) -> Path:
    folder = warehouse / "reports" / f"cluster={cluster}" / f"date={day}"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def client_of(plugin: Any, auth_manager: Any) -> Callable[..., TestClient]:
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi.testclient import TestClient

    def client(warehouse: Path, role: str | None = None, anonymous: bool = False) -> TestClient:
        app = plugin.create_app(warehouse)
        if not anonymous:
            app.dependency_overrides[get_user] = lambda: SimpleAuthManagerUser(
                username="viv", role=role
            )
        return TestClient(app)

    return client


@pytest.mark.parametrize(
    "path",
    ["/", REPORT, "/reports/east/2026-11-20/recommendations.csv", "/explain"],
)
@pytest.mark.parametrize(
    ("who", "status"),
    [({"anonymous": True}, 401), ({"role": None}, 403), ({"role": "VIEWER"}, 200)],
    ids=["anonymous", "without a role", "viewer"],
)
def test_only_who_may_read_the_runs_sees_anything(
    client_of: Callable[..., TestClient],
    warehouse: Path,
    path: str,
    who: dict[str, Any],
    status: int,
) -> None:
    assert client_of(warehouse, **who).get(path).status_code == status


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
def test_the_routes_a_guard_would_not_reach_do_not_exist(
    client_of: Callable[..., TestClient], warehouse: Path, path: str
) -> None:
    assert client_of(warehouse, anonymous=True).get(path).status_code == 404


def test_the_list_has_the_newest_day_first_with_its_files(
    client_of: Callable[..., TestClient], warehouse: Path
) -> None:
    page = client_of(warehouse, role="VIEWER").get("/").text
    links = ["reports/west/2026-11-21/report.html", REPORT[1:], "reports/east/2026-11-20/recom"]
    places = [page.index(f'href="{link}') for link in links]
    assert places == sorted(places)


def test_a_what_if_has_its_own_column_and_is_a_page_with_or_without_a_report(
    client_of: Callable[..., TestClient], tmp_path: Path
) -> None:
    publish(tmp_path, "east", DAY, {"whatif.html": "<h1>What if</h1>"})
    client = client_of(tmp_path, role="VIEWER")
    rows = client.get("/").text.split("<tr>")
    assert re.findall(r"<th>(.*?)</th>", rows[1]) == [
        *["Day (UTC)", "Cluster", "Report", "What-if", "Files"],
    ]
    href = f"reports/east/{DAY}/whatif.html"
    cells = re.findall(r"<td>(.*?)</td>", " ".join(rows[2].split()))
    assert [cell.strip() for cell in cells] == [
        *[str(DAY), "east", "none", f'<a href="{href}">open</a>', ""],
    ]
    page = client.get(f"/{href}")
    assert page.text == "<h1>What if</h1>"
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"].startswith("sandbox ")


def test_an_empty_warehouse_says_what_to_do(
    client_of: Callable[..., TestClient], tmp_path: Path
) -> None:
    answer = client_of(tmp_path / "none", role="VIEWER").get("/")
    assert answer.status_code == 200
    assert "Trigger the DAG quota_audit_daily" in answer.text


def test_a_report_may_run_no_script_and_load_nothing(
    client_of: Callable[..., TestClient], warehouse: Path
) -> None:
    answer = client_of(warehouse, role="VIEWER").get(REPORT)
    assert answer.text == "<h1>East</h1>"
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox ")
    assert "default-src 'none'" in policy
    assert "script" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_any_other_file_is_handed_out_as_text_to_keep(
    client_of: Callable[..., TestClient], warehouse: Path
) -> None:
    answer = client_of(warehouse, role="VIEWER").get("/reports/east/2026-11-20/recommendations.csv")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["content-disposition"].startswith("attachment")


@pytest.mark.parametrize(
    "path",
    [
        "/reports/east/2026-11-20/nothing.html",
        "/reports/north/2026-11-20/report.html",
        "/reports/east/2026-11-22/report.html",
        "/reports/east/no-day/report.html",
        "/reports/east/2026-11-20/../2026-11-20/report.html/..",
        "/reports/east/2026-11-20/..%2f..%2f..%2fsecret.txt",
        "/reports/east/2026-11-20/%2e%2e",
        "/reports/..%2f..%2fx/2026-11-20/report.html",
        "/reports/east%2f..%2feast/2026-11-20/report.html",
        "/reports/east/2026-11-20/.hidden",
        "/reports/east/2026-11-20/%2fetc%2fpasswd",
        "/reports/east/2026-11-20/report.html%00.txt",
        "/reports/east/2026-11-20/report.html%0a",
    ],
)
def test_nothing_but_a_published_file_can_be_asked_for(
    client_of: Callable[..., TestClient], warehouse: Path, path: str
) -> None:
    (warehouse / "secret.txt").write_text("secret")
    (warehouse / "reports" / "cluster=east" / f"date={DAY}" / ".hidden").write_text("secret")
    answer = client_of(warehouse, role="VIEWER").get(path)
    assert answer.status_code in (404, 422)
    assert "secret" not in answer.text


@pytest.mark.parametrize("name", ["..", "../secret.txt", "/etc/passwd", "", ".", "report.html\n"])
def test_a_name_is_looked_up_not_joined(plugin: Any, warehouse: Path, name: str) -> None:
    (warehouse / "reports" / "cluster=east" / "secret.txt").write_text("secret")
    assert plugin.published_file(warehouse, "east", DAY, name) is None
    assert plugin.published_file(warehouse, "east", DAY, "report.html").is_file()


def test_a_link_out_of_the_reports_is_not_followed(
    plugin: Any, warehouse: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    folder = warehouse / "reports" / "cluster=east" / f"date={DAY}"
    (folder / "link.txt").symlink_to(secret)
    (warehouse / "reports" / "cluster=out").mkdir()
    (warehouse / "reports" / "cluster=out" / f"date={DAY}").symlink_to(tmp_path)
    assert plugin.published_file(warehouse, "east", DAY, "link.txt") is None
    assert plugin.published_file(warehouse, "out", DAY, "secret.txt") is None


def test_folders_that_no_audit_writes_are_passed_over(plugin: Any, warehouse: Path) -> None:
    for name in ("cluster=east/date=soon", "cluster=<b>/date=2026-11-20", "other/date=2026-11-20"):
        (warehouse / "reports" / name).mkdir(parents=True)
    found = [(audit.cluster, audit.day) for audit in plugin.published_audits(warehouse)]
    assert found == [("west", dt.date(2026, 11, 21)), ("east", DAY)]


def test_airflow_gets_one_page_tree_and_one_menu_item(plugin: Any) -> None:
    (app,) = plugin.QuotaAuditPlugin.fastapi_apps
    (view,) = plugin.QuotaAuditPlugin.external_views
    assert app["url_prefix"] == "/quota-audit"
    assert view["href"] == "quota-audit/"
    assert (view["destination"], view["url_route"]) == ("nav", "quota-audits")


def test_the_folder_holds_one_module_with_a_name_nobody_else_has() -> None:
    # Airflow registers every module below it under its bare name, in every process.
    modules = [path.name for path in (ROOT / "plugins").rglob("*.py")]
    assert modules == ["quota_audit_plugin.py"]
