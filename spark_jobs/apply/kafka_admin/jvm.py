"""A JVM with Kafka's client on its class path, driven from here for as long as a block lasts.

It is the Java that Spark runs on, with the jars of py4j and slf4j that PySpark brings. It listens
on loopback for this process only (py4j's token), ends with it, and logs nothing: what has to be
said comes as an exception, and a log could hold what must not be shown.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError

from spark_jobs.apply.kafka_admin.own_exceptions import OwnExceptionsClient
from spark_jobs.errors import BadInputError
from spark_jobs.settings import KafkaAdminSettings

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
        """Return how the JVM has ended, or does within a moment; None: it runs."""
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
