"""Which room may import which: read from the sources, so that a wrong import fails by name."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CLOCKS_AND_CHANCE = {"time", "random", "logging", "secrets"}
HEAVY = {"pyspark", "airflow", "great_expectations", "pandas"}

# room: the rooms of this project it may import, and outside packages it must not.
ROOMS = {
    "spark_jobs/quota": (set(), HEAVY | CLOCKS_AND_CHANCE),
    "spark_jobs/align": (set(), HEAVY | CLOCKS_AND_CHANCE),
    "spark_jobs/request_log": (
        {"spark_jobs.tables", "spark_jobs.errors"},
        HEAVY | CLOCKS_AND_CHANCE,
    ),
    "spark_jobs/timeline": ({"spark_jobs.tables", "spark_jobs.errors"}, HEAVY | CLOCKS_AND_CHANCE),
    "spark_jobs/anonymize": (
        {"spark_jobs.request_log", "spark_jobs.tables", "spark_jobs.timeline"},
        HEAVY | CLOCKS_AND_CHANCE,
    ),
    "spark_jobs/judge": (set(), HEAVY | CLOCKS_AND_CHANCE),
    "spark_jobs/policy": (
        {"spark_jobs.errors", "spark_jobs.quota", "spark_jobs.timeline"},
        HEAVY | CLOCKS_AND_CHANCE,
    ),
    "spark_jobs/lab": (
        {
            "spark_jobs.errors",
            "spark_jobs.policy",
            "spark_jobs.quota",
            "spark_jobs.tables",
            "spark_jobs.timeline",
        },
        HEAVY | CLOCKS_AND_CHANCE,
    ),
    "spark_jobs/gallery": (
        {
            "spark_jobs.errors",
            "spark_jobs.lab",
            "spark_jobs.policy",
            "spark_jobs.quota",
            "spark_jobs.svg_style",
        },
        HEAVY | CLOCKS_AND_CHANCE,
    ),
    "spark_jobs/alter": (
        {"spark_jobs.tables", "spark_jobs.errors", "spark_jobs.quota"},
        HEAVY | CLOCKS_AND_CHANCE,
    ),
    # Reaches a cluster: through a JVM of its own, not Spark's.
    "spark_jobs/kafka_admin": (
        {
            "spark_jobs.alter",
            "spark_jobs.errors",
            "spark_jobs.settings",
            "spark_jobs.tables",
            "spark_jobs.timeline.java_properties",
        },
        HEAVY | CLOCKS_AND_CHANCE,
    ),
    "spark_jobs/recommend": (
        {
            "spark_jobs.tables",
            "spark_jobs.errors",
            "spark_jobs.settings",
            "spark_jobs.quota",
            "spark_jobs.alter",
        },
        HEAVY | CLOCKS_AND_CHANCE,
    ),
    "spark_jobs/explain": (
        {
            "spark_jobs.quota",
            "spark_jobs.report.human_numbers",
            "spark_jobs.report.visible_text",
            "spark_jobs.report.wording",
            "spark_jobs.tables",
        },
        HEAVY | CLOCKS_AND_CHANCE,
    ),
    # What an archive can be audited for: samples of it, as the readers of ingest see them.
    "spark_jobs/check": (
        {
            "spark_jobs.quota.partition_inventory",
            "spark_jobs.quota.quota_type",
            "spark_jobs.report.human_numbers",
            "spark_jobs.report.visible_text",
            "spark_jobs.report.wording",
            "spark_jobs.request_log",
            "spark_jobs.transforms.amounts",
            "spark_jobs.transforms.mutation_lines",
        },
        HEAVY | CLOCKS_AND_CHANCE,
    ),
    "spark_jobs/crosscheck": (
        {"spark_jobs.errors", "spark_jobs.judge", "spark_jobs.quota"},
        HEAVY | CLOCKS_AND_CHANCE,
    ),
    "spark_jobs/follow": (
        {"spark_jobs.tables", "spark_jobs.errors", "spark_jobs.judge"},
        HEAVY | CLOCKS_AND_CHANCE,
    ),
    # What is told to people, and by which channel; Airflow's notifiers are imported by their names.
    "spark_jobs/alert": ({"spark_jobs.settings"}, HEAVY | CLOCKS_AND_CHANCE | {"pyarrow"}),
    # How old is too old, and what makes older rows newer ones.
    "spark_jobs/upkeep": ({"spark_jobs.tables", "spark_jobs.errors"}, HEAVY | CLOCKS_AND_CHANCE),
    "spark_jobs/report": (
        {
            "spark_jobs.alert.message",
            "spark_jobs.tables",
            "spark_jobs.errors",
            "spark_jobs.follow",
            "spark_jobs.judge.sensor_key",
            "spark_jobs.places",
            "spark_jobs.settings",
            "spark_jobs.svg_style",
            "spark_jobs.warehouse",
            "spark_jobs.whole_file",
        },
        HEAVY | CLOCKS_AND_CHANCE,
    ),
    "spark_jobs/pages": (
        {
            "spark_jobs.tables",
            "spark_jobs.errors",
            "spark_jobs.explain.explanation",
            "spark_jobs.follow.changes",
            "spark_jobs.places",
            "spark_jobs.report",
            "spark_jobs.settings",
            "spark_jobs.warehouse",
        },
        HEAVY | CLOCKS_AND_CHANCE,
    ),
    # The log's lines are read here again; of the audit it knows the reference rate only.
    "spark_jobs/score": (
        {
            "spark_jobs.tables",
            "spark_jobs.errors",
            "spark_jobs.quota.rate",
            "spark_jobs.quota.rate_profile",
            "spark_jobs.quota.throttle_time",
            "spark_jobs.request_log.line_time",
        },
        HEAVY | CLOCKS_AND_CHANCE,
    ),
    "spark_jobs/transforms": (
        {
            "spark_jobs.tables",
            "spark_jobs.errors",
            "spark_jobs.align",
            "spark_jobs.quota",
            "spark_jobs.request_log",
            "spark_jobs.timeline",
            "spark_jobs.judge",
        },
        {"airflow", "great_expectations", "pandas"} | CLOCKS_AND_CHANCE,
    ),
    "expectations": (
        {
            "spark_jobs.arrow_places",
            "spark_jobs.places",
            "spark_jobs.tables",
            "spark_jobs.errors",
            "spark_jobs.settings",
            "spark_jobs.warehouse",
        },
        {"airflow"},
    ),
    "dags": (
        {
            "spark_jobs.alert_submit",
            "spark_jobs.lineage",
            "spark_jobs.policy.catalogue",
            "spark_jobs.recommend_submit",
            "spark_jobs.run_form",
            "spark_jobs.settings",
            "spark_jobs.submit",
            "spark_jobs.submitted_step",
            "spark_jobs.whatif_submit",
        },
        {"pyspark", "great_expectations", "pandas", "numba", "pyarrow"},
    ),
    "plugins": (
        {
            "spark_jobs.settings",
            "spark_jobs.warehouse",
            "spark_jobs.pages",
            # Inside its route: what it imports takes seconds.
            "spark_jobs.jobs.explain_page",
        },
        {"pyspark", "great_expectations", "pandas", "numba"},
    ),
}
FORBIDDEN_EVERYWHERE = ("dags", "plugins", "tests", "benchmarks", "tools")


def imports(path: Path) -> set[str]:
    """Return the modules a file imports, `from a.b import c` as a.b."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import; write it absolute"
            found.add(node.module or "")
    return found


