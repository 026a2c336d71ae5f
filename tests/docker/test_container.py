from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from spark_jobs.serve import COMPONENTS, HOST
from spark_jobs.settings import DailyAuditSettings, ServeSettings, SparkSettings

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
COMPOSE = ROOT / "docker" / "compose.yaml"


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions, continuation lines joined, comments left out."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line]  # type: ignore[misc]


@pytest.fixture(scope="module")
def service() -> Any:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    assert list(services) == ["airflow"]
    return services["airflow"]


def text(instructions: list[tuple[str, str]], name: str) -> str:
    return "\n".join(arguments for found, arguments in instructions if found == name)


def test_python_and_java_are_those_of_the_project(instructions: list[tuple[str, str]]) -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    minor = re.match(r"python:(3\.\d+)-", text(instructions, "FROM"))
    assert minor is not None
    assert wanted.startswith(f">={minor[1]},")
    assert "openjdk-17-jre-headless" in text(instructions, "RUN")


def test_every_pin_is_the_locks(instructions: list[tuple[str, str]]) -> None:
    locks = "".join(
        (ROOT / name).read_text() for name in ("requirements.txt", "requirements-dev.txt")
    )
    locked = dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", locks, re.MULTILINE))
    pins = dict(re.findall(r"([a-z0-9._-]+)==([\d.]+)", text(instructions, "RUN")))
    assert pins, "uv itself is pinned"
    assert pins == {name: locked[name] for name in pins}


def test_packages_come_from_the_lock_and_from_nothing_else(
    instructions: list[tuple[str, str]],
) -> None:
    commands = re.split(r"&&|\n", text(instructions, "RUN"))
    installs = [command.split() for command in commands if "uv pip install" in command]
    assert [command[-1] for command in installs] == ["requirements.txt", "."]
    for command in installs:
        assert "--no-deps" in command, "what the lock does not name must not come in"


def test_nothing_runs_as_root(instructions: list[tuple[str, str]], service: Any) -> None:
    users = [arguments for name, arguments in instructions if name == "USER"]
    assert users == ["10001"], "a number, so that it can be checked without the image"
    assert instructions.index(("USER", "10001")) < [n for n, _ in instructions].index("CMD")
    assert "user" not in service
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "privileged" not in service


def test_all_that_is_copied_exists_and_gets_through_the_ignore_file(
    instructions: list[tuple[str, str]],
) -> None:
    copied = {
        source for name, rest in instructions if name == "COPY" for source in rest.split()[:-1]
    }
    ignore = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().splitlines()
    let_through = {line[1:].rstrip("/") for line in ignore if line.startswith("!")}
    assert copied == let_through
    assert [source for source in sorted(copied) if not (ROOT / source).exists()] == []


def test_the_compose_file_follows_the_compose_specification() -> None:
    command = [sys.executable, "-m", "check_jsonschema"]
    done = subprocess.run(
        [*command, "--builtin-schema", "vendor.compose-spec", str(COMPOSE)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_port_is_published_on_the_loopback_only(service: Any) -> None:
    for port in service["ports"]:
        assert port.startswith(f"{HOST}:"), port
        assert port.endswith(f":{ServeSettings().port}"), port
    assert "network_mode" not in service


def test_no_password_is_written_into_the_files() -> None:
    for path in (DOCKERFILE, COMPOSE):
        assert not re.search(r"(?i)password\s*[:=]", path.read_text()), path


def test_every_setting_is_one_the_program_reads(
    instructions: list[tuple[str, str]], service: Any
) -> None:
    known = {
        f"{settings.model_config['env_prefix']}{field}".upper()
        for settings in (DailyAuditSettings, ServeSettings, SparkSettings)
        for field in settings.model_fields
    }
    words = text(instructions, "ENV").split()
    used = {word.partition("=")[0] for word in words} | set(service["environment"])
    ours = {name for name in used if name.startswith("QUOTA_AUDIT_")}
    assert len(ours) >= 4
    assert ours <= known
    assert ServeSettings(host=service["environment"]["QUOTA_AUDIT_SERVE_HOST"]).host == "0.0.0.0"


def test_what_is_mounted_is_what_the_program_uses(
    instructions: list[tuple[str, str]], service: Any
) -> None:
    archive, *volumes = service["volumes"]
    assert archive["read_only"] is True
    env = text(instructions, "ENV")
    assert f"QUOTA_AUDIT_ARCHIVE={archive['target']}" in env
    assert volumes == ["airflow:/airflow", "warehouse:/warehouse"]
    assert "QUOTA_AUDIT_WAREHOUSE=/warehouse" in env
    assert "--home" in text(instructions, "CMD")
    assert set(yaml.safe_load(COMPOSE.read_text())["volumes"]) == {"airflow", "warehouse"}


def test_the_container_is_given_the_time_airflow_takes_to_end(service: Any) -> None:
    # The components in one round, the server in a second one.
    needed_s = 2 * ServeSettings().grace_s
    assert len(COMPONENTS) == 4
    assert int(service["stop_grace_period"].removesuffix("s")) > needed_s
    assert service["init"] is True


def test_the_health_check_is_python_that_runs(service: Any) -> None:
    kind, *command = service["healthcheck"]["test"]
    assert kind == "CMD"
    done = subprocess.run(
        # Another port, where nothing can listen: only that the check runs and says no is asked.
        [sys.executable, *(part.replace("8080", "0") for part in command[1:])],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
