from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from typing import Any

import pytest

from quota_dags.local.serve import HOST
from quota_dags.local.server_init import PASSWORDS_FILE, USERS, user_names
from spark_jobs.settings import (
    AlertSettings,
    ApprovalSettings,
    DailyAuditSettings,
    FollowSettings,
    SparkSettings,
)
from tests.docker.compose_file import COMPOSE, ROOT, VariableNotSetError, compose_file

AIRFLOW = ("api-server", "scheduler", "dag-processor", "triggerer")
SPARK = ("spark-master", "spark-worker")
BROKERS = ("kafka-1", "kafka-2")
SERVICES = ("postgres", "init", *AIRFLOW, *SPARK, *BROKERS)
OURS = ("init", *AIRFLOW, *SPARK)
SETTINGS = (
    DailyAuditSettings,
    AlertSettings,
    ApprovalSettings,
    FollowSettings,
    SparkSettings,
)
MAKER = runpy.run_path(str(ROOT / "docker" / "make_secrets.py"))
SECRETS, TEXTS = MAKER["SECRETS"], MAKER["TEXTS"]


@pytest.fixture(scope="module")
def compose() -> Any:
    return compose_file()


def mounts(service: Any) -> dict[str, str]:
    """Return what each folder of a container is: a volume's name, or `bind`, and `ro`."""
    found = {}
    for volume in service.get("volumes", []):
        if isinstance(volume, str):
            name, target, *mode = volume.split(":")
            found[target] = " ".join([name, *mode])
        else:
            found[volume["target"]] = volume["type"] + " ro" * volume["read_only"]
    return found


def held_secrets(service: Any) -> dict[str, str]:
    """Return the secrets of a service: where each is mounted."""
    return {
        name if isinstance(name, str) else name["source"]: f"/run/secrets/{name}"
        if isinstance(name, str)
        else name["target"]
        for name in service.get("secrets", [])
    }


def test_the_compose_file_follows_the_compose_specification() -> None:
    command = [sys.executable, "-m", "check_jsonschema"]
    done = subprocess.run(
        [*command, "--builtin-schema", "vendor.compose-spec", str(COMPOSE)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_brokers_are_there_for_the_demo_only(compose: Any) -> None:
    services = compose["services"]
    assert set(services) == set(SERVICES)
    profiles = {name: service.get("profiles") for name, service in services.items()}
    assert {name for name, found in profiles.items() if found == ["demo"]} == set(BROKERS)
    assert {name for name, found in profiles.items() if not found} == set(SERVICES) - set(BROKERS)


def test_every_service_waits_for_services_that_are_there(compose: Any) -> None:
    services = compose["services"]
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in services, f"{name} waits for {other}"
            is_over = other == "init"
            assert how["condition"] == (
                "service_completed_successfully" if is_over else "service_healthy"
            ), f"{name} waits for {other}"
            assert "profiles" not in services[other] or "profiles" in service


def test_nothing_of_airflow_starts_before_the_database_is_migrated(compose: Any) -> None:
    def before(name: str) -> set[str]:
        direct = set(compose["services"][name].get("depends_on", {}))
        return direct.union(*(before(other) for other in direct))

    assert before("init") == {"postgres"}
    for name in AIRFLOW:
        assert before(name) >= {"init", "postgres"}, name
    assert before("scheduler") >= {"api-server", *SPARK}, "its tasks need both"


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "init"])
def test_every_service_that_stays_says_whether_it_is_well(compose: Any, name: str) -> None:
    check = compose["services"][name]["healthcheck"]
    kind, *command = check["test"]
    assert kind in {"CMD", "CMD-SHELL"}
    assert command
    assert set(check) >= {"interval", "timeout", "retries", "start_period"}
    if command[:2] == ["python", "-c"]:
        ast.parse(command[2])


def test_init_ends_and_is_not_started_again(compose: Any) -> None:
    init = compose["services"]["init"]
    assert init["restart"] == "no"
    assert init["healthcheck"] == {"disable": True}
    stay = {n: s["restart"] for n, s in compose["services"].items() if n != "init"}
    assert set(stay.values()) == {"unless-stopped"}


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_can_do_what_root_can(compose: Any, name: str) -> None:
    service = compose["services"][name]
    assert service["user"] not in {"root", "0", 0, ""}
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "network_mode", "pid", "devices"} & set(service)


