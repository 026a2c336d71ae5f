"""Fixtures that more than one folder of tests needs; all of them start only when asked for."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from quota_dags.local.airflow_home import airflow_environment, prepare_home
from spark_jobs.settings import SparkSettings

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession
    from xdist.workermanage import WorkerController

    from spark_jobs.warehouse.scope import RunScope

ROOT = Path(__file__).parent.parent
# The tests that start brokers under load, and the process of pytest-xdist that runs them.
LIVE, FIRST_PROCESS = ("tests/oracle/", "tests/docs/test_own_broker.py"), "gw0"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# How long an example takes depends on the machine and what else it does, and is no rule.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

# No test depends on the day it runs on: who tries lines of the future says when now is.
os.environ["QUOTA_AUDIT_INGEST_FUTURE_DAYS_MAX"] = "36500"

# In a process of pytest-xdist the main module is no file, which pyspark takes for its doctests.
vars(sys.modules["__main__"]).setdefault("__file__", str(ROOT / "tests" / "conftest.py"))


class _FilesOneByOne(LoadScopeScheduling):
    """Keeps a file's tests in one process, and all clusters of brokers: one runs at a time.

    The first process begins with them, as they wait most of their time and take long.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return LIVE[0] if file.startswith(LIVE) else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        if LIVE[0] in self.workqueue:
            self.workqueue.move_to_end(LIVE[0], last=node.gateway.id != FIRST_PROCESS)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Hand out files in the order of their names, so that what takes longest is not last."""
    config.option.loadscopereorder = False
    return _FilesOneByOne(config, log)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two workers, two shuffle partitions: small enough to be quick, enough to lose an order."""
    from spark_jobs.spark.spark_session import spark_session
    from tests.cluster.standalone import QUICK_JVM

    spark_settings = SparkSettings(
        master="local[2]",
        driver_memory="1g",
        shuffle_partitions=2,
        driver_java_options=QUICK_JVM,
    )
    # Its last words come when pytest has closed the streams that Airflow's logging writes to.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    with spark_session("tests", spark_settings) as session:
        yield session


@pytest.fixture(scope="session")
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Point Airflow at an empty folder of this run; whatever imports Airflow asks for it first."""
    # Airflow reads these once, at import: too late would mean the developer's own Airflow.
    assert "airflow" not in sys.modules, "import airflow inside tests and fixtures, not above them"
    home = tmp_path_factory.mktemp("airflow-home")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in airflow_environment(home, ROOT).items():
            if name.startswith("AIRFLOW"):
                patch.setenv(name, value)
        # Forms of tests name places of their own.
        patch.setenv("QUOTA_AUDIT_ARCHIVES", '["/logs"]')
        patch.setenv("QUOTA_AUDIT_WAREHOUSES", json.dumps([str(tmp_path_factory.getbasetemp())]))
        yield home


@pytest.fixture(scope="session")
def migrated_home(airflow_home: Path) -> Path:
    """Return Airflow's folder with a database; a migration takes long, so one for all tests."""
    prepare_home(airflow_home, airflow_environment(airflow_home, ROOT))
    return airflow_home


@dataclass(frozen=True, slots=True)
class FakeSteps:
    """The environment in which steps are tests/builders/fake_steps.py, and what they were asked."""

    env: dict[str, str]
    journal: Path

    def calls(self) -> list[list[str]]:
        """Return the arguments of each call so far."""
        return [line for line in self._lines() if line[0] != "hanging"]

    def hanging(self) -> list[tuple[int, int]]:
        """Return, for each step that hung, its process id and its child's."""
        return [(line[1], line[2]) for line in self._lines() if line[0] == "hanging"]

    def _lines(self) -> list[Any]:
        # A line that is being written has no end yet.
        text = self.journal.read_text() if self.journal.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]


@pytest.fixture(scope="session")
def fake_steps_in() -> Callable[[Path], FakeSteps]:
    """Return a function that makes fake steps whose journal is in a folder."""
    program = ROOT / "tests" / "builders" / "fake_steps.py"
    launcher = json.dumps([sys.executable, "-S", str(program)])

    def fake_steps(folder: Path) -> FakeSteps:
        journal = folder / "journal.jsonl"
        env = {"QUOTA_AUDIT_LAUNCHER": launcher, "FAKE_STEPS_JOURNAL": str(journal)}
        return FakeSteps(env, journal)

    return fake_steps


@pytest.fixture
def fake_steps(fake_steps_in: Callable[[Path], FakeSteps], tmp_path: Path) -> FakeSteps:
    return fake_steps_in(tmp_path)


@pytest.fixture(autouse=True)
def _own_airflow(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("airflow"):
        request.getfixturevalue("airflow_home")


@pytest.fixture(scope="session")
def small_day(tmp_path_factory: pytest.TempPathFactory) -> RunScope:
    """Return the busy day of a small published warehouse, which tests only read."""
    from tests.builders.published_day import small_warehouse

    return small_warehouse(tmp_path_factory.mktemp("small") / "warehouse")


@pytest.fixture(scope="session")
def example_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the warehouse of the audited example, one for all processes, which tests only read."""
    from tests.builders.example_audit import audited_example

    own = tmp_path_factory.getbasetemp()
    return audited_example(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for a module: while Playwright runs, no other test's event loop can."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
        found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
        if found is None and not Path(own).exists():
            pytest.skip(
                f"no Chromium: none of {', '.join(CHROMIUM)} is on PATH, nor is {own} there. "
                "Get one: apt-get install chromium, or .venv/bin/playwright install chromium"
            )
        # The sandbox needs rights that a container does not have; the pages are this machine's.
        with playwright.chromium.launch(executable_path=found, args=["--no-sandbox"]) as chromium:
            yield chromium
