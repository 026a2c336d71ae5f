"""Quotas of real brokers applied, read back and taken back by the command line."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from spark_jobs.apply.applied_changes import read_applications
from spark_jobs.apply.changes.quota_admin import AnswerKind
from spark_jobs.apply.changes.quota_alteration import QuotaAlteration, QuotaKey
from spark_jobs.apply.kafka_jvm import VERSION
from spark_jobs.apply.kafka_quota_admin import KafkaQuotaAdmin, kafka_quota_admin
from spark_jobs.cli import app as cli
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.settings import KafkaAdminSettings
from tests.builders.tables_builder import row, scope_in, write_rows
from tests.oracle.broker_files import PASSWORD
from tests.oracle.cluster_plan import COMBINED, ZOOKEEPER
from tests.oracle.jars import maven_jar
from tests.oracle.kafka_configs import described_quotas
from tests.oracle.lab import RunningCluster, plan_cluster, running_cluster
from tests.oracle.scenario import Cluster

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in ("mvn", "java")),
        reason="mvn or java is not on PATH: no Kafka broker can be started",
    ),
]

# Whoever authenticates may do nothing but what an ACL allows, and there are no ACLs.
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:lab",
}
CLUSTERS = {
    "4.1.0": Cluster(at_ms=0, layout=COMBINED, settings=AUTHORIZED),
    "2.8.2": Cluster(at_ms=0, layout=ZOOKEEPER, settings={}),
}

PRODUCE, CONSUME = "producer_byte_rate", "consumer_byte_rate"
REQUESTS, MUTATIONS = "request_percentage", "controller_mutation_rate"
BEFORE: dict[QuotaKey, float] = {
    (PRODUCE, "alice", None): 1_000_000.0,
    (CONSUME, "alice", None): 2_000_000.0,
    (PRODUCE, DEFAULT, None): 500_000.0,
    (REQUESTS, None, "etl"): 12.5,
    (CONSUME, "bob", DEFAULT): 4_000_000.0,
}
AFTER: dict[QuotaKey, float | None] = {
    (PRODUCE, "alice", None): 4_000_000.0,
    (PRODUCE, DEFAULT, None): 250_000.0,
    (REQUESTS, None, "etl"): 33.3,
    (CONSUME, "bob", DEFAULT): None,
    (PRODUCE, "ünï/= %", "a new, one:producer_byte_rate"): 9_007_199_254_740_993.0,
    (MUTATIONS, None, DEFAULT): 0.5,
}
EVERYTHING = ("--execute", "--allow-delete")
SECONDS_MAX = 30
STRANGER = (PRODUCE, "eve", None)


@dataclass(frozen=True, slots=True)
class Lab:
    """A running cluster and a warehouse with proposals for it."""

    cluster: RunningCluster
    admin: KafkaQuotaAdmin
    warehouse: Path
    command: Callable[..., tuple[int, str, str]]

    @property
    def servers(self) -> str:
        return self.cluster.plan.plaintext_servers

    def propose(self, after: dict[QuotaKey, float | None]) -> None:
        """Make the proposals, for the values as they are now."""
        now = self.values(*after)
        rows = [
            row(
                "recommendations",
                **dict(zip(("quota_type", "quota_user", "quota_client_id"), key, strict=True)),
                previous=now.get(key),
                proposed=value,
            )
            for key, value in after.items()
        ]
        write_rows(scope_in(self.warehouse), "recommendations", rows)

    def set(self, values: dict[QuotaKey, float | None]) -> None:
        """Change quotas past the command line, as anybody may."""
        alterations = [QuotaAlteration(*key, None, value) for key, value in values.items()]
        answers = self.admin.alter(alterations, validate_only=False)
        assert {answer.kind for answer in answers.values()} == {AnswerKind.ACCEPTED}
        wanted = {key: value for key, value in values.items() if value is not None}
        wait_until(lambda: self.values(*values) == wanted)

    def values(self, *keys: QuotaKey) -> dict[QuotaKey, float]:
        found = self.admin.values([key[1:] for key in keys])
        return {key: found[key] for key in keys if key in found}

    def described(self) -> list[str]:
        return described_quotas(self.cluster.plan.kafka_version, self.servers)

    def outcomes(self) -> list[str]:
        """Return what is recorded of the last application."""
        return [r["outcome"] for r in read_applications(self.warehouse, "default")[-1].rows]


@contextmanager
def running(kafka_version: str, folder: Path) -> Iterator[RunningCluster]:
    plan = plan_cluster(kafka_version, CLUSTERS[kafka_version])
    with running_cluster(plan, ["alice"], folder) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def settings() -> KafkaAdminSettings:
    return KafkaAdminSettings(
        clients_jar=maven_jar(f"org.apache.kafka:kafka-clients:{VERSION}"),
        default_api_timeout_ms=8_000,
        request_timeout_ms=4_000,
    )


@pytest.fixture(scope="module", params=CLUSTERS)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningCluster]:
    with running(request.param, tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def admin(cluster: RunningCluster, settings: KafkaAdminSettings) -> Iterator[KafkaQuotaAdmin]:
    with kafka_quota_admin(cluster.plan.plaintext_servers, None, settings) as admin:
        yield admin


@pytest.fixture
def command(
    settings: KafkaAdminSettings,
    cluster: RunningCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a command line and returns exit code, output and errors."""
    for name in ("clients_jar", "default_api_timeout_ms", "request_timeout_ms"):
        monkeypatch.setenv(f"QUOTA_AUDIT_KAFKA_{name.upper()}", str(getattr(settings, name)))

    def run(name: str, *options: str, servers: str = "") -> tuple[int, str, str]:
        where = servers or cluster.plan.plaintext_servers
        fixed = ["--warehouse", str(tmp_path), "--bootstrap-server", where]
        monkeypatch.setattr(sys, "argv", ["quota-audit", name, *fixed, *options])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        said = capsys.readouterr()
        return int(caught.value.code or 0), said.out, said.err

    return run


