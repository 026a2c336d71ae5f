"""How the brokers of a day are shared among tasks, and that it changes no decision."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.made_requests import make_warehouse
from benchmarks.made_traffic import Traffic
from spark_jobs.replay.broker_rules import rules_of
from spark_jobs.replay.broker_stream import RowGroup, request_chunks, row_groups
from spark_jobs.replay.day_edges import interval_of
from spark_jobs.replay.rates.recorded_amounts import ANSWER_COLUMNS
from spark_jobs.replay.rates.sensor_codes import Share
from spark_jobs.replay.replay_broker import (
    SHARES_MAX,
    BrokerShare,
    ReplayTask,
    broker_shares,
    replay_broker,
)
from spark_jobs.replay.replay_quotas import tolerances
from spark_jobs.replay.sensors.lost_requests import LostRequests
from spark_jobs.replay.sensors.resolution_table import ResolutionTable
from spark_jobs.resolve.broker_log import BrokerLog
from spark_jobs.resolve.resolve_quotas import read_timeline, resolve_quotas
from spark_jobs.settings import JudgeSettings
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.tables import REQUESTS, TABLES
from spark_jobs.warehouse.worker_files import REQUESTS_SEARCHED_BY, layout
from tests.builders.tables_builder import row

TRAFFIC = Traffic(requests=30_000, brokers=2, clients=40, throttled_clients=4, span_ms=300_000)
WRITTEN = ("decisions", "rates", "quota_state", "agreement")


def groups(rows: int) -> list[RowGroup]:
    return [RowGroup("f", 0, rows, 0, False)]


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 10**9), min_size=1), st.integers(1, 64))
def test_every_sensor_is_in_one_share_of_its_broker(rows: dict[int, int], tasks: int) -> None:
    shares = broker_shares({b: groups(n) for b, n in rows.items()}, tasks)
    name = ("alice", "app")
    with_it = Counter(each.broker_id for each in shares if each.share.has(name))
    assert with_it == Counter(rows.keys())
    assert [s.rows for s in shares] == sorted((s.rows for s in shares), reverse=True)
    assert max(each.share.of for each in shares) <= SHARES_MAX


def test_only_a_broker_with_more_than_a_tasks_part_is_shared() -> None:
    even = broker_shares({b: groups(100) for b in range(4)}, 2)
    assert [each.share.of for each in even] == [1, 1, 1, 1]
    hot = broker_shares({0: groups(400), 1: groups(100), 2: groups(100)}, 6)
    assert Counter(each.broker_id for each in hot) == {0: 4, 1: 1, 2: 1}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunScope:
    scope = make_warehouse(tmp_path_factory.mktemp("made"), TRAFFIC)
    resolve_quotas(scope)
    return scope


def replayed(scope: RunScope, folder: Path, of: int) -> dict[str, pa.Table]:
    """Return what tasks with ``of`` shares of each broker write, in order of all columns."""
    task = ReplayTask(
        rules=rules_of(scope, {}),
        resolutions=ResolutionTable(read_timeline(scope), {}),
        carried={},
        controller_listeners=frozenset(),
        broker_log=BrokerLog(),
        lost=LostRequests(),
        tolerances=tolerances(JudgeSettings()),
        folder=folder,
        read_us={},
        has_request_quotas=False,
        interval=interval_of(scope),
    )
    brokers = row_groups(scope.partition_dir("requests"))
    for broker_id, where in brokers.items():
        for place in range(of):
            replay_broker(BrokerShare(broker_id, where, Share(place, of)), task)
    found = {}
    for table in WRITTEN:
        files = sorted((folder / table).glob("*.parquet"))
        rows = pa.concat_tables([pq.read_table(f) for f in files]).cast(TABLES[table])
        order = [n for n in rows.column_names if not pa.types.is_nested(rows.schema.field(n).type)]
        found[table] = rows.sort_by([(name, "ascending") for name in order])
    return found


def test_shares_decide_what_the_whole_broker_does(made: RunScope, tmp_path: Path) -> None:
    whole, shared = (replayed(made, tmp_path / str(of), of) for of in (1, 3))
    assert whole["decisions"].num_rows == TRAFFIC.requests
    assert whole == shared


def test_a_sound_brokers_log_is_agreed_with(made: RunScope, tmp_path: Path) -> None:
    found = replayed(made, tmp_path, 1)["decisions"]
    throttled = found.filter(pa.compute.greater(found["logged_throttle_time_ms"], 0))
    assert throttled.num_rows > 200
    assert Counter(found["verdict"].to_pylist()) == {"agree": TRAFFIC.requests}


@pytest.mark.parametrize("rows_min", [1, 2_000, 10**9])
def test_chunks_hold_every_request_once_and_in_order(made: RunScope, rows_min: int) -> None:
    brokers = row_groups(made.partition_dir("requests"))
    places: list[tuple[int, str, int]] = []
    until_ms: int | None = 0
    for requests, order, until in request_chunks(brokers[1], 1, rows_min):
        assert until_ms is not None
        rows: list[dict[str, Any]] = requests.take(pa.array(order)).to_pylist()
        times = [row["recorded_estimate_us"] // 1000 for row in rows]
        assert all(at >= until_ms and (until is None or at < until) for at in times)
        places += [(row["recorded_estimate_us"], row["source_file"], row["source_line"])
                   for row in rows]  # fmt: skip
        until_ms = until
    assert until_ms is None
    assert places == sorted(places)
    assert len(set(places)) == TRAFFIC.requests // TRAFFIC.brokers


@pytest.mark.parametrize("throttle_time_ms", [0, 7])
def test_what_fetches_were_given_is_read_only_where_one_was_throttled(
    tmp_path: Path, throttle_time_ms: int
) -> None:
    fetch = {"api_key": 1, "api_name": "FETCH", "throttle_time_ms": throttle_time_ms}
    answer = {"topics": [{"topic": "t", "records_bytes": 5}], "error_codes": [0, 6]}
    rows = [row("requests", throttle_time_ms=9), row("requests", **fetch, **answer)]
    table = pa.Table.from_pylist(rows, REQUESTS)
    pq.write_table(table, tmp_path / "part.parquet", **layout(REQUESTS, REQUESTS_SEARCHED_BY))
    ((broker_id, where),) = row_groups(tmp_path).items()
    ((requests, _, _),) = request_chunks(where, broker_id)
    read = requests.select([c for c in ANSWER_COLUMNS if c in requests.column_names])
    given = {"topics": [{"records_bytes": 5}], "error_codes": [0, 6]}
    assert read.to_pylist()[1:] == [given if throttle_time_ms else {}]
