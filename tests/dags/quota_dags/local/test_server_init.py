from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from quota_dags.local.server_init import PASSWORDS_FILE, USERS, prepare_passwords, user_names
from spark_jobs.errors import BadInputError


@pytest.fixture
def first(tmp_path: Path) -> Path:
    path = tmp_path / "first"
    path.write_text("from-the-secret\n")
    return path


def env(tmp_path: Path, users: str) -> dict[str, str]:
    return {USERS: users, PASSWORDS_FILE: str(tmp_path / "passwords.json")}


def known(tmp_path: Path) -> dict[str, str]:
    return dict(json.loads((tmp_path / "passwords.json").read_text()))


def test_the_first_user_gets_the_secret_and_others_get_one_of_their_own(
    tmp_path: Path, first: Path
) -> None:
    prepare_passwords(env(tmp_path, "admin:admin,viv:viewer"), first)
    passwords = known(tmp_path)
    assert passwords["admin"] == "from-the-secret"
    assert len(passwords["viv"]) > 15
    assert stat.S_IMODE((tmp_path / "passwords.json").stat().st_mode) == 0o600


def test_a_new_secret_replaces_the_first_user_s_and_leaves_the_others(
    tmp_path: Path, first: Path
) -> None:
    prepare_passwords(env(tmp_path, "admin:admin,viv:viewer"), first)
    before = known(tmp_path)
    first.write_text("another")
    prepare_passwords(env(tmp_path, "admin:admin,viv:viewer"), first)
    assert known(tmp_path) == before | {"admin": "another"}


def test_who_is_no_user_any_more_has_no_password(tmp_path: Path, first: Path) -> None:
    prepare_passwords(env(tmp_path, "admin:admin,viv:viewer"), first)
    prepare_passwords(env(tmp_path, "admin:admin"), first)
    assert set(known(tmp_path)) == {"admin"}


@pytest.mark.parametrize("setting", ["", "admin", "admin:boss", "a b:admin", "admin:admin,,"])
def test_an_entry_that_is_no_user_is_named_with_what_is_expected(setting: str) -> None:
    with pytest.raises(BadInputError, match=r"Expected name:role.*viewer, user, op, admin"):
        user_names(setting)


def test_a_missing_or_empty_secret_makes_no_password(tmp_path: Path, first: Path) -> None:
    first.write_text("\n")
    for path in (first, tmp_path / "absent"):
        with pytest.raises(BadInputError, match=str(path)):
            prepare_passwords(env(tmp_path, "admin:admin"), path)
    with pytest.raises(BadInputError, match=USERS):
        prepare_passwords({}, first)
    assert not (tmp_path / "passwords.json").exists()
