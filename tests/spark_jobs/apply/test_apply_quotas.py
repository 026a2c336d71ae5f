"""The commands apply and rollback on a model cluster: what is done, shown and recorded."""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.apply import apply_quotas as change_quotas
from spark_jobs.apply.applied_changes import read_applications
from spark_jobs.apply.changes.quota_admin import ACCEPTED
from spark_jobs.apply.changes.quota_alteration import QuotaKey
from spark_jobs.cli import app as cli
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.settings import KafkaAdminSettings
from tests.builders.tables_builder import row, scope_in, write_rows
from tests.spark_jobs.apply.changes.model_cluster import LOST, WRONG_VALUE, ModelCluster

TYPE = "producer_byte_rate"
ALICE: QuotaKey = (TYPE, "alice", None)
BOB: QuotaKey = (TYPE, "bob", "etl")
CLIENTS: QuotaKey = ("consumer_byte_rate", None, DEFAULT)
BEFORE = {ALICE: 1000.0, CLIENTS: 500.0}
AFTER = {ALICE: 4000.0, BOB: 2000.0, CLIENTS: 250.0}
HOST = "broker-1:9092"


def proposal(key: QuotaKey, previous: float | None, proposed: float | None, **others: Any) -> Any:
    quota_type, user, client_id = key
    names = {"quota_type": quota_type, "quota_user": user, "quota_client_id": client_id}
    return row("recommendations", **names, previous=previous, proposed=proposed, **others)


PROPOSALS = [
    *(proposal(key, BEFORE.get(key), value) for key, value in AFTER.items()),
    proposal((TYPE, "dave", None), 7.0, None, status="keep"),
]


@pytest.fixture
def cluster() -> ModelCluster:
    return ModelCluster(dict(BEFORE))


