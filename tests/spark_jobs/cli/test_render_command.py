"""``quota-audit render``: what goes where, and how it ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from spark_jobs.apply.changes.quota_alteration import QuotaValue
from spark_jobs.cli import app as cli
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.recommend.weigh.configured_values import values_in_cluster
from spark_jobs.warehouse.scope import RunScope
from tests.builders.tables_builder import NOON_MS, Row, row, scope_in, write_rows


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Render = Callable[..., Ended]


def proposal(user: str | None = "alice", client_id: str | None = None, **columns: object) -> Row:
    return row("recommendations", quota_user=user, quota_client_id=client_id, **columns)


@pytest.fixture
def scope(tmp_path: Path) -> RunScope:
    scope = scope_in(tmp_path)
    kept = proposal("carol", status="keep", proposed=None)
    proposals = [proposal(), proposal("bob", "etl", previous=None), kept]
    write_rows(scope, "recommendations", proposals)
    write_rows(scope, "quota_changes", [row("quota_changes")])
    return scope


@pytest.fixture
def render(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Render:
    def command(scope: RunScope, target: str, *options: str) -> Ended:
        where = ["--target", target, "--warehouse", str(scope.warehouse)]
        monkeypatch.setattr(sys, "argv", ["quota-audit", "render", *where, *options])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        return Ended(int(caught.value.code or 0), *capsys.readouterr())

    return command


def test_the_text_goes_to_standard_output_and_refusals_to_standard_error(
    render: Render, scope: RunScope
) -> None:
    ended = render(scope, "strimzi")
    assert ended.code == 0
    assert "producerByteRate: 100000" in ended.out
    (line,) = ended.err.splitlines()
    assert line.startswith("refused: producer_byte_rate of user 'bob', client-id 'etl': ")


def test_the_rollback_takes_its_place(render: Render, scope: RunScope) -> None:
    entries = json.loads(render(scope, "admin-json", "--rollback").out)["entries"]
    assert [entry["ops"][0]["remove"] for entry in entries] == [True, False]


def test_where_everything_is_refused_nothing_is_printed(render: Render, scope: RunScope) -> None:
    ended = render(scope, "kip13")
    assert (ended.code, ended.out) == (2, "")
    *refusals, error = ended.err.splitlines()
    assert len(refusals) == 2
    assert error.startswith("error: --target kip13 can express none of the 2 proposals")


def test_a_day_without_proposals_renders_what_changes_nothing(
    render: Render, scope: RunScope
) -> None:
    write_rows(scope, "recommendations", [proposal("carol", status="keep", proposed=None)])
    ended = render(scope, "rpk")
    assert (ended.code, ended.err) == (0, "")
    assert "No change is proposed." in ended.out
    (quota,) = yaml.safe_load(ended.out)["quotas"]
    assert quota["values"] == [{"key": "producer_byte_rate", "value": "50000"}]


def test_the_newest_day_is_meant_unless_one_is_named(render: Render, scope: RunScope) -> None:
    newer = replace(scope, day=scope.day + timedelta(days=1))
    write_rows(newer, "recommendations", [proposal("dora")])
    assert "--entity-name dora" in render(scope, "kafka-configs").out
    assert "--entity-name alice" in render(scope, "kafka-configs", "--day", str(scope.day)).out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--day", "2020-01-01"),
            "of the cluster 'default' for 2020-01-01; the days there are: 2026-11-10",
        ),
        (("--cluster", "other"), "of the cluster 'other'; the days there are: none"),
    ],
)
def test_a_day_that_is_not_there_is_bad_input(
    render: Render, scope: RunScope, options: tuple[str, ...], words: str
) -> None:
    ended = render(scope, "strimzi", *options)
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err


def test_an_unknown_target_is_bad_input(render: Render, scope: RunScope) -> None:
    ended = render(scope, "helm")
    assert (ended.code, ended.out) == (2, "")
    assert "'helm' is not one of kafka-configs, admin-json" in ended.err


def test_in_force_is_what_is_set_in_the_cluster_at_the_end_of_the_day() -> None:
    changes = [
        row("quota_changes", quota_user="gone", valid_until_ms=NOON_MS),
        row("quota_changes", quota_user="later", valid_from_ms=NOON_MS + 1),
        row("quota_changes", quota_user=None, quota_client_id=DEFAULT, source="snapshot"),
        # A broker's file, read later than the cluster's value was set, does not replace that.
        row("quota_changes", quota_user=None, quota_client_id=DEFAULT, source="static",
            bound=1.0, valid_from_ms=NOON_MS),
        row("quota_changes", quota_client_id="etl", source="static"),
    ]  # fmt: skip
    assert values_in_cluster(changes, NOON_MS) == [
        QuotaValue("producer_byte_rate", None, DEFAULT, 50_000.0)
    ]
