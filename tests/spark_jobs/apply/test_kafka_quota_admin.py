"""Kafka's own Admin client without a cluster: its jar, its JVM, its settings and what it says."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import py4j.java_gateway
import py4j.protocol
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import install_exception_handler

from spark_jobs.apply.changes.quota_admin import AnswerKind, QuotaAdminError
from spark_jobs.apply.changes.quota_alteration import QuotaAlteration
from spark_jobs.apply.kafka_errors import FailureSentences
from spark_jobs.apply.kafka_jvm import VERSION
from spark_jobs.apply.kafka_quota_admin import kafka_quota_admin
from spark_jobs.errors import BadInputError
from spark_jobs.settings import KafkaAdminSettings
from tests.endurance.living_processes import living
from tests.oracle.jars import maven_jar

pytestmark = pytest.mark.jvm

ROOT = Path(__file__).parents[3]
SECONDS_MAX = 10
NOBODY = "127.0.0.1:1"
ALICE = QuotaAlteration("producer_byte_rate", "alice", None, None, 5.0)
SECRET = "s3cr3t-w0rd=="
LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="alice" password="{SECRET}"'
)


@pytest.fixture(scope="session")
def settings() -> KafkaAdminSettings:
    return KafkaAdminSettings(
        clients_jar=maven_jar(f"org.apache.kafka:kafka-clients:{VERSION}"),
        default_api_timeout_ms=300,
    )


HANGS_WITH_A_JVM = """
import sys
import time
from pathlib import Path
import psutil
from spark_jobs.apply.kafka_jvm import kafka_jvm
from spark_jobs.settings import KafkaAdminSettings
with kafka_jvm(Path(sys.argv[1]), KafkaAdminSettings()):
    print(*(child.pid for child in psutil.Process().children()), flush=True)
    sys.stdin.read()
"""


def properties(tmp_path: Path, **values: str) -> Path:
    path = tmp_path / "admin.properties"
    path.write_text("".join(f"{k.replace('__', '.')}={v}\n" for k, v in values.items()))
    return path


def jvm() -> psutil.Process:
    """Return the only JVM that this process has started and that knows Kafka's client."""
    (found,) = (
        child
        for child in psutil.Process().children()
        if any("kafka-clients" in argument for argument in child.cmdline())
    )
    return found


def test_a_cluster_that_nobody_runs_is_named_and_the_jvm_ends(settings: KafkaAdminSettings) -> None:
    with kafka_quota_admin(NOBODY, None, settings) as admin:
        process = jvm()
        with pytest.raises(QuotaAdminError) as caught:
            admin.values([ALICE.entity])
    assert str(caught.value).startswith(f"The quotas of {NOBODY} cannot be read: Timed out waiting")
    assert f"Check that {NOBODY} runs and can be reached" in str(caught.value)
    assert living([process.pid]) == []


def test_a_change_without_an_answer_is_unknown(settings: KafkaAdminSettings) -> None:
    with kafka_quota_admin(NOBODY, None, settings) as admin:
        answers = admin.alter([ALICE], validate_only=False)
    assert answers[ALICE.entity].kind == AnswerKind.UNKNOWN
    assert "TimeoutException" in (answers[ALICE.entity].message or "")


