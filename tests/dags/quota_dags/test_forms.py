from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from quota_dags.forms import (
    SERVERS_PATTERN,
    VERSION_PATTERN,
    approval_fields,
    shared_fields,
    text_of,
)
from spark_jobs.settings import ApprovalSettings, DailyAuditSettings
from spark_jobs.warehouse.storage import CLUSTER_PATTERN


def test_a_field_begins_with_its_setting() -> None:
    settings = DailyAuditSettings(warehouse=Path("/wh"), cluster="east", timezone="Europe/Berlin")
    begins = {name: field["default"] for name, field in shared_fields(settings).items()}
    assert begins == {
        "cluster": "east",
        "warehouse": "/wh",
        "timezone": "Europe/Berlin",
        "broker_version": "",
    }


def test_nothing_is_changed_or_removed_unless_a_setting_says_so() -> None:
    fields = approval_fields(DailyAuditSettings(), ApprovalSettings())
    assert fields["dry_run"]["default"] is True
    assert fields["allow_delete"]["default"] is False
    assert fields["bootstrap_servers"]["default"] == fields["command_config"]["default"] == ""


def test_a_file_of_client_properties_is_found_from_wherever_a_task_runs() -> None:
    settings = ApprovalSettings(command_config=Path("admin.properties"))
    field = approval_fields(DailyAuditSettings(), settings)["command_config"]
    assert field["default"] == str(Path.cwd() / "admin.properties")


def test_the_form_takes_time_zones_that_there_are() -> None:
    zones = shared_fields(DailyAuditSettings(timezone="Europe/Berlin"))["timezone"]["enum"]
    assert {"UTC", "Europe/Berlin", "America/New_York", "Etc/GMT+3"} <= set(zones)
    assert not {"Mars/Phobos", "", "../x", "--help"} & set(zones)
    with pytest.raises(ValidationError, match="not a time zone of the IANA database"):
        DailyAuditSettings(timezone="Mars/Phobos")


def test_a_field_that_the_form_cannot_leave_empty_is_never_taken_as_empty() -> None:
    assert text_of({"cluster": "east"}, "cluster") == "east"
    for value in ("", None):
        with pytest.raises(AssertionError, match="without cluster"):
            text_of({"cluster": value}, "cluster")


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (CLUSTER_PATTERN, ["default", "east-1", "a.b_c"], ["", "../x", "a/b", ".hidden", "a b"]),
        (
            SERVERS_PATTERN,
            ["", "b:1", "b-1.example:9092,10.0.0.2:9093", "[::1]:9094"],
            ["b", "b:", "b:1,", ",b:1", "b:1 c:2", "-b:1", "b:123456", "PLAINTEXT://b:1"],
        ),
        (VERSION_PATTERN, ["", "4.1.0", "3.7", "1=3.7.2,2=4.1.0"], ["latest", "1=", "4.1.0,"]),
    ],
)
def test_the_form_takes_what_reads_like_it_and_nothing_else(
    pattern: str, good: list[str], bad: list[str]
) -> None:
    assert [value for value in good if not re.search(pattern, value)] == []
    assert [value for value in bad if re.search(pattern, value)] == []
