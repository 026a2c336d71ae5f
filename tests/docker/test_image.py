from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from spark_jobs.settings import DailyAuditSettings

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
OWNED = ["/airflow", "/airflow/auth", "/airflow/logs", "/warehouse", "/acknowledged"]


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions, continuation lines joined, comments left out."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line]  # type: ignore[misc]


def text(instructions: list[tuple[str, str]], name: str) -> str:
    return "\n".join(arguments for found, arguments in instructions if found == name)


def test_python_and_java_are_those_of_the_project(instructions: list[tuple[str, str]]) -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    bases = re.findall(r"^python:(3\.\d+)-", text(instructions, "FROM"), re.MULTILINE)
    assert len(bases) == 2, "the wheel's and the image's"
    for minor in bases:
        assert wanted.startswith(f">={minor},")
    assert "openjdk-17-jre-headless" in text(instructions, "RUN")


def test_packages_come_from_the_lock_and_the_wheel_and_from_nothing_else(
    instructions: list[tuple[str, str]],
) -> None:
    commands = re.split(r"&&|\n", text(instructions, "RUN"))
    installs = [command.split() for command in commands if " install " in command]
    installs = [command for command in installs if "pip" in command]
    locks = ["requirements-build.txt", "requirements-build.txt", "requirements.txt"]
    assert [command[-1] for command in installs] == [*locks, "/wheels/*.whl"]
    for command in installs[:-1]:
        assert "--require-hashes" in command, "what has another hash must not come in"
    for command in installs[2:]:
        assert "--no-deps" in command, "what the lock does not name must not come in"
    (build,) = [command.split() for command in commands if "uv build" in command]
    assert {"--require-hashes", "--build-constraints"} <= set(build)


def test_nothing_runs_as_root(instructions: list[tuple[str, str]]) -> None:
    users = [arguments for name, arguments in instructions if name == "USER"]
    assert users == ["10001"], "a number, so that it can be checked without the image"
    assert instructions.index(("USER", "10001")) < [n for n, _ in instructions].index("CMD")


def test_all_that_is_copied_exists_and_gets_through_the_ignore_file(
    instructions: list[tuple[str, str]],
) -> None:
    copies = [rest for name, rest in instructions if name == "COPY" and "--from=" not in rest]
    copied = {source for rest in copies for source in rest.split()[:-1]}
    ignore = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().splitlines()
    let_through = {line[1:].rstrip("/") for line in ignore if line.startswith("!")}
    assert copied == let_through
    assert [source for source in sorted(copied) if not (ROOT / source).exists()] == []


def test_folders_that_volumes_are_mounted_on_are_made_before(
    instructions: list[tuple[str, str]],
) -> None:
    made = text(instructions, "RUN")
    for folder in (*OWNED, "/demo-archive"):
        assert f" {folder}" in made, folder


def test_the_settings_of_the_image_are_read_by_the_program(
    instructions: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for word in text(instructions, "ENV").split():
        name, _, value = word.partition("=")
        if name.startswith("QUOTA_AUDIT_"):
            monkeypatch.setenv(name, value)
    settings = DailyAuditSettings()
    assert (str(settings.archive), str(settings.warehouse)) == ("/archive", "/warehouse")


def test_no_password_is_written_into_the_image(instructions: list[tuple[str, str]]) -> None:
    assert not re.search(r"(?i)password\s*[:=]", DOCKERFILE.read_text())
    assert not text(instructions, "ARG")


def test_the_bases_are_of_one_release_and_nothing_else_is_fetched(
    instructions: list[tuple[str, str]],
) -> None:
    bases = re.findall(r"^(\S+)", text(instructions, "FROM"), re.MULTILINE)
    assert [base for base in bases if not re.search(r":\d+\.\d+-\S+$", base)] == []
    assert not text(instructions, "ADD"), "ADD unpacks archives and fetches addresses"
    assert not re.search(r"\b(curl|wget|git clone|sudo|su -)\b", text(instructions, "RUN"))
    assert "://" not in text(instructions, "RUN")


def test_packages_of_the_system_are_few_and_leave_no_lists(
    instructions: list[tuple[str, str]],
) -> None:
    commands = [command.strip() for command in re.split(r"&&|\n", text(instructions, "RUN"))]
    installs = [command for command in commands if "apt-get install" in command]
    assert len(installs) == 1
    assert "--no-install-recommends" in installs[0]
    assert "rm -rf /var/lib/apt/lists/*" in commands


def test_what_the_program_is_made_of_cannot_be_changed_by_its_user(
    instructions: list[tuple[str, str]],
) -> None:
    assert "--chown" not in text(instructions, "COPY")
    assert "chmod" not in text(instructions, "RUN")
    owner = r"install --directory --owner=audit --group=audit((?:\s+/\S+)+)"
    owned = re.findall(owner, text(instructions, "RUN"))
    assert [folders.split() for folders in owned] == [OWNED]


def test_no_variable_of_the_image_is_a_secret(instructions: list[tuple[str, str]]) -> None:
    names = [word.partition("=")[0] for word in text(instructions, "ENV").split()]
    assert len(names) >= 5
    assert [n for n in names if re.search(r"PASS|SECRET|TOKEN|KEY|FERNET|CONN", n)] == []