@pytest.fixture
def lab(
    cluster: RunningCluster,
    admin: KafkaQuotaAdmin,
    tmp_path: Path,
    command: Callable[..., tuple[int, str, str]],
) -> Lab:
    """Return the cluster with the quotas of ``BEFORE`` and proposals to change some of them."""
    lab = Lab(cluster, admin, tmp_path, command)
    lab.set({**dict.fromkeys([*AFTER, STRANGER]), **BEFORE})
    lab.propose(AFTER)
    return lab


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, f"not so within {SECONDS_MAX} s"
        time.sleep(0.05)


only_4_1 = pytest.mark.parametrize("cluster", ["4.1.0"], indirect=True, scope="module")


def test_what_was_applied_is_read_back_and_a_rollback_leaves_no_trace(lab: Lab) -> None:
    at_first = lab.described()
    assert len(at_first) >= len({key[1:] for key in BEFORE})

    code, out, err = lab.command("apply", *EVERYTHING)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == f"{len(AFTER)} applied"
    assert lab.values(*AFTER) == {key: value for key, value in AFTER.items() if value is not None}
    assert set(lab.outcomes()) == {"applied"}
    code, out, _ = lab.command("apply", *EVERYTHING)
    assert (code, out.splitlines()[-1]) == (0, f"{len(AFTER)} already so")

    code, out, _ = lab.command("rollback", "--execute")
    assert (code, out.splitlines()[-1]) == (0, f"{len(AFTER)} applied")
    assert lab.described() == at_first
    assert lab.values(*BEFORE) == BEFORE


def test_a_quota_that_was_changed_in_between_refuses_everything(lab: Lab) -> None:
    lab.set({(REQUESTS, None, "etl"): 12.25})
    before = lab.values(*AFTER)
    code, out, err = lab.command("apply", *EVERYTHING)
    assert code == 2
    assert "refused: nothing was changed" in out
    assert "clients/etl:request_percentage: the cluster has 12.25, and 12.5 was expected" in err
    assert lab.values(*AFTER) == before

    lab.set({(REQUESTS, None, "etl"): 12.5})
    assert lab.command("apply", *EVERYTHING)[0] == 0
    lab.set({(MUTATIONS, None, DEFAULT): 0.75})
    now = lab.values(*AFTER)
    code, _, err = lab.command("rollback", "--execute")
    assert code == 2
    assert "the cluster has 0.75, and 0.5 was expected" in err
    assert lab.values(*AFTER) == now


