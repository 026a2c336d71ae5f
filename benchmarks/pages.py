"""How long the pages take on a large warehouse: 30 days, 50 brokers, 1000 clients, 50 at a time.

    python -m benchmarks.pages DIR          writes the warehouse into DIR where it is not there yet
    python -m benchmarks.pages DIR --days 3 a smaller one

Every page is asked for over HTTP on the loopback, each time for another client, day and range; the
times are of the server, from the request's first byte to the answer's last. Printed: p50 and p95
in ms, bytes of an answer, and the rows of the tables.
"""

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn
from fastapi import FastAPI

from quota_pages.addresses import Addresses
from quota_pages.router import page_router
from spark_jobs.judge.judge_decisions import write_rollups
from spark_jobs.publish.audit_outcome import OUTCOME_NAME, AuditOutcome, outcome_text
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import DECISIONS, RATE_ROLLUPS, RATES, ROLLUP_SPANS_MS
from spark_jobs.warehouse.write import ROWS_IN_GROUP, write_table
from tests.builders.tables_builder import row

CLUSTER = "east"
LAST_DAY = dt.date(2026, 11, 20)
BROKERS, CLIENTS, ACTIVE = 50, 1000, 50
BUSY_SECONDS = 2_000  # of each active client on each broker, on the last two days
PRODUCE = "producer_byte_rate"
ROUNDS = 40
_DAY_MS = ROLLUP_SPANS_MS[-1]
_SPANS = (("minute", 60_000), ("hour", 3_600_000))


def name_of(client: int) -> str:
    """Return the user of a client, in an order that is not the numbers'."""
    return f"team-{client % 37:02d}-service-{client:04d}"


def day_ms(day: dt.date) -> int:
    """Return the day's first millisecond."""
    return (day.toordinal() - dt.date(1970, 1, 1).toordinal()) * _DAY_MS


def write_day(scope: RunScope, seed: int, *, is_recent: bool) -> int:
    """Write what the pages read of a day; return the rows."""
    chance = np.random.default_rng(seed)
    active = sorted(chance.choice(CLIENTS, ACTIVE, replace=False), key=name_of)
    spans = _rollups(scope, active, chance)
    write_rollups(spans, scope)
    written = sum(rows.num_rows for rows in spans)
    small = {
        "demand": [row("demand", quota_user=name_of(c), broker_id=b)
                   for c in range(CLIENTS) for b in range(BROKERS)],
        "files": [row("files")],
        "brokers": [row("brokers", broker_id=b) for b in range(BROKERS)],
        "findings": [row("findings", finding_id=f"f-{i}", quota_user=name_of(active[i % ACTIVE]),
                         from_ms=day_ms(scope.day) + i * 60_000,
                         until_ms=day_ms(scope.day) + i * 60_000 + 30_000) for i in range(100)],
        "recommendations": [row("recommendations", quota_user=name_of(c), quota_client_id=None)
                            for c in range(CLIENTS)],
    }  # fmt: skip
    for table, found in small.items():
        write_table(pa.Table.from_pylist(found), table, scope)
        written += len(found)
    if is_recent:
        written += _write_seconds(scope, active, chance) + _write_decisions(scope, active, chance)
    reports = scope.output_dir("reports")
    reports.mkdir(parents=True, exist_ok=True)
    (reports / OUTCOME_NAME).write_text(outcome_text(_outcome(scope)))
    return written


def _rollups(scope: RunScope, active: list[int], chance: np.random.Generator) -> list[pa.Table]:
    parts = []
    for _, span_ms in _SPANS:
        steps = _DAY_MS // span_ms
        n = ACTIVE * BROKERS * steps
        users = np.repeat([name_of(c) for c in active], BROKERS * steps)
        brokers = np.tile(np.repeat(np.arange(BROKERS), steps), ACTIVE)
        starts = np.tile(day_ms(scope.day) + np.arange(steps) * span_ms, ACTIVE * BROKERS)
        parts.append(_rollup_rows(span_ms, users, brokers, starts, n, chance))
    users = np.repeat(sorted(map(name_of, range(CLIENTS))), BROKERS)
    brokers, starts = (
        np.tile(np.arange(BROKERS), CLIENTS),
        np.full(CLIENTS * BROKERS, day_ms(scope.day)),
    )
    parts.append(_rollup_rows(_DAY_MS, users, brokers, starts, len(users), chance))
    return parts