def test_our_image_is_the_same_everywhere_and_runs_as_its_user(compose: Any) -> None:
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    for name in OURS:
        service = compose["services"][name]
        assert service["image"] == compose["services"]["init"]["image"]
        assert service["init"] is True
        assert f"USER {service['user']}\n" in dockerfile
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert compose["services"]["init"]["image"] == f"quota-audit:{version[1]}"


def test_foreign_images_are_pinned_to_a_whole_version(compose: Any) -> None:
    for name in set(SERVICES) - set(OURS):
        assert re.search(r":\d+\.\d+(\.\d+)?(-[a-z]+)?@", compose["services"][name]["image"]), name


def test_one_port_is_published_and_on_the_loopback_only(compose: Any) -> None:
    ports = {n: s["ports"] for n, s in compose["services"].items() if "ports" in s}
    assert ports == {"api-server": [f"{HOST}:8080:8080"]}


def test_no_secret_is_in_the_file_or_in_a_variable(compose: Any) -> None:
    assert not re.search(r"://[^/\s]*:[^/\s]*@", COMPOSE.read_text()), "a password in an address"
    for name, service in compose["services"].items():
        for variable, value in service.get("environment", {}).items():
            if variable.startswith("QUOTA_AUDIT_ALERT_") and variable.endswith("_CONNECTION"):
                # An id: the settings refuse addresses, and the file holds none.
                assert not value
                continue
            if re.search(r"PASSWORD|SECRET|FERNET|CONN", variable):
                is_elsewhere = variable.endswith(("_CMD", "_FILE"))
                assert is_elsewhere, f"{name}: {variable} should name a file or a command"
                assert "/run/secrets/" in value or value.startswith("/airflow/auth/")


def test_every_secret_is_made_and_mounted_where_it_is_read(compose: Any) -> None:
    assert set(compose["secrets"]) == set(SECRETS)
    for name, secret in compose["secrets"].items():
        assert secret == {"file": f"/secrets/{name}"}
    for name, service in compose["services"].items():
        words = [*service.get("environment", {}).values(), *service.get("command", [])]
        read = set(re.findall(r"/run/secrets/(\w+)", " ".join(map(str, words))))
        assert read <= set(held_secrets(service)), name


@pytest.mark.parametrize("name", ["ARCHIVE", "SECRETS"])
def test_what_must_be_set_is_asked_for_by_name(name: str) -> None:
    given = {"ARCHIVE": "/logs", "SECRETS": "/secrets"}
    with pytest.raises(VariableNotSetError, match=f"set {name} to"):
        compose_file(given | {name: ""})


def test_every_setting_is_one_the_program_reads(compose: Any) -> None:
    known = {
        f"{settings.model_config['env_prefix']}{field}".upper()
        for settings in SETTINGS
        for field in settings.model_fields
    }
    given = {name for s in compose["services"].values() for name in s.get("environment", {})}
    ours = {name for name in given if name.startswith("QUOTA_AUDIT_")}
    assert len(ours) >= 5
    assert ours <= known
    assert user_names(compose["services"]["init"]["environment"][USERS]) == ["admin"]


def test_components_agree_on_all_that_is_airflows(compose: Any) -> None:
    init, *others = (compose["services"][name]["environment"] for name in ("init", *AIRFLOW))
    assert init[PASSWORDS_FILE].startswith("/airflow/auth/")
    for other in others:
        assert other == {**other, **init}


def test_driver_and_worker_see_the_same_folders_and_the_cluster_is_used(compose: Any) -> None:
    scheduler, worker = (compose["services"][n] for n in ("scheduler", "spark-worker"))
    shared = {"/archive": "bind ro", "/demo-archive": "demo-archive ro", "/warehouse": "warehouse"}
    assert mounts(worker) == shared
    own = {"/airflow/logs": "logs", "/acknowledged": "acknowledged"}
    assert mounts(scheduler) == shared | own
    master = scheduler["environment"]["QUOTA_AUDIT_SPARK_MASTER"]
    assert worker["command"][-1] == master
    host, port = compose["services"]["spark-master"]["command"][3:6:2]
    assert master == f"spark://{host}:{port}"


