"""What the log covers: brokers, how each was replayed, and the first and last line of each."""

from __future__ import annotations

from dataclasses import dataclass, fields

from spark_jobs.warehouse.read import count_rows, read_batches, read_table
from spark_jobs.warehouse.scope import RunScope


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker of the run; times are epoch ms of log lines, None where it logged nothing."""

    broker_id: int
    version: str | None
    version_source: str
    rate_profile: str | None
    newer_than_known: str | None
    samples: int
    window_ms: int
    controller_samples: int
    controller_window_ms: int
    requests: int
    first_ms: int | None
    last_ms: int | None

    def remembers_ms(self, quota_type: str) -> int:
        """Return the time (ms) for which amounts count, and a full bucket holds the bound."""
        if quota_type == "controller_mutation_rate":
            return self.controller_samples * self.controller_window_ms
        return self.samples * self.window_ms


def brokers_of(scope: RunScope) -> tuple[Broker, ...]:
    """Return the brokers of the run in order of their id."""
    lines = read_batches(scope, "requests", ["broker_id", "log_time_ms"])
    counted = count_rows(lines, ["broker_id"], [("log_time_ms", "min"), ("log_time_ms", "max")])
    logged = {} if counted is None else {row["broker_id"]: row for row in counted.to_pylist()}
    brokers = []
    for row in read_table(scope, "brokers").sort_by("broker_id").to_pylist():
        seen = logged.get(row["broker_id"], {})
        brokers.append(
            Broker(
                **{f.name: row[f.name] for f in fields(Broker) if f.name in row},
                requests=seen.get("rows", 0),
                first_ms=seen.get("log_time_ms_min"),
                last_ms=seen.get("log_time_ms_max"),
            )
        )
    return tuple(brokers)


def span_of(brokers: tuple[Broker, ...]) -> tuple[int, int] | None:
    """Return the times of the log's first and last request in epoch ms; None without requests."""
    first = [b.first_ms for b in brokers if b.first_ms is not None]
    last = [b.last_ms for b in brokers if b.last_ms is not None]
    return (min(first), max(last)) if first and last else None
