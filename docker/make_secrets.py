"""Make the secrets of compose.yaml: ``python3 docker/make_secrets.py FOLDER``.

A secret that is there already is kept. Standard library only: it runs on the host, before there
is an image.
"""

from __future__ import annotations

import base64
import secrets
import sys
from pathlib import Path

# Bytes of each secret. Fernet keys have 32; HS512, which signs the tokens, wants 64.
SECRETS = {
    "postgres_password": 24,
    "admin_password": 18,
    "fernet_key": 32,
    "api_secret_key": 32,
    "jwt_secret": 64,
    "spark_defaults": 32,
}
# Spark reads its secret from its own file of properties, and from no file of the secret alone.
TEXTS = {
    "spark_defaults": "spark.authenticate true\n"
    "spark.authenticate.secret {}\n"
    "spark.network.crypto.enabled true\n",
}


def make_secrets(folder: Path) -> list[str]:
    """Write the secrets that ``folder`` lacks, URL-safe base64; return their names.

    The folder is its owner's alone. The files in it can be read by anyone who is let in: compose
    mounts them as they are, and containers run as users that this machine does not have.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    made = [name for name in SECRETS if not (folder / name).exists()]
    for name in made:
        value = base64.urlsafe_b64encode(secrets.token_bytes(SECRETS[name])).decode()
        (folder / name).write_text(TEXTS.get(name, "{}").format(value), encoding="utf-8")
        (folder / name).chmod(0o444)
    return made


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python3 docker/make_secrets.py FOLDER")
    names = make_secrets(Path(sys.argv[1]))
    print(f"{sys.argv[1]}: made {', '.join(names) or 'nothing, all of them are there'}")
