from __future__ import annotations

import datetime as dt
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_jobs.cli.app import app
from spark_jobs.cli.daily import news
from spark_jobs.errors import BadInputError
from spark_jobs.publish.acknowledge import acknowledge_finding
from spark_jobs.publish.follow.kept_files import read_acknowledgements
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.storage import storage_path
from tests.builders.followed_days import CLUSTER, DAYS, day_of, scope_of, write_days
from tests.builders.tables_builder import row, write_rows

FILE = "acknowledged.yaml"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    write_days(tmp_path)
    (tmp_path / FILE).unlink()
    return tmp_path


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments, "--cluster", CLUSTER], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def acknowledged(warehouse: Path, finding: str, place_of_day: int = DAYS - 1, **more: str) -> str:
    given = {"owner": "Ada", "reason": "moves", "until": day_of(DAYS + 5)} | more
    scope = scope_of(warehouse, place_of_day)
    return acknowledge_finding(scope, finding, **given)  # type: ignore[arg-type]


def test_news_are_of_the_last_audited_day_unless_told_otherwise(warehouse: Path) -> None:
    last = printed("news", "--warehouse", str(warehouse))
    assert last.startswith(f"Kafka quotas, {CLUSTER} on {day_of(DAYS - 1)}: ")
    first = printed("news", "--warehouse", str(warehouse), "--day", str(day_of(0)))
    assert first.startswith(f"Kafka quotas, {CLUSTER} on {day_of(0)}: 4 new (1 critical)\n")


def test_news_of_each_owner_name_the_unowned_clients_last(warehouse: Path) -> None:
    every = printed("news", "--warehouse", str(warehouse), "--by-owner")
    heads = [line for line in every.splitlines() if line.endswith(str(day_of(DAYS - 1)))]
    assert [head.partition(",")[0] for head in heads] == [
        "Orders (#orders)", "clients without an owner",
    ]  # fmt: skip
    orders = printed("news", "--warehouse", str(warehouse), "--owner", "Orders")
    assert orders == every[: len(orders)]


@pytest.mark.parametrize(
    ("day", "owner", "said"),
    [
        (dt.datetime(2020, 1, 1), None, "2020-01-01 of cluster 'prod' was not audited"),
        (None, "Nobody", "No owner has the name 'Nobody'. Known are: Orders."),
    ],
)
def test_a_day_or_an_owner_that_is_not_known_is_named(
    warehouse: Path, day: dt.datetime | None, owner: str | None, said: str
) -> None:
    with pytest.raises(BadInputError) as caught:
        news(warehouse, CLUSTER, day, owner)
    assert said in str(caught.value)


def test_news_as_json_are_one_line_and_tell_of_a_file_that_cannot_be_read(warehouse: Path) -> None:
    (warehouse / FILE).write_text("acknowledged: no list\n")
    (line,) = printed("news", "--warehouse", str(warehouse), "--json").splitlines()
    told = json.loads(line)
    assert told["day"] == str(day_of(DAYS - 1))
    assert [FILE in error for error in told["errors"]] == [True]


def test_news_as_json_are_of_all_owners(warehouse: Path) -> None:
    with pytest.raises(BadInputError, match="--json tells of all owners' clients: leave out"):
        news(warehouse, CLUSTER, owner="Orders", as_json=True)


def test_a_warehouse_without_an_audit_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="holds no audited day of cluster 'prod'"):
        news(tmp_path, CLUSTER)


def test_what_is_acknowledged_is_known_on_the_next_days(warehouse: Path) -> None:
    said = printed(
        "acknowledge", "same-under", "--warehouse", str(warehouse), "--day", str(day_of(3)),
        "--owner", "Ada", "--reason", "moves on Monday", "--days", "4",
    )  # fmt: skip
    assert said.startswith(f"acknowledged until {day_of(7)}: producer_byte_rate throttled too")
    where = ("news", "--warehouse", str(warehouse), "--day")
    news = [printed(*where, str(day_of(n))) for n in (2, 3, 7, 8)]
    assert ["until 2026-11-17 by Ada: moves on Monday" in one for one in news] == [
        False, True, True, False,
    ]  # fmt: skip


