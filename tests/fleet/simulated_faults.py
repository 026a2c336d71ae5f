"""Faults planted into simulated brokers: how many of them the audit finds, and how small ones.

``python -m tests.fleet.simulated_faults [RUNS] [--seed N]`` simulates, audits and prints a table by
kind of fault and size, one by how many decisions a fault made wrong, one of the largest fault of
each kind that was not told, one by the size of a wrong throttle and the log's pauses, one of what
was said of those that were not told, the brokers whose fault was not told, and recall and
precision. A decision is planted where the log's throttle is not what a sound broker of the version
gives at that record. It is found where the audit calls it wrong, and told where it does, or a
warning or critical finding on its sensor covers it. One that is not told and agrees is what a sound
broker gives at another time that the log admits.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from spark_jobs.ingest.archive import find_archive
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.replay.verdicts.verdicts import QUOTA_CHANGE_IN_FLIGHT
from spark_jobs.spark.spark_session import spark_session
from spark_jobs.warehouse.read import read_table
from tests.fleet.fleet_progress import count, seed_of
from tests.fleet.fleet_table import WIDTH, shown_share
from tests.fleet.planted_faults import (
    ALTERED,
    LATE_CHANGE,
    OTHER_PROFILE,
    OTHER_VERSIONS,
    WRONG_BOUND,
    Fault,
    due_throttles_ms,
    faulty_words,
    planted_faults,
    with_lasting_admins,
)
from tests.fleet.random_cluster import simulated_clusters
from tests.fleet.run_score import ACCUSING_SEVERITIES, is_accused
from tests.fleet.simulated_fleet import SPARK, brokers_of_an_archive
from tests.fleet.simulated_plan import PRODUCE, SECOND, SimulatedCluster
from tests.fleet.simulated_run import simulate
from tests.oracle.live_audit import audit_archive

TOLERANCE_MS = 2
_LOAD_BEGINS_US = (75 * SECOND,)
"""A log of a day tells what a sensor holds but for its first minute: the longest windows that are
drawn remember 66 s."""
_PROFILE_EVERY = 6
_SIZES: dict[str, tuple[float, ...]] = {
    WRONG_BOUND: (1.02, 1.05, 1.1, 1.3, 2.0),
    LATE_CHANGE: (5.0, 10.0),
    ALTERED: (10, 30, 100, 300),
}
_TRACES = (2, 5, 10, 30, 100)
_WRONG_BY_MS = (5, 10, 20, 40, 80, 160, 320)


class Judged(NamedTuple):
    """One decision on a produce of a broker with a fault."""

    fault: Fault
    run: str
    wrong_by_ms: int  # what was logged less what was due
    is_found: bool
    is_told: bool
    said: str  # its verdict, and the reason of one that is open
    pause_ms: int  # the longest of its broker


def judged_decisions(
    spark: SparkSession, cluster: SimulatedCluster, number: int
) -> Iterator[Judged]:
    """Yield the decisions on all produces of a cluster with faults, audited now."""
    is_other = number % _PROFILE_EVERY == 0
    said_version = OTHER_VERSIONS[cluster.kafka_version] if is_other else cluster.kafka_version
    cluster = with_lasting_admins(cluster)
    faults = planted_faults(cluster)
    if is_other:
        faults = dict.fromkeys(faults, Fault(OTHER_PROFILE))
    words_of = partial(faulty_words, faults=faults)
    with tempfile.TemporaryDirectory(prefix="quota-audit-faults-") as work:
        folder = Path(work) / cluster.name
        rows = simulate(cluster, folder, words_of, said_version)
        due_ms = due_throttles_ms(rows, cluster, said_version)
        archive = find_archive(folder, "default")
        scopes = audit_archive(spark, archive, Path(work) / "warehouse", IngestOptions.of())
        decisions, findings = (
            [
                row
                for scope in scopes
                for row in read_table(scope, table).to_pylist()
                if row["quota_type"] == PRODUCE and row["broker_id"] in faults
            ]
            for table in ("decisions", "findings")
        )
    stretches = defaultdict(list)
    for finding in findings:
        if finding["severity"] in ACCUSING_SEVERITIES:
            stretches[_sensor(finding)].append((finding["from_ms"], finding["until_ms"]))
    brokers = {broker.broker_id: broker for broker in cluster.brokers}
    pauses = {
        broker_id: max((us // 1000 for _, us in broker.pauses), default=0)
        for broker_id, broker in brokers.items()
    }
    for row in decisions:
        broker_id = row["broker_id"]
        due = due_ms[broker_id, row["connection"], row["correlation_id"]]
        wrong_by_ms = row["logged_throttle_time_ms"] - due
        is_found = is_accused(row)
        is_covered = any(
            from_ms <= row["recorded_at_ms"] < until_ms
            for from_ms, until_ms in stretches[_sensor(row)]
        )
        yield Judged(
            fault=faults[broker_id],
            run=cluster.run_of(brokers[broker_id]).name,
            wrong_by_ms=wrong_by_ms,
            is_found=is_found,
            is_told=is_found or is_covered,
            said=row["reason"] or row["verdict"],
            pause_ms=pauses[broker_id],
        )


def _sensor(row: Mapping[str, Any]) -> tuple[object, ...]:
    return row["broker_id"], row["quota_user"], row["quota_client_id"]


_EXCUSED = ("agree", QUOTA_CHANGE_IN_FLIGHT)
_FOUND, _TOLD = (Judged._fields.index(name) for name in ("is_found", "is_told"))


def is_planted(one: Judged) -> bool:
    """Return whether the log's throttle is not what was due."""
    return abs(one.wrong_by_ms) > TOLERANCE_MS


