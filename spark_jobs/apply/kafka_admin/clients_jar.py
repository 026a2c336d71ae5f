"""The kafka-clients jar: one version, known by its checksum, fetched once from Maven Central."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import tempfile
import urllib.request
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from spark_jobs.errors import BadInputError
from spark_jobs.settings import KafkaAdminSettings

VERSION = "4.2.0"
# As published beside the jar.
SHA512 = (
    "3aba94e85908e5fd9c2aea7a78b97ebc978c4b70147c0e8eee4d1257edb01534"
    "e4f0cedc47727082b089f4f46becbc90d3c0fe53e4ff8a72128960c17668bcdd"
)
NAME = f"kafka-clients-{VERSION}.jar"
PATH = f"org/apache/kafka/kafka-clients/{VERSION}/{NAME}"

_FETCH_S = 60.0
_PIECE_BYTES = 1 << 20
# The jar has 10 MB: an answer that goes on for ever is not it.
_BYTES_MAX = 64 << 20
_REMEDY = (
    f"Set QUOTA_AUDIT_KAFKA_CLIENTS_JAR to a copy of {NAME} from Maven Central, or "
    "QUOTA_AUDIT_KAFKA_MAVEN_URL to a mirror that can be reached."
)


def clients_jar(settings: KafkaAdminSettings) -> Path:
    """Return the path of the jar, fetched where it is not there yet.

    Whatever its way here, it has the checksum of :data:`SHA512`. Raises BadInputError.
    """
    if settings.clients_jar is not None:
        return _given(settings.clients_jar)
    kept = _cache(settings) / NAME
    if not (kept.is_file() and sha512_of(kept) == SHA512):
        _fetch(settings.maven_url, kept)
    return kept


def sha512_of(path: Path) -> str:
    """Return the SHA-512 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha512").hexdigest()


def _given(jar: Path) -> Path:
    try:
        found = sha512_of(jar)
    except OSError as error:
        raise BadInputError(
            f"QUOTA_AUDIT_KAFKA_CLIENTS_JAR: {jar} cannot be read: {error.strerror}."
        ) from error
    if found != SHA512:
        raise BadInputError(_other_file(f"QUOTA_AUDIT_KAFKA_CLIENTS_JAR: {jar}", found))
    return jar.absolute()


def _cache(settings: KafkaAdminSettings) -> Path:
    if settings.cache is not None:
        return settings.cache.absolute()
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "quota-audit"


def _fetch(maven_url: str, kept: Path) -> None:
    url = f"{maven_url.rstrip('/')}/{PATH}"
    if not re.match(r"https?://[^\s\[\]]+$", url):
        # Not shown: it may hold a password.
        raise BadInputError(
            "QUOTA_AUDIT_KAFKA_MAVEN_URL: expected an address as https://host/path, found another."
        )
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        # Fetched aside and renamed, so that a stopped or parallel run never leaves half a jar.
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".fetched-") as aside:
            fetched = Path(aside) / NAME
            _download(url, fetched)
            found = sha512_of(fetched)
            if found != SHA512:
                raise BadInputError(f"{_other_file(_shown(url), found)} {_REMEDY}")
            os.replace(fetched, kept)
    except (OSError, HTTPException) as error:
        raise BadInputError(
            f"The Kafka client cannot be fetched from {_shown(url)} into {kept.parent}: "
            f"{getattr(error, 'reason', None) or error}. {_REMEDY}"
        ) from error


def _download(url: str, target: Path) -> None:
    """Write what ``url`` answers; a proxy is taken from the environment, as HTTPS_PROXY."""
    with (
        urllib.request.urlopen(_request(url), timeout=_FETCH_S) as answer,
        target.open("wb") as file,
    ):
        while piece := answer.read(_PIECE_BYTES):
            file.write(piece)
            if file.tell() > _BYTES_MAX:
                raise OSError(f"the answer has more than {_BYTES_MAX} bytes")


def _request(url: str) -> urllib.request.Request:
    """Return the request; a user and password in the address are for that server only."""
    request = urllib.request.Request(_shown(url))
    parts = urlsplit(url)
    if parts.username:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        # Not a plain header: that one would follow a redirection to another server.
        request.add_unredirected_header(
            "Authorization", f"Basic {base64.b64encode(login.encode()).decode()}"
        )
    return request


def _other_file(what: str, found: str) -> str:
    return f"{what} is not the {NAME} expected: SHA-512 {found}, expected {SHA512}."


def _shown(url: str) -> str:
    """Return the address without a password that it may hold."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
