from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.publish.read_facts import findings_of
from spark_jobs.warehouse.scope import RunScope
from tests.plugins.quota_pages.every_address import every_address

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "plugins"
DAY = dt.date(2026, 11, 20)
REPORT = "/reports/east/2026-11-20/report.html"
WHO = ("anonymous", "junk cookie", "user without a role", "viewer")
STATUS = dict(zip(WHO, (401, 403, 403, 200), strict=True))
CHANGING = ("POST", "PUT", "PATCH", "DELETE")

pytestmark = [
    pytest.mark.airflow,
    # Airflow's own imports warn; this project's code is imported under "error" elsewhere.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def plugin(migrated_home: Path) -> Any:
    import quota_audit_plugin

    return quota_audit_plugin


def test_airflow_imports_the_plugin_and_none_of_its_pages_under_a_name_of_their_own(
    migrated_home: Path,
) -> None:
    code = (
        "import json, sys, warnings; warnings.simplefilter('ignore');"
        "from airflow import plugins_manager as manager; manager.ensure_plugins_loaded();"
        "plugins = [one['name'] for one in manager.get_plugin_info()];"
        "files = {name: getattr(one, '__file__', None) for name, one in sys.modules.items()};"
        f"own = [name for name in files if (files[name] or '').startswith({str(PLUGINS)!r})];"
        "print(json.dumps([plugins, own, manager.get_import_errors()]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=migrated_home
    )
    plugins, modules, errors = json.loads(done.stdout.splitlines()[-1])
    assert errors == {}
    assert plugins == ["quota_audit_plugin"]
    others = [name for name in modules if not name.startswith("quota_pages")]
    assert others == ["quota_audit_plugin"]


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

    roles = {"user": "USER", "viewer": "VIEWER", "user without a role": None}

    def client(warehouse: Path, who: str = "viewer", app: Any = None) -> TestClient:
        app = app or plugin.create_app(warehouse)
        if who in roles:
            app.dependency_overrides[get_user] = lambda: SimpleAuthManagerUser(
                username="viv", role=roles[who]
            )
        cookies = {"_token": "junk"} if who == "junk cookie" else None
        return TestClient(app, cookies=cookies, follow_redirects=False)

    return client


def as_table(answers: dict[str, dict[str, int]]) -> str:
    """Return route → column → status as lines of text."""
    columns = list(next(iter(answers.values())))
    lines = [
        f"{route:<48}" + "".join(f"{row[c]:>{len(c) + 2}}" for c in columns)
        for route, row in answers.items()
    ]
    return "\n".join([f"{'':<48}" + "".join(f"  {c}" for c in columns), *lines])


def test_only_who_may_read_the_runs_gets_an_answer_from_any_route(
    client_of: Callable[..., TestClient], plugin: Any, small_day: RunScope
) -> None:
    clients = {who: client_of(small_day.warehouse, who) for who in WHO}
    addresses = every_address(plugin.create_app(small_day.warehouse), small_day)
    answers = {
        route: {who: client.get(address).status_code for who, client in clients.items()}
        for route, address in addresses.items()
    }
    print(as_table(answers))
    assert answers == dict.fromkeys(addresses, STATUS), as_table(answers)


def test_who_may_not_read_the_runs_is_told_nothing_of_the_warehouse(
    client_of: Callable[..., TestClient], plugin: Any, small_day: RunScope
) -> None:
    addresses = every_address(plugin.create_app(small_day.warehouse), small_day)
    for who in WHO[:-1]:
        client = client_of(small_day.warehouse, who)
        answers = {client.get(address).text for address in addresses.values()}
        assert answers <= {'{"detail":"Not authenticated"}', '{"detail":"Invalid JWT token"}',
                           '{"detail":"Forbidden"}'}  # fmt: skip


def test_no_route_but_one_takes_anything_that_could_change_something(
    client_of: Callable[..., TestClient], plugin: Any, small_day: RunScope
) -> None:
    client = client_of(small_day.warehouse)
    addresses = every_address(plugin.create_app(small_day.warehouse), small_day)
    headers = {"Sec-Fetch-Site": "same-origin"}
    answers = {
        route: {m: client.request(m, address, headers=headers).status_code for m in CHANGING}
        for route, address in addresses.items()
    }
    print(as_table(answers))
    expected = dict.fromkeys(addresses, dict.fromkeys(CHANGING, 405))
    # A viewer may not acknowledge.
    expected["/clusters/{cluster}/{day}/finding"] = dict.fromkeys(CHANGING, 405) | {"POST": 403}
    assert answers == expected, as_table(answers)


@pytest.mark.parametrize(
    ("who", "status"),
    [("anonymous", 401), ("user without a role", 403), ("viewer", 403), ("user", 303)],
)
def test_who_may_start_runs_may_acknowledge_a_finding(
    client_of: Callable[..., TestClient], small_day: RunScope, who: str, status: int
) -> None:
    file = small_day.warehouse / "acknowledged.yaml"
    file.unlink(missing_ok=True)
    finding = findings_of(small_day)[0]
    address = f"/clusters/{small_day.cluster}/{small_day.day}/finding?id={finding.finding_id}"
    given = {"owner": "Ada", "reason": "moves on Monday", "until": "2027-01-01"}
    client = client_of(small_day.warehouse, who)
    cross_site = client.post(address, data=given, headers={"Sec-Fetch-Site": "cross-site"})
    assert cross_site.status_code in (401, 403)
    answer = client.post(address, data=given, headers={"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == status
    assert file.exists() == (status == 303)
    if status == 303:
        assert answer.headers["location"].endswith(address)
        shown = client.get(address).text
        # Who is signed in, whatever the form says.
        assert "acknowledged until 2027-01-01 by Ada (entered by viv): moves on Monday" in shown
        assert "acknowledged_by: viv" in file.read_text()
        file.unlink()


def test_where_nothing_can_be_written_the_form_is_answered_by_a_sentence(
    client_of: Callable[..., TestClient], small_day: RunScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUOTA_AUDIT_FOLLOW_ACKNOWLEDGED", "/proc/quota-audit/known.yaml")
    finding = findings_of(small_day)[0]
    address = f"/clusters/{small_day.cluster}/{small_day.day}/finding?id={finding.finding_id}"
    given = {"owner": "Ada", "reason": "moves on Monday", "until": "2027-01-01"}
    client = client_of(small_day.warehouse, "user")
    answer = client.post(address, data=given, headers={"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == 400
    assert "Nothing is acknowledged: /proc/quota-audit/known.yaml cannot be written" in answer.text


@pytest.mark.parametrize("method", CHANGING)
@pytest.mark.parametrize(
    ("comes_from", "status"),
    [("cross-site", 403), ("same-site", 403), (None, 403), ("none", 200), ("same-origin", 200)],
)
def test_a_route_that_changes_something_would_take_it_from_these_pages_only(
    client_of: Callable[..., TestClient],
    plugin: Any,
    warehouse: Path,
    method: str,
    comes_from: str | None,
    status: int,
) -> None:
    app = plugin.create_app(warehouse)
    app.add_api_route("/change", lambda: "changed", methods=[method])
    headers = {"Sec-Fetch-Site": comes_from} if comes_from else {}
    client = client_of(warehouse, app=app)
    assert client.request(method, "/change", headers=headers).status_code == status
    anonymous = client_of(warehouse, "anonymous", plugin.create_app(warehouse))
    anonymous.app.add_api_route("/change", lambda: "changed", methods=[method])
    assert anonymous.request(method, "/change", headers=headers).status_code == 401


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json", "/nothing"])
def test_the_routes_a_guard_would_not_reach_do_not_exist(
    client_of: Callable[..., TestClient], warehouse: Path, path: str
) -> None:
    assert client_of(warehouse, "anonymous").get(path).status_code == 404


def test_a_run_leads_to_what_it_audited_and_its_checks_to_data_quality(
    client_of: Callable[..., TestClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs.publish.publish_report import publish_run
    from tests.builders.day_builder import quiet_day

    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "manual__2026-11-21T00:00:00+00:00")
    scope = quiet_day(tmp_path)
    publish_run(scope)
    client = client_of(tmp_path)
    audit = f"/clusters/{scope.cluster}/{scope.day}"
    run = {"run_id": "manual__2026-11-21T00:00:00+00:00"}

    def leads_to(**query: str) -> tuple[int, str | None]:
        answer = client.get("/", params=query)
        return answer.status_code, answer.headers.get("location")

    assert leads_to(**run) == (303, audit)
    assert leads_to(**run, task_id="publish_report") == (303, audit)
    assert leads_to(**run, task_id="validate_ingested") == (303, f"{audit}/quality")
    assert leads_to(run_id="another") == (404, None)


def test_a_report_may_run_no_script_and_load_nothing(
    client_of: Callable[..., TestClient], warehouse: Path
) -> None:
    answer = client_of(warehouse).get(REPORT)
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
    answer = client_of(warehouse).get("/reports/east/2026-11-20/recommendations.csv")
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
        "/data_docs/..%2fsecret.html",
        "/data_docs/%2e%2e/secret.html",
        "/data_docs/link.html",
        "/data_docs/%2fetc%2fpasswd",
        "/data_docs/index.html%00.html",
        "/data_docs/",
        "/static/..%2frouter.py",
        "/static/chart.js%00",
        "/clusters/..%2f..%2fx/2026-11-20",
        "/clusters/east/2026-11-20/entities/..%2f..",
    ],
)
def test_nothing_but_a_published_file_can_be_asked_for(
    client_of: Callable[..., TestClient], warehouse: Path, path: str
) -> None:
    for secret in ("secret.txt", "secret.html"):
        (warehouse / secret).write_text("secret")
    (warehouse / "data_docs").mkdir()
    (warehouse / "data_docs" / "link.html").symlink_to(warehouse / "secret.html")
    (warehouse / "reports" / "cluster=east" / f"date={DAY}" / ".hidden").write_text("secret")
    answer = client_of(warehouse).get(path)
    assert answer.status_code == 404
    assert "secret" not in answer.text.replace(path.rsplit("/", 1)[1], "")


def test_airflow_gets_one_page_tree_with_a_menu_item_and_a_tab_of_runs_and_tasks(
    plugin: Any,
) -> None:
    (app,) = plugin.QuotaAuditPlugin.fastapi_apps
    assert app["url_prefix"] == "/quota-audit"
    views = plugin.QuotaAuditPlugin.external_views
    assert {view["destination"]: view["href"] for view in views} == {
        "nav": "quota-audit/",
        "dag_run": "quota-audit/?run_id={RUN_ID}",
        "task_instance": "quota-audit/?run_id={RUN_ID}&task_id={TASK_ID}",
    }
    assert len({view["url_route"] for view in views}) == 3
    assert [view.get("category") for view in views] == ["browse", None, None]


def test_the_folder_holds_one_module_with_a_name_nobody_else_has() -> None:
    # Airflow registers every module below it under its bare name, in every process.
    # What .airflowignore names is left alone: test_pages_in_airflow asks Airflow itself.
    ignored = (ROOT / "plugins" / ".airflowignore").read_text().splitlines()
    assert "quota_pages/" in ignored
    assert [path.name for path in (ROOT / "plugins").glob("*.py")] == ["quota_audit_plugin.py"]