def print_faults(console: Console, judged: Sequence[Judged]) -> None:
    """Print the tables, and recall and precision in a line."""
    planted = [one for one in judged if is_planted(one)]
    told_runs = {one.run for one in planted if one.is_told}
    console.print(_kinds(judged))
    console.print(_traces(planted, told_runs))
    console.print(_always_told(planted, told_runs))
    console.print(_wrong_by(judged))
    console.print(_said_of_untold(planted))
    missed = Counter((one.run, one.fault) for one in planted if one.run not in told_runs)
    for (run, fault), decisions in sorted(missed.items(), key=lambda item: item[0][0]):
        console.print(f"not told: {run}, {fault}, {decisions} decisions", highlight=False)
    found, told = (sum(one[i] for one in planted) for i in (_FOUND, _TOLD))
    false = sum(one.is_found for one in judged) - found
    share, recall, precision = (
        shown_share(part, whole)
        for part, whole in ((told, len(planted)), (found, len(planted)), (found, found + false))
    )
    console.print(
        f"{told:,} of {len(planted):,} planted decisions told, {share}; {found:,} found: recall "
        f"{recall}, precision {precision}; {false} of {len(judged) - len(planted):,} sound ones "
        "called wrong",
        highlight=False,
    )
    excused = sum(not one.is_told and one.said in _EXCUSED for one in planted)
    share = shown_share(told, len(planted) - excused)
    console.print(
        f"{excused:,} of the others are what a sound broker gives at other times that their lines "
        f"admit, or within the time that a change takes: without them {share}",
        highlight=False,
    )


def _kinds(judged: Iterable[Judged]) -> Table:
    table = Table(
        "fault", "size", "brokers", "with a trace", "told", "decisions", "told", "share", "found",
        "recall", "sound, called wrong", title="Faults by kind and size",
    )  # fmt: skip
    groups = defaultdict(list)
    for one in judged:
        groups[one.fault.kind, _size(one.fault)].append(one)
    for (kind, size), own in sorted(groups.items()):
        planted = [one for one in own if is_planted(one)]
        told, found = ([one for one in planted if one[i]] for i in (_TOLD, _FOUND))
        false = sum(one.is_found for one in own) - len(found)
        table.add_row(
            kind, size, str(_brokers(own)), str(_brokers(planted)), str(_brokers(told)),
            f"{len(planted):,}", f"{len(told):,}", shown_share(len(told), len(planted)),
            f"{len(found):,}", shown_share(len(found), len(planted)), str(false),
        )  # fmt: skip
    return table


def _traces(planted: Iterable[Judged], told_runs: Container[str]) -> Table:
    """Return how many faults were told, of those that made so many decisions wrong."""
    table = Table("wrong decisions", "faults", "told", "recall", title="Faults by their traces")
    groups = defaultdict(list)
    for run, decisions in Counter(one.run for one in planted).items():
        groups[_bucket(decisions, _TRACES)].append(run in told_runs)
    for trace, own in sorted(groups.items()):
        table.add_row(trace, str(len(own)), str(sum(own)), shown_share(sum(own), len(own)))
    return table


