from __future__ import annotations

import sys
from typing import Any

import pytest

from quota_dags.process import StepCrashedError, asset_uri, ingest_arguments, run_submitted


class FinalError(Exception):
    """Stands for Airflow's exception that forbids a retry."""


def test_the_first_line_of_the_log_is_a_command_that_a_shell_takes() -> None:
    log: list[str] = []
    command = [sys.executable, "-S", "-c", "import sys; print(sys.argv[1])", "it's $HOME"]
    assert run_submitted("step_a", "2026-11-20", command, log.append, FinalError) == "it's $HOME"
    assert log[0].startswith("step step_a of 2026-11-20 started: ")
    assert log[0].endswith("""'it'"'"'s $HOME'""")


@pytest.mark.parametrize(
    ("exit_code", "error"), [(1, FinalError), (2, FinalError), (3, StepCrashedError)]
)
def test_only_a_judgement_is_final(exit_code: int, error: type[Exception]) -> None:
    command = [sys.executable, "-S", "-c", f"print('why'); raise SystemExit({exit_code})"]
    with pytest.raises(error, match="why"):
        run_submitted("step_a", "2026-11-20", command, print, FinalError)


def test_a_version_that_has_to_be_found_out_is_not_passed() -> None:
    assert ingest_arguments("UTC", None) == ingest_arguments("UTC", "") == ["--timezone", "UTC"]
    assert ingest_arguments("UTC", "4.1.0")[2:] == ["--broker-version", "4.1.0"]


def test_an_asset_has_one_address_whatever_the_warehouse() -> None:
    assert asset_uri("reports") == "x-quota-audit://warehouse/reports"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            "print('error: old'); print('fine'); print('error: The data is bad.');"
            "print('- one rule'); print('Details: x'); sys.exit(1)",
            {"exit_code": 1, "reason": "The data is bad.\n- one rule\nDetails: x"},
        ),
        ("print('so far'); sys.exit(3)", {"exit_code": 3, "reason": "so far"}),
        ("sys.exit(3)", {"exit_code": 3, "reason": ""}),
    ],
    ids=["all that the last error says", "no error: its last line", "not a word"],
)
def test_whoever_asks_is_told_how_a_step_failed(code: str, told: dict[str, Any]) -> None:
    ended: list[dict[str, Any]] = []
    command = [sys.executable, "-S", "-c", f"import sys; {code}"]
    with pytest.raises((FinalError, StepCrashedError)):
        run_submitted("replay_quotas", "2026-11-20", command, print, FinalError, ended.append)
    assert ended == [told]


def test_a_step_that_ends_well_has_no_failure() -> None:
    ended: list[dict[str, Any]] = []
    command = [sys.executable, "-S", "-c", "print('error: none, really')"]
    run_submitted("replay_quotas", "2026-11-20", command, print, FinalError, ended.append)
    assert ended == []