def test_passwords_are_mounted_where_they_are_needed_and_pages_change_nothing(compose: Any) -> None:
    services = compose["services"]
    holders = {name for name in SERVICES if "/airflow/auth" in mounts(services[name])}
    assert holders == {"init", "api-server"}
    pages = mounts(services["api-server"])
    assert pages["/warehouse"] == "warehouse ro"
    # What they may write is Airflow's, and what people acknowledge: not what an audit found.
    assert {target for target, found in pages.items() if not found.endswith(" ro")} == {
        "/airflow/auth", "/airflow/logs", "/acknowledged",
    }  # fmt: skip
    assert set(compose["volumes"]) == {
        found.split()[0]
        for service in services.values()
        for found in mounts(service).values()
        if not found.startswith("bind")
    }


def test_what_the_pages_acknowledge_is_written_where_the_steps_read_it(compose: Any) -> None:
    services = compose["services"]
    for name in ("init", "api-server", "scheduler"):
        assert mounts(services[name])["/acknowledged"] == "acknowledged", name
    for name in ("api-server", "scheduler"):
        given = services[name]["environment"]
        assert given["QUOTA_AUDIT_FOLLOW_ACKNOWLEDGED"] == "/acknowledged/acknowledged.yaml", name


def test_the_logs_are_read_only_and_nothing_of_the_host_is_mounted_but_them(compose: Any) -> None:
    for name, service in compose["services"].items():
        for folder, found in mounts(service).items():
            source = found.split()[0]
            assert source == "bind" or source in compose["volumes"], f"{name}: {found}"
            assert source != "bind" or (folder, found) == ("/archive", "bind ro"), name
    assert "docker.sock" not in COMPOSE.read_text()


def test_nothing_but_the_page_of_airflow_is_told_a_secret_it_does_not_need(compose: Any) -> None:
    services = compose["services"]
    assert not [name for name in BROKERS if "secrets" in services[name]]
    holders = {n for n in SERVICES if "admin_password" in held_secrets(services[n])}
    assert holders == {"init"}
    # The workers run what a driver sends: they hold nothing but what a driver holds.
    for name in SPARK:
        assert set(held_secrets(services[name])) == {"spark_defaults"}


def test_spark_knows_its_own_by_a_secret_and_takes_no_other_submission(compose: Any) -> None:
    services = compose["services"]
    holders = {n for n in SERVICES if "spark_defaults" in held_secrets(services[n])}
    assert holders == {"scheduler", *SPARK}
    for name in holders:
        folder = services[name]["environment"]["SPARK_CONF_DIR"]
        file = held_secrets(services[name])["spark_defaults"]
        assert file == f"{folder}/spark-defaults.conf", name
    options = services["spark-master"]["environment"]["SPARK_MASTER_OPTS"]
    assert "-Dspark.master.rest.enabled=false" in options.split()
    assert "spark.authenticate true\n" in TEXTS["spark_defaults"]


def test_the_demo_s_brokers_write_an_archive(compose: Any) -> None:
    from spark_jobs.ingest.archive import REQUEST_LOG, SERVER_LOG

    logging = (ROOT / "docker" / "kafka-log4j2.xml").read_text()
    lab = (ROOT / "tests" / "oracle" / "logging" / "log4j2.xml").read_text()
    assert '<Logger name="kafka.request.logger" level="DEBUG"' in logging
    pattern = re.compile(r'<Property name="pattern">(.*)</Property>')
    assert pattern.findall(logging) == pattern.findall(lab)
    assert "/demo-archive}/broker=${env:KAFKA_NODE_ID}" in logging
    for file in (REQUEST_LOG, SERVER_LOG):
        assert f'fileName="${{folder}}/{file}"' in logging
    for number, name in enumerate(BROKERS, start=1):
        broker = compose["services"][name]
        assert broker["environment"]["KAFKA_NODE_ID"] == number
        assert mounts(broker)["/demo-archive"] == "demo-archive"
        (config,) = broker["configs"]
        assert f"-Dlog4j2.configurationFile={config['target']} " in broker["command"][-1]


def test_stopping_gives_components_longer_than_a_step_needs(compose: Any) -> None:
    from quota_dags.process import GRACE_S

    for name in set(SERVICES) - {"init"}:
        grace_s = int(compose["services"][name]["stop_grace_period"].removesuffix("s"))
        assert grace_s > 3 * GRACE_S, name


def test_the_page_names_every_variable_and_service(compose: Any) -> None:
    page = (ROOT / "docs" / "docker.md").read_text()
    asked = set(re.findall(r"\$\{(\w+)", COMPOSE.read_text()))
    assert not [name for name in {*asked, *SERVICES, *SECRETS} if f"`{name}`" not in page]
