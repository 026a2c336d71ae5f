"""What runs once before the components of docker/compose.yaml: passwords, then the database."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from quota_dags.local.airflow_home import airflow_command
from quota_dags.local.serve import write_passwords
from quota_dags.process import run_process
from spark_jobs.errors import BadInputError, QuotaAuditError

USERS = "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"
PASSWORDS_FILE = "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"
# Airflow splits the list at commas and colons, and takes a bad entry for a user of its own.
_ROLES = ("viewer", "user", "op", "admin")
_USER = re.compile(rf"[A-Za-z0-9._-]+:(?:{'|'.join(_ROLES)})")


def user_names(setting: str) -> list[str]:
    """Return the names in ``name:role,…``; raises BadInputError at an entry that is no such."""
    entries = [entry.strip() for entry in setting.split(",")]
    for entry in entries:
        if not _USER.fullmatch(entry):
            raise BadInputError(
                f"{USERS} has the entry {entry!r}. Expected name:role, for example "
                f"viv:viewer; roles are {', '.join(_ROLES)}."
            )
    return [entry.partition(":")[0] for entry in entries]


def prepare_passwords(env: Mapping[str, str], first_password_file: Path) -> list[str]:
    """Give each user a password in Airflow's passwords file; return the users' names.

    The first user's is the one in ``first_password_file``; others keep theirs, or get one made up.
    Who is no user any more is removed. Raises BadInputError where a setting or file is no use.
    """
    for name in (USERS, PASSWORDS_FILE):
        if not env.get(name):
            raise BadInputError(f"{name} is not set: run this with the api-server's environment.")
    try:
        first_password = first_password_file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise BadInputError(f"the first user's password cannot be read: {error}") from error
    if not first_password:
        raise BadInputError(f"{first_password_file} is empty, but should hold a password.")
    names, path = user_names(env[USERS]), Path(env[PASSWORDS_FILE])
    for name in names:
        write_passwords(path, name, first_password if name == names[0] else None)
    known = json.loads(path.read_text())
    path.write_text(json.dumps({name: known[name] for name in names}) + "\n")
    return names


def main() -> None:
    """Prepare passwords, then migrate the database; exit code 2 where a setting is no use."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m quota_dags.local.server_init FIRST_USERS_PASSWORD_FILE")
    try:
        names = prepare_passwords(os.environ, Path(sys.argv[1]))
    except QuotaAuditError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print(f"passwords of {', '.join(names)} are in {os.environ[PASSWORDS_FILE]}", flush=True)
    migrated = run_process(airflow_command("db", "migrate"), print, dict(os.environ))
    sys.exit(migrated.exit_code)


if __name__ == "__main__":
    main()
