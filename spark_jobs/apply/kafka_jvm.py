"""A JVM with Kafka's client on its class path, driven from here for as long as a block lasts.

It is the Java that Spark runs on, with the jars of py4j and slf4j that PySpark brings. It listens
on loopback for this process only (py4j's token), ends with it, and logs nothing: what has to be
said comes as an exception, and a log could hold what must not be shown. The jar of Kafka's client
is one version, known by its checksum, fetched once from Maven Central.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import re
import shlex
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError

from spark_jobs.apply.kafka_errors import OwnExceptionsClient
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
_OF_PYSPARK = ("slf4j-api-*.jar", "jackson-core-*.jar", "jackson-databind-*.jar",
               "jackson-annotations-*.jar")  # fmt: skip
_OPTIONS = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dslf4j.provider=org.slf4j.helpers.NOP_FallbackServiceProvider",
    "-Dslf4j.internal.verbosity=ERROR",
)
_GRACE_S = 5.0
_MOMENT_S = 1.0
_LINES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class KafkaJvm:
    """A running JVM and the way to it."""

    gateway: JavaGateway
    _process: subprocess.Popen[bytes]
    _said: IO[str]

    def ending(self) -> str | None:
        """Return the exit code and last words of the JVM if it ends within 1 s; None: it runs."""
        try:
            code = self._process.wait(_MOMENT_S)
        except subprocess.TimeoutExpired:
            return None
        return f"exit code {code}: {_last_lines(self._said)}"


@contextmanager
def kafka_jvm(jar: Path, settings: KafkaAdminSettings) -> Iterator[KafkaJvm]:
    """Yield a new JVM that has ``jar``; it has ended after the block.

    Raises BadInputError where Java does not start.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        port, token, process = _launch(jar, settings, said)
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        gateway = JavaGateway(
            gateway_client=OwnExceptionsClient(gateway_parameters=parameters),
            gateway_parameters=parameters,
        )
        try:
            yield KafkaJvm(gateway, process, said)
        finally:
            _end(gateway, process)


def _launch(
    jar: Path, settings: KafkaAdminSettings, said: IO[str]
) -> tuple[int, str, subprocess.Popen[bytes]]:
    jars = _pyspark_jars()
    class_path = [str(jar), *(str(one) for pattern in _OF_PYSPARK for one in jars.glob(pattern))]
    try:
        port, token, process = launch_gateway(
            jarpath=str(next(jars.glob("py4j-*.jar"))),
            classpath=os.pathsep.join([*class_path, *filter(None, [settings.class_path])]),
            javaopts=[*_OPTIONS, *shlex.split(settings.java_options)],
            die_on_exit=True,
            redirect_stderr=said,
            java_path=None,
            # Ctrl-C in the terminal ends this process, and the JVM with it, in this order.
            create_new_process_group=True,
            enable_auth=True,
            return_proc=True,
        )
    except OSError as error:
        raise BadInputError(
            f"Java cannot be started ({error.strerror}): Kafka's Admin client needs the Java that "
            "Spark runs on. Install Java 17, or set JAVA_HOME to it."
        ) from error
    except ValueError as error:
        raise BadInputError(
            f"Java did not start: {_last_lines(said)}. Check JAVA_HOME and "
            "QUOTA_AUDIT_KAFKA_JAVA_OPTIONS."
        ) from error
    return port, token, process


def _last_lines(said: IO[str]) -> str:
    said.seek(0)
    last = " / ".join(said.read().splitlines()[-_LINES_SHOWN:])
    return last.rstrip(".") or "it said nothing"


def _pyspark_jars() -> Path:
    # Found without importing it: PySpark takes a second, and only its jars are wanted.
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None, "PySpark is a dependency of this project"
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations))) / "jars"


def _end(gateway: Any, process: subprocess.Popen[bytes]) -> None:
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    assert process.stdin is not None
    with suppress(OSError):
        # What it waits for: without a parent's pipe it exits.
        process.stdin.close()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


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