@pytest.fixture
def warehouse(tmp_path: Path, cluster: ModelCluster, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a warehouse with proposals; commands in it meet ``cluster``."""

    @contextmanager
    def open_admin(
        servers: str, command_config: Path | None, settings: KafkaAdminSettings
    ) -> Iterator[ModelCluster]:
        assert servers == HOST
        yield cluster

    monkeypatch.setattr(change_quotas, "kafka_quota_admin", open_admin)
    monkeypatch.setenv("QUOTA_AUDIT_KAFKA_READ_BACK_MS", "0")
    write_rows(scope_in(tmp_path), "recommendations", PROPOSALS)
    return tmp_path


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Return a function that runs a command line; it returns exit code, output and errors."""

    def run(name: str, *options: str, server: str = HOST) -> tuple[int, str, str]:
        fixed = ["--warehouse", str(warehouse), "--bootstrap-server", server]
        monkeypatch.setattr(sys, "argv", ["quota-audit", name, *fixed, *options])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        said = capsys.readouterr()
        return int(caught.value.code or 0), said.out, said.err

    return run


def recorded(warehouse: Path) -> list[dict[str, Any]]:
    """Return every recorded change, as it was recorded."""
    return [dict(r) for a in read_applications(warehouse, "default") for r in a.rows]


def outcomes(warehouse: Path) -> list[str]:
    return [change["outcome"] for change in recorded(warehouse)]


def test_without_execute_nothing_is_changed_recorded_or_created(
    command: Command, cluster: ModelCluster, warehouse: Path
) -> None:
    code, out, _ = command("apply")
    assert code == 0
    assert out.startswith("apply, dry run: nothing is changed without --execute\n")
    assert re.search(r"users/bob/clients/etl:producer_byte_rate +none +2000 +none +apply", out)
    assert out.splitlines()[-1] == "3 apply"
    assert (cluster.held, cluster.writes) == (BEFORE, [])
    assert not (warehouse / "applied_changes").exists()


def test_executed_the_values_are_set_and_recorded(
    command: Command, cluster: ModelCluster, warehouse: Path
) -> None:
    code, out, _ = command(
        *("apply", "--execute", "--by", "carol", "--asked-by", "dave", "--note", "ticket 7"),
        *("--plan", "0123"),
    )
    assert code == 0
    assert cluster.held == AFTER
    first, second, third = recorded(warehouse)
    assert re.match(r"^\d{8}T\d{6}Z-[0-9a-f]{8}$", first["application_id"])
    assert f"executed as {first['application_id']}" in out
    expected = {
        "action": "apply",
        "takes_back": None,
        "outcome": "applied",
        "value_before": 1000.0,
        "value_after": 4000.0,
        "value_read_back": 4000.0,
        "applied_by": "carol",
        "asked_by": "dave",
        "plan": "0123",
        "note": "ticket 7",
        "bootstrap_servers": HOST,
        "kafka_cluster_id": "the-cluster",
        "evidence_day": "2026-11-10",
        "throttle_time_ms_before": 40_000,
        "throttle_time_ms_after": 0,
        "reason": PROPOSALS[0]["reason"],
    }
    assert first.items() >= expected.items()
    assert first["started_ms"] <= first["ended_ms"]
    assert (second["value_before"], second["value_after"]) == (None, 2000.0)
    assert third["quota_client_id"] == DEFAULT


def test_a_host_given_by_hand_is_sent_no_credentials_of_a_setting(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUOTA_AUDIT_KAFKA_BOOTSTRAP_SERVERS", "production:9093")
    monkeypatch.setenv("QUOTA_AUDIT_KAFKA_COMMAND_CONFIG", "/etc/kafka/admin.properties")
    opened: list[Any] = []
    open_admin = change_quotas.kafka_quota_admin

    def open_noted(servers: str, command_config: Path | None, settings: KafkaAdminSettings) -> Any:
        opened.append((servers, command_config))
        return open_admin(servers, command_config, settings)

    monkeypatch.setattr(change_quotas, "kafka_quota_admin", open_noted)
    for name in ("apply", "rollback"):
        command(name, "--execute")
    assert opened == [(HOST, None)] * 2


def test_executed_again_it_is_already_so(command: Command, cluster: ModelCluster) -> None:
    command("apply", "--execute")
    code, out, _ = command("apply", "--execute")
    assert (code, out.splitlines()[-1]) == (0, "3 already so")
    assert len(cluster.writes) == 1


def test_only_what_is_chosen_is_applied(command: Command, cluster: ModelCluster) -> None:
    code, _, _ = command("apply", "--execute", "--only", "users/alice", "--only",
                         "users/bob/clients/etl:producer_byte_rate")  # fmt: skip
    assert code == 0
    assert cluster.held == {ALICE: 4000.0, BOB: 2000.0, CLIENTS: 500.0}


def test_what_was_chosen_with_its_values_is_applied_while_they_are_proposed(
    command: Command, cluster: ModelCluster
) -> None:
    code, _, err = command("apply", "--execute", "--only", "users/alice:producer_byte_rate:1000:5")
    assert (code, cluster.held) == (2, BEFORE)
    assert (
        "proposed is users/alice:producer_byte_rate:1000:4000 by now, and chosen was users" in err
    )
    exactly = "users/bob/clients/etl:producer_byte_rate:none:2000"
    assert command("apply", "--execute", "--only", exactly)[0] == 0
    assert cluster.held == BEFORE | {BOB: 2000.0}


def test_what_is_not_proposed_cannot_be_chosen(command: Command, cluster: ModelCluster) -> None:
    code, _, err = command("apply", "--execute", "--only", "users/alice", "--only", "users/dave")
    assert code == 2
    assert "Nothing is proposed for users/dave" in err
    assert cluster.held == BEFORE


@pytest.mark.parametrize("options", [(), ("--execute",)])
def test_a_value_that_was_changed_since_refuses_everything(
    command: Command, cluster: ModelCluster, warehouse: Path, options: tuple[str, ...]
) -> None:
    cluster.held[CLIENTS] = 499.0
    code, out, err = command("apply", *options)
    assert code == 2
    assert "refused: nothing was changed" in out
    assert "Nothing was changed: 1 of 3 changes cannot be made." in err
    assert "clients/<default>:consumer_byte_rate: the cluster has 499, and 500 was expected" in err
    assert cluster.writes == []
    assert outcomes(warehouse) == []


@pytest.mark.parametrize("options", [(), ("--execute",)])
def test_a_value_that_the_cluster_rejects_refuses_everything(
    command: Command, cluster: ModelCluster, warehouse: Path, options: tuple[str, ...]
) -> None:
    proposals = [*PROPOSALS, proposal((TYPE, "eve", None), None, -1.0)]
    write_rows(scope_in(warehouse), "recommendations", proposals)
    code, _, err = command("apply", *options)
    assert code == 2
    assert "users/eve:producer_byte_rate: Quota must be greater than 0" in err
    assert (cluster.held, outcomes(warehouse)) == (BEFORE, [])


def test_nothing_is_deleted_unless_that_is_allowed(
    command: Command, cluster: ModelCluster, warehouse: Path
) -> None:
    proposals = [*PROPOSALS, proposal((TYPE, "eve", None), 9.0, None, kind="reclaim")]
    write_rows(scope_in(warehouse), "recommendations", proposals)
    eve = {(TYPE, "eve", None): 9.0}
    cluster.held |= eve
    code, _, err = command("apply", "--execute")
    assert code == 2
    assert (
        "users/eve:producer_byte_rate: deletes the entity's value: allow it with --allow-d" in err
    )
    assert cluster.held == BEFORE | eve
    assert command("apply", "--execute", "--allow-delete")[0] == 0
    assert cluster.held == AFTER
    assert command("rollback", "--execute")[0] == 0
    assert cluster.held == BEFORE | eve


def test_a_failure_half_way_is_told_and_recorded_change_by_change(
    command: Command, cluster: ModelCluster, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one(monkeypatch)
    cluster.fails = {BOB[1:]: WRONG_VALUE}
    code, out, err = command("apply", "--execute")
    assert code == 1
    assert outcomes(warehouse) == ["applied", "failed", "not_reached"]
    assert out.splitlines()[-1] == "1 applied, 1 failed, 1 not reached"
    assert re.search(r"users/bob.* none +2000 +none +failed +Quota must be greater than 0", out)
    assert "2 of 3 changes were not made, or nobody knows" in err
    assert cluster.held == BEFORE | {ALICE: 4000.0}
    cluster.fails = {}
    code, out, _ = command("apply", "--execute")
    assert (code, out.splitlines()[-1]) == (0, "1 already so, 2 applied")
    for _ in range(2):
        assert command("rollback", "--execute")[0] == 0
    assert cluster.held == BEFORE


def test_a_lost_answer_is_unknown_until_it_is_run_again(
    command: Command, cluster: ModelCluster, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one(monkeypatch)
    cluster.fails = {ALICE[1:]: LOST}
    assert command("apply", "--execute")[0] == 1
    assert outcomes(warehouse) == ["unknown", "not_reached", "not_reached"]
    cluster.fails[ALICE[1:]] = ACCEPTED
    assert command("apply", "--execute")[0] == 0
    assert cluster.held == AFTER


def test_a_run_that_is_cut_off_leaves_what_it_meant_to_do(
    command: Command, cluster: ModelCluster, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(change_quotas, "carry_out", cut_off_after_first(cluster))
        assert command("apply", "--execute")[0] == 130
    assert outcomes(warehouse) == ["intended"] * 3
    (application,) = read_applications(warehouse, "default")
    _, out, _ = command("apply")
    assert f"{application.application_id} was cut off: nobody knows which" in out
    code, out, _ = command("rollback", "--execute")
    assert (code, out.splitlines()[-1]) == (0, "2 already so, 1 applied")
    assert cluster.held == BEFORE
    assert "was cut off" not in command("apply")[1]


def test_a_rollback_restores_what_was_and_deletes_what_was_created(
    command: Command, cluster: ModelCluster, warehouse: Path
) -> None:
    command("apply", "--execute")
    _, out, _ = command("rollback")
    assert re.search(r"users/bob/clients/etl:producer_byte_rate +2000 +none +2000 +apply", out)
    assert cluster.held == AFTER
    code, _, _ = command("rollback", "--execute")
    assert (code, cluster.held) == (0, BEFORE)
    applied, rolled_back = read_applications(warehouse, "default")
    assert rolled_back.common("takes_back") == applied.application_id
    assert rolled_back.common("throttle_time_ms_before") is None
    assert command("rollback", "--execute")[0] == 2
    code, out, _ = command("rollback", "--execute", "--change", applied.application_id)
    assert (code, out.splitlines()[-1]) == (0, "3 already so")


@pytest.mark.parametrize("only", [(), ("--only", "users/alice")], ids=["all", "a part"])
def test_what_was_taken_back_is_not_applied_again_by_the_same_approval(
    command: Command, cluster: ModelCluster, warehouse: Path, only: tuple[str, ...]
) -> None:
    """The task that applies was cleared after a rollback."""
    plan = ("--execute", "--plan", "0123")
    assert command("apply", *plan, *only)[0] == 0
    # Until then it may go on where it was ended.
    assert command("apply", *plan)[0] == 0
    (first, *_) = read_applications(warehouse, "default")
    assert command("rollback", "--execute", "--change", first.application_id)[0] == 0
    held = dict(cluster.held)
    code, _, err = command("apply", *plan)
    assert (code, cluster.held) == (2, held)
    assert f"{first.application_id} applied what was approved of the plan 0123, and " in err
    assert "start a new run of quota_recommend" in err
    # Another approval, and a person at the command line, may.
    assert command("apply", "--execute", "--plan", "4567")[0] == 0


def test_a_rollback_of_a_value_that_was_changed_since_is_refused(
    command: Command, cluster: ModelCluster
) -> None:
    command("apply", "--execute")
    cluster.held[ALICE] = 5000.0
    code, _, err = command("rollback", "--execute")
    assert code == 2
    assert "the cluster has 5000, and 4000 was expected" in err
    assert cluster.held == AFTER | {ALICE: 5000.0}


def test_a_rollback_on_another_cluster_is_refused(command: Command, cluster: ModelCluster) -> None:
    command("apply", "--execute")
    cluster.cluster_id = "another-cluster"
    code, _, err = command("rollback", "--execute")
    assert code == 2
    assert f"{HOST} is the Kafka cluster another-cluster, and " in err
    assert "was applied to the-cluster" in err
    assert cluster.held == AFTER


def test_nothing_to_apply_says_so(command: Command, warehouse: Path) -> None:
    assert (
        "for 2026-11-09; the days there are: 2026-11-10"
        in command("apply", "--day", "2026-11-09")[2]
    )
    write_rows(
        replace(scope_in(warehouse), day=dt.date(2026, 11, 9)),
        "recommendations",
        [row("recommendations", status="keep", proposed=None)],
    )
    assert "nothing to apply" in command("apply", "--day", "2026-11-09")[2]
    assert "holds no recommendations" in command("apply", "--cluster", "other")[2]
    assert "of 0 recorded applications" in command("rollback")[2]
    assert [command("apply", "--cluster", "other")[0], command("rollback")[0]] == [2, 2]


def test_a_broker_that_is_down_is_told_of(command: Command, cluster: ModelCluster) -> None:
    cluster.down_broker_ids = (2,)
    _, out, _ = command("apply")
    assert "\nbroker 2 is down: it takes the values when it comes back\n" in out


def test_as_json_it_is_one_object_also_when_it_is_refused(
    command: Command, cluster: ModelCluster
) -> None:
    planned = json.loads(command("apply", "--json")[1])
    assert (planned["executed"], planned["outcomes"]) == (False, {"apply": 3})
    done = json.loads(command("apply", "--json", "--execute")[1])
    assert (done["executed"], done["outcomes"]) == (True, {"applied": 3})
    assert done["changes"][1] == {
        "change": "users/bob/clients/etl:producer_byte_rate",
        "quota_type": TYPE,
        "user": "bob",
        "client_id": "etl",
        "before": None,
        "after": 2000.0,
        "cluster_has": 2000.0,
        "outcome": "applied",
        "message": None,
        "reason": PROPOSALS[1]["reason"],
    }
    cluster.held[ALICE] = 1.0
    refused = json.loads(command("rollback", "--json", "--execute")[1])
    assert refused["takes_back"] == done["application_id"]
    assert refused["refused"].startswith("Nothing was changed: 1 of 3")
    assert refused["outcomes"] == {"apply": 2, "drift": 1}


def test_what_a_cluster_says_cannot_steer_the_terminal(
    command: Command, cluster: ModelCluster
) -> None:
    cluster.fails = {ALICE[1:]: LOST.__class__(LOST.kind, "\x1b[2Jgone\r")}
    _, out, _ = command("apply", "--execute")
    assert "\\x1b[2Jgone\\r" in out


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each entity have a request of its own."""
    carry_out = change_quotas.carry_out
    monkeypatch.setattr(change_quotas, "carry_out", lambda *a: carry_out(*a, entities_max=1))


def cut_off_after_first(cluster: ModelCluster) -> Callable[..., Any]:
    """Return what makes one change and is then interrupted."""

    def carry_out(plan: Any, *_: Any) -> None:
        cluster.alter([plan[0].alteration], validate_only=False)
        raise KeyboardInterrupt

    return carry_out
