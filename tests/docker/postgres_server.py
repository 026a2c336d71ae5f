"""A PostgreSQL server of a test's own: on loopback, not as root, gone when the block ends."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

USER = DATABASE = "airflow"
HOW_TO_GET_ONE = (
    "no PostgreSQL server on this machine (initdb and postgres, on PATH or below "
    "/usr/lib/postgresql): `apt-get install postgresql` brings both"
)
_START_S = 120.0


def binaries() -> Path | None:
    """Return the folder with ``initdb`` and ``postgres``, the newest Debian has; None = none."""
    on_path = [Path(found).parent for found in [shutil.which("initdb")] if found]
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    newest_first = sorted(debian, key=lambda path: path.parent.name.zfill(4), reverse=True)
    folders = [*on_path, *newest_first]
    return next((f for f in folders if (f / "initdb").exists() and (f / "postgres").exists()), None)


@contextmanager
def postgres_server(folder: Path, port: int, password: str) -> Iterator[None]:
    """Run an empty database :data:`DATABASE` on 127.0.0.1 while the block lasts.

    PostgreSQL refuses to be root; for root it runs as `postgres`, or `nobody`. TimeoutError with
    the server's log where it does not come up.
    """
    import psycopg2

    found = binaries()
    assert found is not None, HOW_TO_GET_ONE
    # Not below pytest's folder, which only the tests' own user may enter.
    with tempfile.TemporaryDirectory(prefix="quota-audit-postgres-") as name:
        home, identity = Path(name), _identity()
        (home / "password").write_text(password)
        if identity:
            for path in (home, home / "password"):
                os.chown(path, identity["user"], identity["group"])
        data = str(home / "data")
        subprocess.run(
            [str(found / "initdb"), "--pgdata", data, "--username", USER, "--pwfile",
             str(home / "password"), "--auth", "scram-sha-256", "--encoding", "UTF8", "--no-sync"],
            check=True, stdout=subprocess.DEVNULL, cwd=home, **identity,
        )  # fmt: skip
        log = folder / "postgres.log"
        with log.open("wb") as out:
            server = subprocess.Popen(
                [str(found / "postgres"), "-D", data, "-h", "127.0.0.1", "-p", str(port),
                 "-k", name, "-F"],
                stdout=out, stderr=subprocess.STDOUT, cwd=home, start_new_session=True, **identity,
            )  # fmt: skip
        try:
            connect = {"host": "127.0.0.1", "port": port, "user": USER, "password": password}
            deadline = time.monotonic() + _START_S
            while True:
                try:
                    connection = psycopg2.connect(dbname="postgres", **connect)
                    break
                except psycopg2.OperationalError as error:
                    if server.poll() is not None or time.monotonic() > deadline:
                        raise TimeoutError(log.read_text()) from error
                    time.sleep(0.1)
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(f"CREATE DATABASE {DATABASE}")
            connection.close()
            yield
        finally:
            # PostgreSQL's "fast shutdown": clients are sent away, and all its processes end.
            server.send_signal(signal.SIGINT)
            server.wait(timeout=_START_S)


def _identity() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = known.get("postgres") or known["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
