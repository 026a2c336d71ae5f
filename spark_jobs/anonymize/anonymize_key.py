"""The secret key of an anonymized copy: from a file, from the environment, or made up."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from spark_jobs.errors import BadInputError
from spark_jobs.settings import AnonymizeSettings

KEY_BYTES_MIN, _KEY_BYTES_MAX = 16, 4096
_MADE_BYTES = 32


def anonymize_key(key_file: Path | None) -> bytes:
    """Return the key in ``key_file``, else that of the settings, else a new one.

    A key file that is not there is made, for its owner only; without one, a new key is kept
    nowhere. Raises BadInputError for a key that could be guessed; no message quotes one.
    """
    if key_file is not None:
        return _checked(_of_file(key_file), f"the key in {key_file}")
    setting = AnonymizeSettings().key
    if setting is not None:
        key = setting.get_secret_value().strip().encode("utf-8", "surrogateescape")
        return _checked(key, "QUOTA_AUDIT_ANONYMIZE_KEY")
    return secrets.token_bytes(_MADE_BYTES)


def _of_file(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _read(path)
    except OSError as error:
        raise BadInputError(f"The key file {path} cannot be made: {error.strerror}.") from error
    key = secrets.token_hex(_MADE_BYTES).encode()
    with os.fdopen(descriptor, "wb") as file:
        file.write(key + b"\n")
    return key


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_KEY_BYTES_MAX + 1).strip()
    except OSError as error:
        raise BadInputError(f"The key file {path} cannot be read: {error.strerror}.") from error


def _checked(key: bytes, where: str) -> bytes:
    if not KEY_BYTES_MIN <= len(key) <= _KEY_BYTES_MAX:
        raise BadInputError(
            f"Found {where} with {len(key)} bytes, expected {KEY_BYTES_MIN} to {_KEY_BYTES_MAX:,}, "
            "such as what `openssl rand -hex 32` prints. Names could be guessed by a shorter one."
        )
    return key