def sources(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_the_rooms_below_it(room: str) -> None:
    allowed, banned = ROOMS[room]
    own = room.replace("/", ".")
    for path in sources(room):
        for module in sorted(imports(path)):
            where = f"{path.relative_to(ROOT)} imports {module}"
            assert module.split(".")[0] not in banned, f"{where}: {room} must not know it"
            if module.startswith(("spark_jobs", "expectations")):
                fits = is_within(module, own) or any(is_within(module, a) for a in allowed)
                assert fits, f"{where}: {room} may import {sorted(allowed) or 'no other room'}"


def test_the_search_for_record_times_needs_numpy_and_numba_only() -> None:
    fits = sys.stdlib_module_names | {"numpy", "numba"}
    for path in sources("spark_jobs/align"):
        for module in sorted(imports(path)):
            known = is_within(module, "spark_jobs.align") or module.split(".")[0] in fits
            assert known, f"{path.relative_to(ROOT)} imports {module}"


def test_nobody_imports_jobs_but_the_command_line_and_jobs() -> None:
    for path in sources("spark_jobs") + sources("expectations") + sources("dags"):
        relative = path.relative_to(ROOT).as_posix()
        if relative.startswith(("spark_jobs/jobs/", "spark_jobs/cli")):
            continue
        for module in imports(path):
            assert not is_within(module, "spark_jobs.jobs"), f"{relative} imports {module}"


def test_nobody_imports_dags_plugins_tests_or_benchmarks() -> None:
    for path in sources("spark_jobs") + sources("expectations"):
        for module in imports(path):
            assert module.split(".")[0] not in FORBIDDEN_EVERYWHERE, f"{path} imports {module}"


@pytest.mark.parametrize("package", ["spark_jobs", "spark_jobs.quota", "spark_jobs.settings"])
def test_importing_the_package_costs_no_spark(package: str) -> None:
    code = f"import sys, {package}; print('pyspark' in sys.modules or 'airflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
