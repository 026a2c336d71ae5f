from __future__ import annotations

import base64
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from cryptography.fernet import Fernet

ROOT = Path(__file__).parents[2]
MAKE_SECRETS = ROOT / "docker" / "make_secrets.py"
DATABASE_URL = ROOT / "docker" / "database_url.py"


def run(script: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    # -I -S: with the standard library alone, as on a host that has nothing else.
    command = [sys.executable, "-I", "-S", str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("new") / "secrets"
    done = run(MAKE_SECRETS, made)
    assert (done.returncode, done.stderr) == (0, "")
    for secret in made.iterdir():
        assert secret.read_text() not in done.stdout
    return made


def test_the_keys_are_as_long_as_their_users_ask(folder: Path) -> None:
    Fernet((folder / "fernet_key").read_text())
    assert len(base64.urlsafe_b64decode((folder / "jwt_secret").read_text())) == 64
    values = [path.read_text() for path in folder.iterdir()]
    assert len(values) == 6
    assert len(set(values)) == 6


def test_only_the_owner_gets_to_the_files_and_any_container_user_can_read_them(
    folder: Path,
) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o444}


def test_a_secret_that_is_there_is_kept(folder: Path) -> None:
    before = {path.name: path.read_text() for path in folder.iterdir()}
    (folder / "jwt_secret").unlink()
    assert run(MAKE_SECRETS, folder).stdout == f"{folder}: made jwt_secret\n"
    after = {path.name: path.read_text() for path in folder.iterdir()}
    assert {name for name in before if before[name] != after[name]} == {"jwt_secret"}


@pytest.mark.parametrize("password", ["plain", "p@ss/w:o%r#d?&=+ ", "schlüssel"])
def test_the_database_s_address_holds_any_password(tmp_path: Path, password: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{password.strip()}\n")
    said = run(DATABASE_URL, "postgres:5432", secret).stdout
    assert said == said.strip(), "Airflow takes all of it for the address"
    address = urlsplit(said)
    assert (address.scheme, address.username) == ("postgresql+psycopg2", "airflow")
    assert (address.hostname, address.port, address.path) == ("postgres", 5432, "/airflow")
    assert unquote(address.password or "") == password.strip()


@pytest.mark.parametrize("content", [None, "\n"])
def test_a_missing_or_empty_password_is_an_error_that_names_the_file(
    tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "secret").write_text(content)
    done = run(DATABASE_URL, "postgres", tmp_path / "secret")
    assert done.returncode == 1
    assert str(tmp_path / "secret") in done.stderr
    assert done.stdout == ""
