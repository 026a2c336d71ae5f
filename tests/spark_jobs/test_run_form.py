from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_jobs.run_form import (
    CLUSTER_PATTERN,
    TIMEZONE_PATTERN,
    VERSION_PATTERN,
    shared_fields,
    text_of,
)
from spark_jobs.settings import DailyAuditSettings


def test_a_field_begins_with_its_setting() -> None:
    settings = DailyAuditSettings(warehouse=Path("/wh"), cluster="east", timezone="Europe/Berlin")
    begins = {name: field["default"] for name, field in shared_fields(settings).items()}
    assert begins == {
        "cluster": "east",
        "warehouse": "/wh",
        "timezone": "Europe/Berlin",
        "broker_version": "",
    }


def test_a_field_that_the_form_cannot_leave_empty_is_never_taken_as_empty() -> None:
    assert text_of({"cluster": "east"}, "cluster") == "east"
    for value in ("", None):
        with pytest.raises(AssertionError, match="without cluster"):
            text_of({"cluster": value}, "cluster")


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (CLUSTER_PATTERN, ["default", "east-1", "a.b_c"], ["", "../x", "a/b", ".hidden", "a b"]),
        (TIMEZONE_PATTERN, ["UTC", "America/New_York", "Etc/GMT+3"], ["", "../x", "--help"]),
        (VERSION_PATTERN, ["", "4.1.0", "3.7", "1=3.7.2,2=4.1.0"], ["latest", "1=", "4.1.0,"]),
    ],
)
def test_the_form_takes_what_reads_like_it_and_nothing_else(
    pattern: str, good: list[str], bad: list[str]
) -> None:
    assert [value for value in good if not re.search(pattern, value)] == []
    assert [value for value in bad if re.search(pattern, value)] == []