@only_4_1
@pytest.mark.parametrize(
    ("value", "says"),
    [
        (0.0, "Quota producer_byte_rate must be greater than 0"),
        (-5.0, "Quota producer_byte_rate must be greater than 0"),
        (1000.5, "producer_byte_rate cannot be a fractional value"),
    ],
)
def test_a_value_that_the_broker_rejects_refuses_everything(
    lab: Lab, value: float, says: str
) -> None:
    lab.propose({**AFTER, STRANGER: value})
    before = lab.values(*AFTER)
    for options in (EVERYTHING, ("--allow-delete",)):
        code, _, err = lab.command("apply", *options)
        assert code == 2
        assert "Nothing was changed: 1 of 7 changes cannot be made." in err
        assert f"users/eve:producer_byte_rate: {says}" in err
    assert lab.values(*AFTER) == before


@only_4_1
def test_one_request_takes_sound_changes_and_refuses_others(lab: Lab) -> None:
    sound = QuotaAlteration(PRODUCE, "alice", None, None, 7.0)
    answers = lab.admin.alter([sound, QuotaAlteration(*STRANGER, None, -1.0)], validate_only=False)
    assert answers[sound.entity].kind == AnswerKind.ACCEPTED
    assert answers["eve", None].kind == AnswerKind.REFUSED
    assert lab.values(STRANGER) == {}


def login(folder: Path, password: str, user: str = "lab") -> Path:
    path = folder / f"{user}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{user}" password="{password}";\n'
    )
    return path


@only_4_1
def test_credentials_come_from_the_file_and_are_nowhere_else(lab: Lab, tmp_path: Path) -> None:
    servers = lab.cluster.plan.sasl_servers
    file = login(tmp_path, PASSWORD)
    code, out, err = lab.command("apply", *EVERYTHING, "--command-config", str(file), "--json",
                                 servers=servers)  # fmt: skip
    assert code == 0
    assert json.loads(out)["outcomes"] == {"applied": len(AFTER)}
    recorded = [dict(r) for a in read_applications(tmp_path, "default") for r in a.rows]
    assert PASSWORD not in f"{out}{err}{recorded}"

    code, out, err = lab.command("rollback", "--command-config",
                                 str(login(tmp_path, "wr0ng-secret")), servers=servers)  # fmt: skip
    assert code == 2
    assert "Invalid username or password" in err
    assert f"{servers} did not accept the credentials of" in err
    assert "wr0ng-secret" not in out + err


@only_4_1
def test_who_may_not_alter_quotas_is_told_which_right_that_takes(lab: Lab, tmp_path: Path) -> None:
    servers = lab.cluster.plan.sasl_servers
    file = str(login(tmp_path, PASSWORD, user="alice"))
    code, _, err = lab.command("apply", *EVERYTHING, "--command-config", file, servers=servers)
    assert code == 2
    assert "ClusterAuthorizationException" in err
    assert "altering them AlterConfigs" in err


@only_4_1
def test_a_client_that_does_not_authenticate_is_told_why_nobody_answers(lab: Lab) -> None:
    code, _, err = lab.command("apply", servers=lab.cluster.plan.sasl_servers)
    assert code == 2
    assert "answers only a client whose --command-config says so" in err


@only_4_1
def test_one_broker_down_is_told_and_no_broker_is_an_error(lab: Lab) -> None:
    lab.cluster.node(2).stop()
    try:
        wait_until(lambda: lab.admin.facts().down_broker_ids == (2,))
        code, out, _ = lab.command("apply", *EVERYTHING)
        assert (code, out.splitlines()[-1]) == (0, f"{len(AFTER)} applied")
        assert "broker 2 is down: it takes the values when it comes back" in out

        only_2 = f"127.0.0.1:{lab.cluster.node(2).node.plaintext_port}"
        code, _, err = lab.command("rollback", "--execute", servers=only_2)
        assert code == 2
        assert f"The quotas of {only_2} cannot be read: Timed out" in err
        assert lab.values(*AFTER) == {k: v for k, v in AFTER.items() if v is not None}
    finally:
        lab.cluster.node(2).start()
        lab.cluster.node(2).wait_until_started()


@only_4_1
def test_a_controller_that_is_gone_leaves_nothing_changed_and_says_so(lab: Lab) -> None:
    controller = lab.cluster.node(1)
    controller.stop()
    try:
        only_2 = f"127.0.0.1:{lab.cluster.node(2).node.plaintext_port}"
        code, _, err = lab.command("apply", *EVERYTHING, servers=only_2)
        assert code == 2
        assert "Nothing was changed: 6 of 6 changes cannot be made." in err
        assert err.count("see whether their controller runs") == 1
        assert read_applications(lab.warehouse, "default") == []
    finally:
        controller.start()
        controller.wait_until_started()
