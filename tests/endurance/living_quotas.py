"""Quotas of a real cluster, and a warehouse with proposals to change them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.apply.applied_changes import read_applications
from spark_jobs.apply.changes.quota_alteration import QuotaAlteration, QuotaKey
from spark_jobs.apply.kafka_jvm import VERSION
from spark_jobs.apply.kafka_quota_admin import KafkaQuotaAdmin, kafka_quota_admin
from spark_jobs.settings import KafkaAdminSettings
from tests.builders.tables_builder import row, scope_in, write_rows
from tests.oracle.cluster_plan import COMBINED
from tests.oracle.jars import maven_jar
from tests.oracle.lab import plan_cluster, running_cluster
from tests.oracle.scenario import Cluster

_PRODUCE, _CONSUME = "producer_byte_rate", "consumer_byte_rate"
_BEFORE: dict[QuotaKey, float] = {(_PRODUCE, f"user {n}", None): 1000.0 + n for n in range(30)}
_AFTER: dict[QuotaKey, float] = {
    (kind, f"user {n}", None): 2000.0 + n for n in range(30) for kind in (_PRODUCE, _CONSUME)
}
_SECONDS_MAX = 30


@dataclass(frozen=True, slots=True)
class LivingQuotas:
    """A running cluster, its admin, and a warehouse."""

    servers: str
    admin: KafkaQuotaAdmin
    warehouse: Path

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator[LivingQuotas]:
        """Start a cluster of Kafka 4.1.0 below ``folder``, on the loopback only."""
        folder.mkdir(parents=True)
        plan = plan_cluster("4.1.0", Cluster(at_ms=0, layout=COMBINED, settings={}))
        jar = maven_jar(f"org.apache.kafka:kafka-clients:{VERSION}")
        os.environ["QUOTA_AUDIT_KAFKA_CLIENTS_JAR"] = str(jar)
        with running_cluster(plan, ["alice"], folder / "cluster") as cluster:
            servers = cluster.plan.plaintext_servers
            with kafka_quota_admin(servers, None, KafkaAdminSettings(clients_jar=jar)) as admin:
                yield cls(servers, admin, folder / "warehouse")

    @property
    def apply(self) -> tuple[str, ...]:
        """Return the command that applies the proposals."""
        return ("apply", "--warehouse", "{}", "--bootstrap-server", self.servers, "--execute")

    @property
    def rollback(self) -> tuple[str, ...]:
        """Return the command that takes back the last changes."""
        return ("rollback", *self.apply[1:])

    def begin(self) -> None:
        """Let the quotas be as before, and nothing be recorded."""
        now = self._values()
        self.admin.alter(
            [
                QuotaAlteration(*key, now.get(key), _BEFORE.get(key))
                for key in _AFTER
                if now.get(key) != _BEFORE.get(key)
            ],
            validate_only=False,
        )
        deadline = time.monotonic() + _SECONDS_MAX
        while not self.is_before():
            assert time.monotonic() < deadline, f"not so within {_SECONDS_MAX} s"
            time.sleep(0.05)
        shutil.rmtree(self.warehouse, ignore_errors=True)
        names = ("quota_type", "quota_user", "quota_client_id")
        proposed = [
            row(
                "recommendations", **dict(zip(names, key, strict=True)),
                previous=_BEFORE.get(key), proposed=value,
            )
            for key, value in _AFTER.items()
        ]  # fmt: skip
        write_rows(scope_in(self.warehouse), "recommendations", proposed)

    def is_before(self) -> bool:
        """Return True if no quota is changed."""
        return self._values() == _BEFORE

    def is_after(self) -> bool:
        """Return True if all proposals are applied."""
        return self._values() == _AFTER

    def unrecorded(self) -> list[str]:
        """Return the quotas that are changed, and of which no application tells."""
        told = {
            (one["quota_type"], one["quota_user"], one["quota_client_id"])
            for application in read_applications(self.warehouse, "default")
            for one in application.rows
        }
        now = self._values()
        other = [key for key, value in now.items() if value not in (_BEFORE.get(key), _AFTER[key])]
        lost = [key for key in now if now[key] != _BEFORE.get(key) and key not in told]
        return [f"{key} has another value" for key in other] + [f"{key}: untold" for key in lost]

    def applications(self) -> int:
        """Return how many times something was applied."""
        return len(read_applications(self.warehouse, "default"))

    def _values(self) -> dict[QuotaKey, float]:
        found = self.admin.values([key[1:] for key in _AFTER])
        return {key: found[key] for key in _AFTER if key in found}