def test_an_exception_is_kafkas_also_where_a_spark_session_has_been(
    settings: KafkaAdminSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(py4j.java_gateway, "get_return_value", py4j.protocol.get_return_value)
    # What a session leaves behind in its process, and no JVM of Spark's that would answer.
    install_exception_handler()
    monkeypatch.setattr(SparkContext, "_jvm", None)
    assert py4j.java_gateway.get_return_value is not py4j.protocol.get_return_value
    with (
        kafka_quota_admin(NOBODY, None, settings) as admin,
        pytest.raises(QuotaAdminError, match="Timed out waiting"),
    ):
        admin.values([ALICE.entity])


def test_a_jvm_that_was_killed_leaves_changes_unknown(settings: KafkaAdminSettings) -> None:
    with kafka_quota_admin(NOBODY, None, settings) as admin:
        # Nobody else waits for it: who does takes its exit code.
        jvm().kill()
        answers = admin.alter([ALICE], validate_only=False)
        with pytest.raises(QuotaAdminError, match=r"client ended \(exit code -9: it said nothing"):
            admin.facts()
    assert answers[ALICE.entity].kind == AnswerKind.UNKNOWN


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Py4JNetworkError("Answer from Java side is empty"), "Answer from Java side is empty"),
        (Py4JError("calling o1.setProperty('password', 'sesame')"), "Py4JError"),
    ],
)
def test_a_lost_connection_to_a_jvm_that_runs_says_so_and_no_argument(
    error: Py4JError, said: str
) -> None:
    told = FailureSentences("b:1", "client.properties", str, lambda: None).of(error)
    assert told.message == (
        f"the JVM of Kafka's client runs, but the connection to it was lost ({said})"
    )
    assert not told.is_answer


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_that_is_ended_takes_its_jvm_along(
    settings: KafkaAdminSettings, ending: signal.Signals
) -> None:
    command = [sys.executable, "-c", HANGS_WITH_A_JVM, str(settings.clients_jar)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        (pid,) = map(int, process.stdout.readline().split())
        assert living([pid]) == [pid]
        process.send_signal(ending)
        process.wait()
    deadline = time.monotonic() + SECONDS_MAX
    while living([pid]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert living([pid]) == []


def test_no_secret_is_in_the_processs_arguments_or_in_a_log(
    settings: KafkaAdminSettings,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    file = properties(
        tmp_path,
        security__protocol="SASL_PLAINTEXT",
        sasl__mechanism="PLAIN",
        sasl__jaas__config=f"{LOGIN};",
    )
    with caplog.at_level(logging.DEBUG), kafka_quota_admin(NOBODY, file, settings) as admin:
        arguments = " ".join([*jvm().cmdline(), *jvm().environ().values()])
        with pytest.raises(QuotaAdminError) as caught:
            admin.facts()
    assert SECRET not in arguments
    assert SECRET not in caplog.text
    assert SECRET not in "".join(capfd.readouterr())
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"sasl__mechansm": SECRET}, "line 1: 'sasl.mechansm' is no setting of a Kafka client"),
        ({"security__protocol": "SASL_TLS"}, "Invalid value SASL_TLS for configuration security"),
        ({"default__api__timeout__ms": "soon"}, "Not a number of type INT"),
        (
            {"security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": "PLAIN",
             "sasl__jaas__config": LOGIN},
            "JAAS config entry not terminated by semi-colon",
        ),
        (
            {"security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": "PLAIN",
             "sasl__jaas__config": f"org.x.PlainLoginModule {SECRET} a=b;"},
            "Invalid login module control flag '[hidden]'",
        ),
        (
            {"security__protocol": "SSL", "ssl__truststore__location": "/missing",
             "ssl__truststore__password": SECRET},
            "Failed to load SSL keystore /missing",
        ),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_told_without_its_secrets(
    settings: KafkaAdminSettings, tmp_path: Path, values: dict[str, str], says: str
) -> None:
    with pytest.raises(BadInputError) as caught:
        kafka_quota_admin(NOBODY, properties(tmp_path, **values), settings).__enter__()
    assert says in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_keys_that_only_other_clients_of_kafka_know_are_allowed(
    settings: KafkaAdminSettings, tmp_path: Path
) -> None:
    file = properties(tmp_path, group__id="g", acks="all", request__timeout__ms="200")
    with kafka_quota_admin(NOBODY, file, settings):
        assert jvm().is_running()


@pytest.mark.parametrize(
    ("servers", "says"),
    [("localhost", "Invalid url in bootstrap.servers"), ("x.invalid:1", "No resolvable bootstrap")],
)
def test_an_address_that_is_none_is_told(
    settings: KafkaAdminSettings, servers: str, says: str
) -> None:
    with pytest.raises(BadInputError, match=says):
        kafka_quota_admin(servers, None, settings).__enter__()


def test_a_machine_without_java_is_told_what_to_install(
    settings: KafkaAdminSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BadInputError, match=r"Java cannot be started .* Install Java 17"):
        kafka_quota_admin(NOBODY, None, settings).__enter__()


def test_options_that_java_does_not_know_are_told(settings: KafkaAdminSettings) -> None:
    odd = settings.model_copy(update={"java_options": "-Xodd"})
    with pytest.raises(BadInputError, match=r"Java did not start: .*Unrecognized option: -Xodd"):
        kafka_quota_admin(NOBODY, None, odd).__enter__()