def _always_told(planted: Sequence[Judged], told_runs: Container[str]) -> Table:
    """Return by kind the largest fault that was not told, and how much of larger ones was.

    A fault is as large as the number of its wrong decisions that no sound history explains.
    """
    table = Table(
        "fault", "faults", "told", "largest not told", "larger", "their decisions", "told", "share",
        title="The smallest faults, by wrong decisions that no sound history explains",
    )  # fmt: skip
    unexplained = [one for one in planted if one.is_told or one.said not in _EXCUSED]
    kinds = defaultdict(Counter[str])
    for one in unexplained:
        kinds[one.fault.kind][one.run] += 1
    for kind, sizes in sorted(kinds.items()):
        largest = max((n for run, n in sizes.items() if run not in told_runs), default=0)
        larger = {run for run, n in sizes.items() if n > largest}
        own = [one.is_told for one in unexplained if one.run in larger]
        table.add_row(
            kind, str(len(sizes)), str(sum(run in told_runs for run in sizes)), str(largest),
            str(len(larger)), f"{len(own):,}", f"{sum(own):,}", shown_share(sum(own), len(own)),
        )  # fmt: skip
    return table


def _brokers(judged: Iterable[Judged]) -> int:
    return len({(one.run) for one in judged})


def _size(fault: Fault) -> str:
    edges = _SIZES.get(fault.kind)
    if edges is None:
        return ""
    size = abs(fault.size)
    return _bucket(1 / size if fault.kind == WRONG_BOUND and size < 1 else size, edges)


def _bucket(size: float, edges: Sequence[float]) -> str:
    """Return which of the spans between edges a size is in.

    >>> _bucket(7, (5, 10)), _bucket(12, (5, 10)), _bucket(1, (5, 10))
    ('1: from 5', '2: from 10', '0: below 5')
    """
    place = sum(size >= edge for edge in edges)
    return f"{place}: from {edges[place - 1]:g}" if place else f"0: below {edges[0]:g}"


def _wrong_by(judged: Iterable[Judged]) -> Table:
    table = Table("wrong by, ms", "how", "longest pause", "decisions", "told", "share",
                  title="Wrong throttles by size and the log's pauses")  # fmt: skip
    planted: Counter[tuple[str, ...]] = Counter()
    found: Counter[tuple[str, ...]] = Counter()
    for one in judged:
        if is_planted(one):
            how = "too long" if one.wrong_by_ms > 0 else "too short"
            pause = "none" if not one.pause_ms else _bucket(one.pause_ms, (200, 1000))
            key = (_bucket(abs(one.wrong_by_ms), _WRONG_BY_MS), how, pause)
            planted[key] += 1
            found[key] += one.is_told
    for key in sorted(planted):
        recall = shown_share(found[key], planted[key])
        table.add_row(*key, f"{planted[key]:,}", f"{found[key]:,}", recall)
    return table


def _said_of_untold(planted: Iterable[Judged]) -> Table:
    table = Table(
        "said", "decisions", title="What was said of planted decisions that were not told"
    )
    said = Counter(one.said for one in planted if not one.is_told)
    for what, decisions in said.most_common():
        table.add_row(what, f"{decisions:,}")
    return table


def main() -> int:
    """Return 0 where all that was called wrong was planted, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=count, nargs="?", default=300, help="how many brokers")
    parser.add_argument("--seed", type=int, help="of the runs; by default the time of day")
    asked = parser.parse_args()
    seed = seed_of(asked.seed)
    print(f"seed {seed}", flush=True)
    judged: list[Judged] = []
    with spark_session("faults", SPARK) as spark:
        brokers = brokers_of_an_archive(asked.runs)
        clusters = simulated_clusters(seed, asked.runs, brokers, _LOAD_BEGINS_US)
        for number, cluster in enumerate(clusters, 1):
            judged += judged_decisions(spark, cluster, number)
    print_faults(Console(width=WIDTH), judged)
    return int(any(one.is_found and not is_planted(one) for one in judged))


if __name__ == "__main__":
    sys.exit(main())
