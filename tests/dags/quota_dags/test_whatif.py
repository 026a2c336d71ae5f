from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer.main

from quota_dags.process import StepCrashedError, TaskTerms
from quota_dags.whatif import (
    AS_LOGGED,
    MODES,
    ScenarioFile,
    WhatifRun,
    run_whatif,
    scenario_path,
    whatif_arguments,
    whatif_of_run,
)
from spark_jobs.cli import app as cli
from spark_jobs.settings import DailyAuditSettings

RUN_ID = "manual__2026-11-21T09:00:00.5+00:00"
SCENARIO = '[[policy]]\nname = "kip13"\nlabel = "größer"\r\n'
FORM: dict[str, Any] = {
    "policies": ["kip13"],
    "scenario": None,
    "mode": "as_logged",
    "day": None,
    "cluster": "east",
    "warehouse": "/wh",
    "archive": None,
    "timezone": "Europe/Berlin",
    "broker_version": "4.1.0",
}
ASKED = WhatifRun(
    warehouse="/wh",
    cluster="east",
    day=None,
    archive=None,
    timezone="Europe/Berlin",
    broker_version="4.1.0",
    policies=("kip13",),
    scenario=None,
    mode="as_logged",
)
SCOPE = ["--warehouse", "/wh", "--cluster", "east"]
INGEST = ["--timezone", "Europe/Berlin", "--broker-version", "4.1.0"]


class FinalError(Exception):
    """Stands for Airflow's exception that forbids a retry."""


def terms(code: str, log: Callable[[str], None] = print) -> TaskTerms:
    return TaskTerms(log, FinalError, FinalError, (sys.executable, "-S", "-c", code))


def asked_in(warehouse: Path, **form: Any) -> WhatifRun:
    archive = form.get("archive") or "/logs"
    settings = DailyAuditSettings(warehouse=warehouse, archive=Path(archive))
    form = {**FORM, "warehouse": str(warehouse), **form}
    return whatif_of_run(form, RUN_ID, settings, terms("raise AssertionError"))


def test_what_is_replayed_is_what_the_form_says() -> None:
    assert asked_in(Path("/wh")) == ASKED
    everything = {
        **{"day": "2026-11-20", "archive": "/logs", "mode": "both", "scenario": SCENARIO},
        **{"policies": ["kip13", "kip599_rate"]},
    }
    assert asked_in(Path("/wh"), **everything) == replace(
        ASKED,
        day=dt.date(2026, 11, 20),
        archive="/logs",
        mode="both",
        policies=("kip13", "kip599_rate"),
        scenario=ScenarioFile(scenario_path(Path("/wh"), RUN_ID, SCENARIO), SCENARIO),
    )


@pytest.mark.parametrize(
    ("field", "empty"),
    [("day", ""), ("archive", ""), ("scenario", " \n"), ("broker_version", ""), ("policies", [])],
)
def test_an_emptied_field_is_as_good_as_none(field: str, empty: object) -> None:
    none = None if field != "policies" else ()
    assert getattr(asked_in(Path("/wh"), **{field: empty}), field) == none


@pytest.mark.parametrize(
    ("asked", "arguments"),
    [
        (ASKED, [*SCOPE, "--policy", "kip13"]),
        (
            replace(ASKED, policies=("kip13", "kip599_rate")),
            [*SCOPE, "--policy", "kip13", "--policy", "kip599_rate"],
        ),
        (
            replace(ASKED, day=dt.date(2026, 11, 20)),
            [*SCOPE, "--day", "2026-11-20", "--policy", "kip13"],
        ),
        (replace(ASKED, archive="/logs"), ["/logs", *INGEST, *SCOPE, "--policy", "kip13"]),
        (
            replace(ASKED, archive="/logs", broker_version=None),
            ["/logs", *INGEST[:2], *SCOPE, "--policy", "kip13"],
        ),
        (
            replace(ASKED, policies=(), scenario=ScenarioFile(Path("/wh/scenarios/a.toml"), "")),
            [*SCOPE, "--scenario", "/wh/scenarios/a.toml"],
        ),
        (replace(ASKED, mode="both"), [*SCOPE, "--policy", "kip13", "--mode", "both"]),
    ],
    ids=["one", "several", "one day", "an archive", "no version", "a scenario", "another mode"],
)
def test_the_command_says_what_the_form_says(asked: WhatifRun, arguments: list[str]) -> None:
    assert whatif_arguments(asked) == ["whatif", *arguments]


def test_the_command_line_understands_the_command(tmp_path: Path) -> None:
    asked = asked_in(
        tmp_path, archive=str(tmp_path), scenario=SCENARIO, day="2026-11-20", mode="both"
    )
    name, *arguments = whatif_arguments(asked)
    command = typer.main.get_command(cli.app).commands[name]
    params = command.make_context(name, arguments).params
    assert (params["archive"], params["warehouse"]) == (tmp_path, tmp_path)
    assert asked.scenario
    assert params["scenario"] == asked.scenario.path
    assert params["policy"] == ["kip13"]
    assert params["mode"] == "both"
    assert params["day"].date() == asked.day
    assert (params["cluster"], params["timezone"]) == ("east", "Europe/Berlin")
    assert params["broker_version"] == "4.1.0"