def _rollup_rows(
    span_ms: int, users: np.ndarray, brokers: np.ndarray, starts: np.ndarray, n: int,
    chance: np.random.Generator,
) -> pa.Table:  # fmt: skip
    rate = chance.gamma(4.0, 300_000.0, n).round()
    throttled = (chance.random(n) < 0.05) * chance.integers(1, 400, n)
    columns = {
        "span_ms": np.full(n, span_ms), "broker_id": brokers.astype(np.int32),
        "quota_type": pa.repeat(PRODUCE, n), "quota_user": pa.array(users).cast(pa.string()),
        "quota_client_id": pa.repeat("", n), "from_ms": starts,
        "seconds": np.full(n, span_ms // 1000), "amount": rate * span_ms / 1000, "rate": rate,
        "tokens": pa.nulls(n, pa.float64()), "bound_min": np.full(n, 2e6),
        "bound_max": np.full(n, 2e6), "throttled_requests": throttled,
        "throttle_time_ms": throttled * 37,
    }  # fmt: skip
    return pa.table([pa.array(columns[name]) for name in RATE_ROLLUPS.names], schema=RATE_ROLLUPS)


def _write_seconds(scope: RunScope, active: list[int], chance: np.random.Generator) -> int:
    """Write ``rates`` as the replay does: eight files, each with rows of every sensor in order."""
    folder = scope.partition_dir("rates")
    folder.mkdir(parents=True)
    n = ACTIVE * BROKERS * BUSY_SECONDS // 8
    for part in range(8):
        per_sensor = BUSY_SECONDS // 8
        second = np.sort(chance.integers(0, 86_400, (ACTIVE * BROKERS, per_sensor)), axis=1).ravel()
        users = np.repeat([name_of(c) for c in active], BROKERS * per_sensor)
        brokers = np.tile(np.repeat(np.arange(BROKERS), per_sensor), ACTIVE).astype(np.int32)
        columns = {
            "broker_id": brokers, "quota_type": pa.repeat(PRODUCE, n),
            "quota_user": pa.array(users).cast(pa.string()), "quota_client_id": pa.repeat("", n),
            "second_ms": day_ms(scope.day) + second * 1000,
            "amount": chance.random(n) * 1e6, "rate": chance.random(n) * 2.2e6,
            "tokens": pa.nulls(n, pa.float64()), "bound": np.full(n, 2e6),
            "throttled_requests": chance.integers(0, 3, n),
            "throttle_time_ms": chance.integers(0, 90, n),
        }  # fmt: skip
        table = pa.table([pa.array(columns[c]) for c in RATES.names], schema=RATES)
        pq.write_table(
            table, folder / f"part-{part}.parquet", compression="zstd", row_group_size=ROWS_IN_GROUP
        )
    return n * 8


def _write_decisions(scope: RunScope, active: list[int], chance: np.random.Generator) -> int:
    per_sensor = 1000
    n = ACTIVE * BROKERS * per_sensor
    at_ms = np.sort(chance.integers(0, _DAY_MS, (ACTIVE * BROKERS, per_sensor)), axis=1).ravel()
    brokers = np.tile(np.repeat(np.arange(BROKERS), per_sensor), ACTIVE)
    users = np.repeat([name_of(c) for c in active], BROKERS * per_sensor)
    one = row("decisions")
    columns = {name: pa.repeat(pa.scalar(one[name], DECISIONS.field(name).type), n)
               for name in DECISIONS.names}  # fmt: skip
    columns |= {
        "broker_id": pa.array(brokers.astype(np.int32)),
        "quota_user": pa.array(users).cast(pa.string()),
        "recorded_at_ms": pa.array(day_ms(scope.day) + at_ms),
        "sensor_seq": pa.array(np.tile(np.arange(per_sensor), ACTIVE * BROKERS)),
        "logged_throttle_time_ms": pa.array((chance.random(n) < 0.05).astype(np.int32) * 40),
        "source_line": pa.array(np.arange(n)),
    }  # fmt: skip
    table = pa.table([columns[name] for name in DECISIONS.names], schema=DECISIONS)
    write_table([(table, ROWS_IN_GROUP)], "decisions", scope)
    return n


def _outcome(scope: RunScope) -> AuditOutcome:
    return AuditOutcome(
        cluster=scope.cluster, day=str(scope.day), mood="warning", title="100 findings need a look",
        brokers=BROKERS, requests=10**9, decisions=10**9, agree=10**9, indeterminate=0, wrong=100,
        throttles=10**6, throttles_within_1ms=10**6, throttled_clients=ACTIVE,
        throttled_requests=10**6, throttle_time_ms=10**8, findings={"critical": 1, "warning": 99},
        proposals=10, data_quality="passed", broken_rules=0,
    )  # fmt: skip


def pages(to: Addresses, days: list[dt.date], turn: int) -> Iterator[tuple[str, str]]:
    """Yield name and address of every page, for another client, day and hour each turn."""
    chance = np.random.default_rng(turn)
    recent = days[-1 - turn % min(2, len(days))]
    any_day = days[int(chance.integers(len(days)))]
    seed = LAST_DAY.toordinal() - recent.toordinal()
    active = sorted(np.random.default_rng(seed).choice(CLIENTS, ACTIVE, replace=False), key=name_of)
    user = name_of(active[turn % ACTIVE])
    at = dt.datetime.combine(recent, dt.time(int(chance.integers(22))), dt.UTC)
    month = dt.datetime.combine(days[0], dt.time(), dt.UTC)

    def seen(length: dt.timedelta) -> dict[str, object]:
        return {"from": at.isoformat(), "until": (at + length).isoformat()}

    yield "overview", to.overview()
    yield "audit", to.audit(CLUSTER, any_day)
    yield "clients", to.entities(CLUSTER, any_day, q="service-0")
    yield "client, a day", to.entity(CLUSTER, recent, user, "", **seen(dt.timedelta(days=1)))
    yield "client, an hour", to.entity(CLUSTER, recent, user, "", **seen(dt.timedelta(hours=1)))
    yield "client, a minute", to.entity(CLUSTER, recent, user, "", **seen(dt.timedelta(minutes=1)))
    whole = {"from": month.isoformat(), "until": (month + dt.timedelta(days=30)).isoformat()}
    yield "client, 30 days", to.entity(CLUSTER, recent, user, "", **whole)
    yield "finding", to.finding(CLUSTER, recent, f"f-{turn % 100}")
    yield "recommendations", to.recommendations(CLUSTER, any_day)
    line = f"broker=1/kafka-request.log:{int(chance.integers(ACTIVE * BROKERS * 1000))}"
    yield "explain", to.explain(cluster=CLUSTER, day=recent, line=line)
    yield "what-if", to.whatif(CLUSTER, any_day)
    yield "data quality", to.quality(CLUSTER, any_day)


def main() -> None:
    """Write the warehouse where it is missing, ask for every page, print the times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--days", type=int, default=30)
    asked = parser.parse_args()
    days = [LAST_DAY - dt.timedelta(days=i) for i in reversed(range(asked.days))]
    for day in days:
        scope = RunScope(asked.folder, CLUSTER, day)
        if not (scope.output_dir("reports") / OUTCOME_NAME).is_file():
            seed = LAST_DAY.toordinal() - day.toordinal()
            written = write_day(scope, seed, is_recent=seed < 2)
            print(f"{day}: {written:,} rows", flush=True)
    files = asked.folder.rglob("*.parquet")
    print(f"{sum(pq.read_metadata(file).num_rows for file in files):,} rows")
    inner = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    inner.include_router(page_router(asked.folder, "quota_audit_daily"))
    app = FastAPI()
    app.mount("/quota-audit", inner)
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", 0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    times: dict[str, list[float]] = {}
    sizes: dict[str, int] = {}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
        for turn in range(-2, ROUNDS):
            for name, address in pages(Addresses("/quota-audit"), days, turn % ROUNDS):
                started = time.perf_counter()
                got = client.get(address)
                taken_ms = (time.perf_counter() - started) * 1000
                assert got.status_code == 200, (name, got.status_code, got.text[:400])
                sizes[name] = len(got.content)
                # Two turns to import and open what is imported and opened once.
                if turn >= 0:
                    times.setdefault(name, []).append(taken_ms)
    server.should_exit = True
    thread.join()
    print(f"{'page':<18}{'p50 ms':>8}{'p95 ms':>8}{'kB':>7}")
    for name, found in times.items():
        p95 = statistics.quantiles(found, n=20)[-1]
        print(f"{name:<18}{statistics.median(found):>8.0f}{p95:>8.0f}{sizes[name] / 1000:>7.0f}")


if __name__ == "__main__":
    main()
