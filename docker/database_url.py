"""Print the address of Airflow's database: ``database_url.py HOST[:PORT] PASSWORD_FILE``.

Airflow runs it in each of its processes (``…SQL_ALCHEMY_CONN_CMD``), so that the password is in
no environment and no process's arguments. Standard library only: it must be quick.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import quote


def database_url(host: str, password: str) -> str:
    """Return the address for SQLAlchemy; any character may be in the password."""
    return f"postgresql+psycopg2://airflow:{quote(password, safe='')}@{host}/airflow"


if __name__ == "__main__":
    try:
        secret = Path(sys.argv[2]).read_text(encoding="utf-8").strip()
    except OSError as error:
        sys.exit(f"the database's password cannot be read: {error}. See docs/docker.md.")
    if not secret:
        sys.exit(f"{sys.argv[2]} is empty, but should hold the database's password.")
    # Airflow takes all of the output: a newline would belong to the database's name.
    print(database_url(sys.argv[1], secret), end="")
