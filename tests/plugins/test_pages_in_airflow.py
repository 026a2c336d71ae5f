"""The pages as a person meets them: in Airflow's own UI, in a real Chromium, after a real login.

The steps of the run are stand-ins over a warehouse that is there already; its last one, which
publishes, is the real one.
"""

from __future__ import annotations

import configparser
import csv
import io
import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.airflow_server import AUDIT_URL, RECOMMEND_URL, AirflowServer, airflow_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FrameLocator, Page

    from spark_jobs.warehouse.scope import RunScope
    from tests.conftest import FakeSteps

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.browser,
    # Of Airflow's own secret, which is as long as Airflow makes it.
    pytest.mark.filterwarnings("ignore:The HMAC key is"),
]

PAGES = "/quota-audit/"
DRAWN = "[data-drawn]"
SLOW_MS = 120_000
"""Airflow's pages took more than half a minute on a machine with three times its cores to do."""


@pytest.fixture(scope="module")
def scope(tmp_path_factory: pytest.TempPathFactory) -> RunScope:
    from tests.builders.published_day import small_warehouse

    return small_warehouse(tmp_path_factory.mktemp("pages") / "warehouse")


@pytest.fixture(scope="module")
def home(migrated_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an Airflow of its own, which makes no runs but those that it is asked for."""
    own = tmp_path_factory.mktemp("pages-home") / "airflow"
    shutil.copytree(migrated_home, own)
    config = own / "airflow.cfg"
    text = re.sub(
        r"(?m)^#? ?use_job_schedule *=.*$", "use_job_schedule = False", config.read_text()
    )
    assert "\nuse_job_schedule = False\n" in text
    config.write_text(text)
    return own


@pytest.fixture(scope="module")
def server(
    home: Path, scope: RunScope, fake_steps_in: Callable[[Path], FakeSteps]
) -> Iterator[AirflowServer]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    env = {
        **{name: value for name, value in os.environ.items() if "SERVE" not in name},
        **fake_steps_in(scope.warehouse.parent).env,
        "FAKE_STEPS_REAL": json.dumps(["publish"]),
        "QUOTA_AUDIT_WAREHOUSE": str(scope.warehouse),
        "QUOTA_AUDIT_CLUSTER": scope.cluster,
        "QUOTA_AUDIT_KAFKA_BOOTSTRAP_SERVERS": "broker-1:9092",
    }
    with airflow_server(home, port, env) as server:
        server.until_dags_are_known()
        yield server


class Watched:
    """A page of a browser, the hosts that it asked, and what pages of this project complained."""

    def __init__(self, browser: Browser, origin: str) -> None:
        context = browser.new_context(viewport={"width": 1400, "height": 1000}, base_url=origin)
        context.set_default_timeout(SLOW_MS)
        self.page: Page = context.new_page()
        self.foreign: list[str] = []
        self.complaints: list[str] = []
        context.on("request", lambda request: self._asked(request.url, origin))
        self.page.on("console", self._said)
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))

    def _asked(self, url: str, origin: str) -> None:
        if not url.startswith((origin, "data:", "blob:")):
            self.foreign.append(url)

    def _said(self, message: Any) -> None:
        # Airflow's own pages may say what they like, and what Chromium says is of Airflow's frame.
        is_of_pages = PAGES in message.location.get("url", "")
        is_of_frame = message.text.startswith("An iframe which has both allow-scripts")
        if (is_of_pages and not is_of_frame) or "Content Security" in message.text:
            self.complaints.append(message.text)


@pytest.fixture(scope="module")
def watched(browser: Browser, server: AirflowServer) -> Iterator[Watched]:
    """Return a browser that has logged in by the form."""
    watched = Watched(browser, f"http://127.0.0.1:{server.port}")
    page = watched.page
    page.goto("/")
    page.locator("input[name=username]").fill("admin")
    password = json.loads((server.home / "passwords.json").read_text())["admin"]
    page.locator("input[name=password]").fill(password)
    page.locator("button[type=submit]").click()
    page.get_by_role("link", name="Dags").first.wait_for()
    yield watched
    page.context.close()


@pytest.fixture(scope="module")
def run_id(watched: Watched, server: AirflowServer, scope: RunScope) -> str:
    """Trigger the audit of the day from the form, and return its run when it has ended well."""
    page = watched.page
    # The home is a copy of one in which tests may have run the DAG before.
    before = runs_of_the_audit(server)
    page.goto("/dags/quota_audit_daily")
    page.get_by_role("button", name="Trigger").first.click()
    dialog = page.get_by_role("dialog")
    dialog.locator("[name=element_day]").fill(str(scope.day))
    dialog.get_by_role("button", name="Trigger").last.click()
    dialog.wait_for(state="hidden")
    (run,) = server.until(lambda: runs_of_the_audit(server) - before, "run")
    server.until(lambda: ended(server, run), "end of the run")
    return run


def runs_of_the_audit(server: AirflowServer) -> set[str]:
    runs = server.call("GET", f"{AUDIT_URL}/dagRuns")["dag_runs"]
    return {str(run["dag_run_id"]) for run in runs}


def ended(server: AirflowServer, run_id: str) -> bool:
    run = server.call("GET", f"{AUDIT_URL}/dagRuns/{run_id}")
    assert run["state"] != "failed"
    return bool(run["state"] == "success")


def frame(page: Page, title: str) -> FrameLocator:
    return page.frame_locator(f"iframe[title='{title}']")


def test_a_person_goes_from_the_menu_to_why_one_request_was_throttled(
    watched: Watched, run_id: str, scope: RunScope
) -> None:
    page = watched.page
    page.goto("/")
    page.get_by_role("button", name="Browse").click()
    page.get_by_role("menuitem", name="Quota audits").click()
    pages = frame(page, "Quota audits")
    pages.get_by_role("heading", level=1, name="Quota audits").wait_for()
    pages.locator("[data-drawn=days]").wait_for()
    pages.locator(f"#{scope.cluster} + table, section:has(#{scope.cluster}) table").get_by_role(
        "link", name=str(scope.day)
    ).click()
    pages.get_by_role("heading", level=1, name=f"{scope.cluster}, {scope.day}").wait_for()
    with page.expect_download() as csv_file:
        pages.get_by_role("link", name="recommendations.csv").click()
    assert Path(csv_file.value.path()).read_text().startswith('"quota_type"')
    pages.get_by_role("link", name="user 'alice'").click()
    pages.locator("[data-drawn=history]").wait_for()
    pages.get_by_role("button", name="Zoom in").click()
    zoomed = pages.locator("[data-from][value='2026-11-10T12:00:30.000Z']")
    zoomed.wait_for()
    pages.locator(DRAWN).wait_for()
    with page.expect_download() as csv_file:
        pages.get_by_role("link", name="These steps as CSV").click()
    lines = list(csv.DictReader(io.StringIO(Path(csv_file.value.path()).read_text())))
    assert lines[0]["start"] == "2026-11-10T12:00:30.000Z"
    pages.get_by_role("link", name=re.compile("^explain the PRODUCE")).first.click()
    pages.get_by_text("It was throttled for").wait_for()
    pages.get_by_role("link", name="Audit", exact=True).click()
    pages.get_by_role("link", name="Report", exact=True).click()
    pages.get_by_role("heading", level=1).first.wait_for()
    assert watched.complaints == []
    assert watched.foreign == []


def test_a_run_and_its_checks_have_a_tab_with_what_they_found(
    watched: Watched, run_id: str, scope: RunScope
) -> None:
    page = watched.page
    page.goto(f"/dags/quota_audit_daily/runs/{run_id}")
    page.get_by_role("link", name="Quota audit", exact=True).click()
    heading = frame(page, "Quota audit").get_by_role("heading", level=1)
    heading.get_by_text(f"{scope.cluster}, {scope.day}").wait_for()
    page.goto(f"/dags/quota_audit_daily/runs/{run_id}/tasks/validate_ingested")
    page.get_by_role("link", name="Quota audit", exact=True).click()
    frame(page, "Quota audit").locator("main").wait_for()
    inside = next(f for f in page.frames if PAGES in f.url)
    assert inside.url.endswith(f"/clusters/{scope.cluster}/{scope.day}/quality")
    assert watched.complaints == []
    assert watched.foreign == []


def test_the_same_address_answers_by_who_asks(
    watched: Watched, browser: Browser, server: AirflowServer, run_id: str, scope: RunScope
) -> None:
    origin = f"http://127.0.0.1:{server.port}"
    audit = f"{origin}{PAGES}clusters/{scope.cluster}/{scope.day}"
    answers = {}
    tokens = {"admin": server_token(server), "viewer": token_of(server, "VIEWER"),
              "no role": token_of(server, None), "anonymous": None}  # fmt: skip
    for who, token in tokens.items():
        context = browser.new_context()
        if token:
            context.add_cookies([{"name": "_token", "value": token, "url": origin}])
        page = context.new_page()
        answer = page.goto(audit)
        assert answer is not None
        answers[who] = answer.status
        assert (str(scope.day) in page.content()) == (answer.status == 200)
        context.close()
    assert answers == {"admin": 200, "viewer": 200, "no role": 403, "anonymous": 401}


def server_token(server: AirflowServer) -> str:
    return str(server.api.headers["Authorization"]).removeprefix("Bearer ")


def token_of(server: AirflowServer, role: str | None) -> str:
    """Return a login of a user that ``make serve`` does not have, signed as Airflow signs."""
    import jwt

    config = configparser.RawConfigParser()
    config.read(server.home / "airflow.cfg")
    own = jwt.decode(server_token(server), options={"verify_signature": False})
    header = jwt.get_unverified_header(server_token(server))
    claims = own | {"sub": "viv", "role": role, "jti": f"viv-{role}"}
    secret = config["api_auth"]["jwt_secret"]
    return jwt.encode(claims, secret, algorithm=header["alg"], headers=header)


def test_the_page_of_a_question_brings_its_plan_back(
    watched: Watched, server: AirflowServer, scope: RunScope
) -> None:
    page = watched.page
    run_url = f"{RECOMMEND_URL}/dagRuns/{server.trigger(RECOMMEND_URL, day=str(scope.day))}"
    server.question(run_url)
    run = run_url.rpartition("/")[2]
    page.goto(f"/dags/quota_recommend/runs/{run}/tasks/approve/required_actions")
    chosen = page.get_by_role("combobox", name="Select one or multiple values")
    chosen.fill("all")
    chosen.press("Enter")
    page.get_by_role("button", name="Respond").click()
    server.until_task(run_url, "apply_changes", "success")
