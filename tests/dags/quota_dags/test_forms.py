from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from quota_dags.forms import (
    VERSION_PATTERN,
    FormError,
    approval_fields,
    check_places,
    shared_fields,
    text_of,
)
from spark_jobs.cli.ending import refused_settings
from spark_jobs.settings import (
    SERVERS_PATTERN,
    ApprovalSettings,
    DailyAuditSettings,
    KafkaTarget,
)
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


@pytest.mark.parametrize(
    ("approval", "offered"),
    [
        (ApprovalSettings(), {}),
        (ApprovalSettings(dry_run=False), {"dry_run": False}),
        (ApprovalSettings(allow_delete=True), {"allow_delete": True}),
    ],
)
def test_a_form_offers_only_what_the_settings_leave_open(
    approval: ApprovalSettings, offered: dict[str, bool]
) -> None:
    fields = approval_fields(DailyAuditSettings(), approval)
    assert list(fields)[:4] == ["day", "cluster", "warehouse", "target"]
    assert {name: field["default"] for name, field in list(fields.items())[4:]} == offered


def test_targets_are_chosen_by_name_and_no_field_says_a_host_or_a_file() -> None:
    west = KafkaTarget(bootstrap_servers="w:9093", command_config=Path("admin.properties"))
    settings = ApprovalSettings(bootstrap_servers="b:9092", targets={"west": west})
    fields = approval_fields(DailyAuditSettings(cluster="west"), settings)
    assert (fields["target"]["default"], fields["target"]["enum"]) == (
        "default",
        ["default", "west"],
    )
    assert not {"b:9092", "w:9093", "admin.properties"} & {
        str(f["default"]) for f in fields.values()
    }
    # A task does not run in the folder the setting was written in.
    assert west.command_config == Path.cwd() / "admin.properties"
    only = ApprovalSettings(targets={"west": west})
    for cluster, default, names in (("west", "west", ["west"]), ("east", None, [None, "west"])):
        target = approval_fields(DailyAuditSettings(cluster=cluster), only)["target"]
        assert (target["default"], target["enum"]) == (default, names)


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ('{"default": {"bootstrap_servers": "b:1"}}', "the name of a target"),
        ('{"a b": {"bootstrap_servers": "b:1"}}', "the name of a target"),
        ('{"west": {"bootstrap_servers": ""}}', "TARGETS does not hold at west.bootstrap_servers"),
        ('{"west": {"bootstrap_servers": "b:1", "password": "hunter2"}}', "at west.password"),
    ],
)
def test_targets_that_are_none_are_refused_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, targets: str, said: str
) -> None:
    monkeypatch.setenv("QUOTA_AUDIT_KAFKA_TARGETS", targets)
    with pytest.raises(ValidationError) as caught:
        ApprovalSettings()
    told = refused_settings(caught.value)
    assert said in (told or "")
    assert "hunter2" not in f"{told} {caught.value}"


@pytest.mark.parametrize("place", ["/wh", "/wh/", "/wh/a/b", "/wh/..a", "/more/x", "s3://b/k/x"])
def test_a_place_is_one_of_the_settings_or_below(place: str) -> None:
    settings = DailyAuditSettings(warehouse=Path("/wh"), warehouses=("/more", "s3://b/k/"))
    check_places({"warehouse": place, "archive": None}, settings)
    assert re.search(shared_fields(settings)["warehouse"]["pattern"], place)


@pytest.mark.parametrize(
    "place",
    [
        *("/", "/w", "/wh2", "/wh/../etc", "/wh/a/../../etc", "/wh/.", "wh", "//wh", "/wh//a"),
        *("s3://b", "s3://b/k2", "s3://b/k/../x", "s3://b/k//x", "s3://c/k", "gs://b/k", "/wh\0"),
        *("/wh/a\nb", "s3://b/k/a\n"),
    ],
)
@pytest.mark.parametrize("field", ["archive", "warehouse"])
def test_any_other_place_is_refused(field: str, place: str) -> None:
    settings = DailyAuditSettings(
        **{field: Path("/wh"), f"{field}s": ("s3://b/k",)}  # type: ignore[arg-type]
    )
    with pytest.raises(FormError, match=rf"^The form's {field} is .* QUOTA_AUDIT_{field.upper()}S"):
        check_places({field: place}, settings)


def test_a_link_out_of_the_warehouse_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "wh").mkdir()
    (tmp_path / "wh" / "out").symlink_to(tmp_path)
    settings = DailyAuditSettings(warehouse=tmp_path / "wh", warehouses=())
    with pytest.raises(FormError):
        check_places({"warehouse": str(tmp_path / "wh" / "out" / "x")}, settings)


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
