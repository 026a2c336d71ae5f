"""Kafka's own quota classes on the JVM, over many sequences in one start of it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.oracle.jars import QUICK, maven_jar, run_java

PROGRAM = Path(__file__).parent / "java" / "QuotaOracle.java"
MANAGER_PROGRAM = Path(__file__).parent / "java" / "QuotaManagerOracle.java"
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sequences:
    """The operations of S sensors in N rows, in order; ``QuotaOracle.java`` says what they mean."""

    samples: Int64s  # [S]
    window_ms: Int64s  # [S]
    sensor: Int64s  # [N]
    now_ms: Int64s  # [N]
    amount: Floats  # [N]
    bound: Floats  # [N], NaN where none is in force
    operation: Int64s  # [N]
    extra: Int64s  # [N]


def client_jars(kafka_version: str) -> list[Path]:
    """Return the jar of ``Rate`` and ``TokenBucket`` and what its ``Metrics`` logs through."""
    return [
        maven_jar(f"org.apache.kafka:kafka-clients:{kafka_version}"),
        maven_jar("org.slf4j:slf4j-api:1.7.36"),
    ]


def broker_jars(kafka_version: str) -> list[Path]:
    """Return the jars of the broker's ``QuotaUtils`` and mutation quotas, and of their clients."""
    # Scala's classes are in kafka_2.13, those that became Java's in kafka-server.
    broker = "kafka_2.13" if kafka_version < "4.2" else "kafka-server"
    return [
        *client_jars(kafka_version),
        maven_jar(f"org.apache.kafka:{broker}:{kafka_version}"),
        maven_jar(f"org.apache.kafka:kafka-server-common:{kafka_version}"),
        maven_jar("org.scala-lang:scala-library:2.13.16"),
    ]


def manager_jars(kafka_version: str) -> list[Path]:
    """Return the jars of the broker's ``ClientQuotaManager``: Scala up to 4.1, Java since 4.2."""
    jars = [
        maven_jar(f"org.apache.kafka:kafka-clients:{kafka_version}"),
        maven_jar(f"org.apache.kafka:kafka-server:{kafka_version}"),
        maven_jar(f"org.apache.kafka:kafka-server-common:{kafka_version}"),
        maven_jar("org.slf4j:slf4j-api:1.7.36"),
    ]
    if kafka_version < "4.2":
        jars += [
            maven_jar(f"org.apache.kafka:kafka_2.13:{kafka_version}"),
            maven_jar("org.scala-lang:scala-library:2.13.16"),
            maven_jar("com.typesafe.scala-logging:scala-logging_2.13:3.9.5"),
            maven_jar("org.apache.logging.log4j:log4j-api:2.24.3"),
            maven_jar("org.apache.logging.log4j:log4j-core:2.24.3"),
            maven_jar("commons-validator:commons-validator:1.9.0"),
        ]
    return jars


def run_oracle(
    jars: list[Path], *runs: tuple[str, Sequences], options: tuple[str, ...] = QUICK
) -> list[Int64s]:
    """Return what ``QuotaOracle.java`` says of each (mode, rows), as longs, end to end."""
    with tempfile.TemporaryDirectory() as folder:
        arguments, answers = [], []
        for number, (mode, rows) in enumerate(runs):
            given, answer = Path(folder) / f"{number}.in", Path(folder) / f"{number}.out"
            _longs(rows).astype("<i8").tofile(given)
            arguments += [mode, str(given), str(answer)]
            answers.append(answer)
        run_java(PROGRAM, jars, *arguments, options=options)
        return [np.fromfile(answer, "<i8").astype(np.int64) for answer in answers]


def _longs(rows: Sequences) -> Int64s:
    columns = [
        np.array([len(rows.samples), len(rows.sensor)]),
        *(rows.samples, rows.window_ms, rows.sensor, rows.now_ms),
        *(rows.amount.view(np.int64), rows.bound.view(np.int64), rows.operation, rows.extra),
    ]
    return np.concatenate(columns)


def bits(values: npt.ArrayLike) -> Int64s:
    """Return the bits of doubles, every NaN as Java's ``doubleToLongBits`` has it.

    What sign and payload a NaN gets is the processor's choice, not Kafka's.
    """
    doubles = np.array(values, np.float64)
    doubles[np.isnan(doubles)] = np.nan
    return doubles.view(np.int64)