def test_until_when_is_said_once() -> None:
    for more in ([], ["--until", "2027-01-01", "--days", "3"]):
        arguments = ["acknowledge", "f", "-w", "w", "--owner", "A", "--reason", "r", *more]
        result = CliRunner().invoke(app, arguments)
        assert isinstance(result.exception, BadInputError)
        assert "either --until YYYY-MM-DD or --days N" in str(result.exception)


@pytest.mark.parametrize(
    ("finding", "more", "said"),
    [
        ("nothing", {}, "has no finding 'nothing'"),
        ("mended", {}, "has no finding 'mended'"),
        ("gro", {}, "has no finding 'gro'"),
        ("same", {"owner": " "}, "--owner is empty"),
        ("same", {"reason": ""}, "--reason is empty"),
        ("same", {"until": day_of(1)}, "is before 2026-11-19, the day of the finding"),
    ],
)
def test_what_cannot_be_acknowledged_is_named_and_nothing_written(
    warehouse: Path, finding: str, more: dict[str, str], said: str
) -> None:
    with pytest.raises(BadInputError) as caught:
        acknowledged(warehouse, finding, **more)
    assert said in str(caught.value)
    assert not (warehouse / FILE).exists()


def test_a_beginning_of_several_ids_names_them(warehouse: Path) -> None:
    rows = [row("findings", finding_id=f"abcd{n}", quota_user=str(n)) for n in (1, 2)]
    write_rows(scope_of(warehouse, DAYS - 1), "findings", rows)
    with pytest.raises(BadInputError, match=r"beginning of several: abcd1 .*; abcd2 "):
        acknowledged(warehouse, "abcd")


def test_the_file_may_be_kept_elsewhere(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "repository" / "known.yaml"
    monkeypatch.setenv("QUOTA_AUDIT_FOLLOW_ACKNOWLEDGED", str(elsewhere))
    acknowledged(warehouse, "same")
    assert len(read_acknowledgements(elsewhere.read_text("utf-8"), "known.yaml")) == 1
    assert not (warehouse / FILE).exists()


def test_an_acknowledgement_has_an_end_that_a_setting_bounds(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUOTA_AUDIT_FOLLOW_ACKNOWLEDGED_DAYS_MAX", "2")
    with pytest.raises(BadInputError, match=r"of 2026-11-10 can be acknowledged up to 2026-11-12"):
        acknowledged(warehouse, "same", 0, until=day_of(3))
    acknowledged(warehouse, "same", 0, until=day_of(2))
    file = warehouse / FILE
    file.write_text(file.read_text().replace(str(day_of(2)), "9999-12-31"))
    where = ("news", "--warehouse", str(warehouse), "--day")
    known = [
        "acknowledged until 2026-11-12 by Ada" in printed(*where, str(day_of(n))) for n in (2, 3)
    ]
    assert known == [True, False]


@pytest.mark.parametrize("file", ["/proc/quota-audit/known.yaml", "a-file/known.yaml", ""])
def test_a_folder_that_cannot_be_written_is_told(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    (warehouse / "a-file").write_text("")
    monkeypatch.setenv("QUOTA_AUDIT_FOLLOW_ACKNOWLEDGED", str(warehouse / file))
    with pytest.raises(BadInputError, match=r"cannot be|is no regular file") as caught:
        acknowledged(warehouse, "same")
    assert str(warehouse / file) in str(caught.value)


def test_two_who_acknowledge_at_once_are_both_kept(warehouse: Path) -> None:
    findings = ["same", "growing"] * 6
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda finding: acknowledged(warehouse, finding), findings))
    entries = read_acknowledgements((warehouse / FILE).read_text("utf-8"), FILE)
    assert len(entries) == len(findings)


def test_a_file_in_a_bucket_is_not_written() -> None:
    from spark_jobs.publish.acknowledge import _add

    with pytest.raises(BadInputError, match="two writers could undo each other"):
        _add(storage_path("s3://bucket/acknowledged.yaml"), None)  # type: ignore[arg-type]


def test_a_cluster_has_its_own_problems(warehouse: Path) -> None:
    other = RunScope(warehouse, "other", day_of(0))
    write_rows(other, "findings", [row("findings", finding_id="same-x", quota_user="same")])
    acknowledged(warehouse, "same")
    said = CliRunner().invoke(app, ["news", "-w", str(warehouse), "--cluster", "other"]).output
    assert said.startswith("Kafka quotas, other on 2026-11-10: 1 new")