def test_every_mode_has_a_name_that_a_person_understands() -> None:
    assert list(MODES) == ["as_logged", "closed_loop", "both"]
    assert AS_LOGGED in MODES
    assert all(" " in name for name in MODES.values())


@pytest.mark.parametrize("run_id", [RUN_ID, "../../etc/x", "a b/c\nd", ".", "~", "x" * 250])
def test_the_scenario_s_file_has_a_safe_name_that_shows_the_run(run_id: str) -> None:
    path = scenario_path(Path("/wh"), run_id, SCENARIO)
    assert path.parent == Path("/wh/scenarios")
    assert path.suffix == ".toml"
    assert set(path.stem) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
    assert len(path.name) < 120


def test_another_attempt_finds_its_own_scenario_and_no_other_run_s() -> None:
    def path(run_id: str, text: str) -> Path:
        return scenario_path(Path("/wh"), run_id, text)

    assert path(RUN_ID, SCENARIO) == path(RUN_ID, SCENARIO)
    assert path(RUN_ID, SCENARIO) != path("manual__2026-11-22T09:00:00.5+00:00", SCENARIO)
    # The ids differ in what no file name may have, so only the text tells the runs apart.
    assert path("a:b", SCENARIO) != path("a+b", SCENARIO + "#")


def test_the_scenario_is_kept_as_it_was_typed_before_the_command_runs(tmp_path: Path) -> None:
    asked = asked_in(tmp_path, scenario=SCENARIO)
    assert asked.scenario
    code = "import sys; print(ascii(open(sys.argv[-3], newline='').read()))"
    log: list[str] = []
    assert run_whatif(asked, terms(code, log.append)) == ascii(SCENARIO)
    assert asked.scenario.path.read_bytes() == SCENARIO.encode()
    assert str(asked.scenario.path) in log[0]
    # Again, as after a crash: the same file, and no draft of it left.
    run_whatif(asked, terms(code, log.append))
    assert list(asked.scenario.path.parent.iterdir()) == [asked.scenario.path]


def test_the_log_begins_with_the_command_and_has_nothing_of_the_scenario(tmp_path: Path) -> None:
    asked = asked_in(tmp_path, scenario=SCENARIO, day="2026-11-20")
    log: list[str] = []
    assert run_whatif(asked, terms("print('done')", log.append)) == "done"
    assert log[0].startswith("step replay_policies of 2026-11-20 started: ")
    assert log[0].endswith(" ".join(whatif_arguments(asked)))
    assert "größer" not in "".join(log)


@pytest.mark.parametrize("scenario", [None, "", "\n  \n"])
def test_a_form_with_nothing_to_replay_is_refused_with_what_to_do(
    tmp_path: Path, scenario: str | None
) -> None:
    asked = asked_in(tmp_path, policies=None, scenario=scenario)
    with pytest.raises(FinalError, match=r"names neither policies nor a scenario: choose one"):
        run_whatif(asked, terms("raise AssertionError"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        ("kip13, please", "The form's scenario: this is no TOML: .*line 1"),
        ("policy = " + "[" * 5000, "nested too deep"),
        ("policy = 1" + "0" * 9000, "this is no TOML"),
        ("#" * 32_001, "has 32,001 characters: expected 32,000 at most"),
        (f"[[policy]]\nname = '{'x' * 20_000}'", "no policy is called"),
        ('[[policy]]\nname = "kip599_rate"', "there is no policy 'kip13' in it"),
        ("# \ud800", "has what is no character"),
    ],
)
def test_a_scenario_that_is_none_is_refused_before_anything_is_written(
    tmp_path: Path, scenario: str, said: str
) -> None:
    asked = asked_in(tmp_path, scenario=scenario)
    with pytest.raises(FinalError, match=said) as refused:
        run_whatif(asked, terms("raise AssertionError"))
    assert len(str(refused.value)) <= 1100
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("field", ["warehouse", "archive"])
def test_a_place_that_the_settings_do_not_allow_is_refused(tmp_path: Path, field: str) -> None:
    places = {"warehouse": tmp_path / "wh", "archive": tmp_path / "logs"}
    settings = DailyAuditSettings(**places, archives=(), warehouses=())
    form = {**FORM, "warehouse": str(tmp_path / "wh"), field: str(tmp_path)}
    with pytest.raises(FinalError, match=rf"^The form's {field} is "):
        whatif_of_run(form, RUN_ID, settings, terms("raise AssertionError"))


@pytest.mark.parametrize("exit_code", [1, 2])
def test_bad_data_and_bad_input_are_final(tmp_path: Path, exit_code: int) -> None:
    code = f"import sys; print('no such key'); sys.exit({exit_code})"
    with pytest.raises(FinalError, match=r"^no such key$"):
        run_whatif(asked_in(tmp_path), terms(code))


def test_a_crash_may_be_tried_again(tmp_path: Path) -> None:
    code = "import os; os.kill(os.getpid(), 9)"
    with pytest.raises(StepCrashedError, match="replay_policies ended with signal 9"):
        run_whatif(asked_in(tmp_path), terms(code))
