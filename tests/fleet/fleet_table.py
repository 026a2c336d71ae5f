"""The tables of a fleet: each run, versions, causes, what is undecided, accusations, limits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.table import Table

from spark_jobs.quota.codes import QUOTA_TYPES
from spark_jobs.score.score_capture import share
from tests.fleet.fleet_figures import CONFIDENCE, Totals, has_too_many_failed, limits, totals
from tests.fleet.run_score import Accusation, AccusingFinding, RunScore

WIDTH = 180
KEPT, OVER_LIMITS, MANY_FAILED = 0, 1, 3
"""Exit codes of a fleet: all limits kept, one of them missed, too many runs failed."""


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that gave nothing to score, and why."""

    name: str
    kafka_version: str
    why: str


def print_fleet(
    console: Console,
    scores: Sequence[RunScore],
    failed: Sequence[FailedRun],
    runs_shown: int = 200,
    *,
    findings_only: bool = False,
) -> int:
    """Print what a fleet found; return its exit code: KEPT, OVER_LIMITS or MANY_FAILED.

    Of more than ``runs_shown`` runs only those that accuse are listed one by one. Only findings
    miss a limit where ``findings_only``: of few runs the shares say little.
    """
    listed = scores if len(scores) <= runs_shown else [s for s in scores if s.is_accusing]
    tables: list[RenderableType] = [_runs(listed)] if listed else []
    tables += [_versions(scores), _types(scores), _undecided(scores), _causes(scores)]
    for table in tables:
        console.print(table)
    for score in scores:
        for line in accusation_lines(score):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    for one in failed:
        console.print(
            f"failed: {one.name} on {one.kafka_version}: {one.why}", markup=False, soft_wrap=True
        )
    demands = limits(scores)
    console.print(_limits(scores, failed))
    for line in [rate_line(totals(scores)), f"{len(failed)} runs failed"]:
        console.print(line, markup=False, highlight=False)
    if has_too_many_failed(len(failed), len(scores) + len(failed)):
        return MANY_FAILED
    is_kept = totals(scores).findings == 0
    is_kept &= findings_only or all(one.is_kept for one in demands)
    return KEPT if is_kept else OVER_LIMITS


def rate_line(total: Totals) -> str:
    """Return the rate of wrong decisions in one sentence."""
    return (
        f"{total.wrong} of {total.decided:,} judged decisions called wrong: "
        f"{total.wrong_per_million:.2f} per million, at most "
        f"{total.wrong_per_million_bound:.2f} with {CONFIDENCE:.0%} confidence; "
        f"{total.decisions - total.decided:,} more were not judged"
    )


def accusation_lines(score: RunScore) -> Iterable[str]:
    """Yield a line for each accused decision and each finding: what it takes to look for why."""
    name = f"{score.run.name} on {score.run.kafka_version}"
    for one in score.findings:
        yield f"{name}: finding {_finding(one)}: {one.explanation}"
    for row in score.accusations:
        yield f"{name}: {_accusation(row)}"


def _finding(one: AccusingFinding) -> str:
    sensor = f"{one.quota_type} ({one.quota_user!r}, {one.quota_client_id!r})"
    return (
        f"{one.severity} {one.kind} ({one.hypothesis}) on broker {one.broker_id}, {sensor}, "
        f"{one.wrong} wrong decisions"
    )


def _accusation(row: Accusation) -> str:
    logged = f"{row.logged_throttle_time_ms} ms{'' if row.logged_admitted else ' refused'}"
    replayed = f"{row.replayed_throttle_time_ms} ms"
    replayed += " refused" if row.replayed_admitted is False else ""
    return (
        f"{row.verdict} ({row.reason}) on broker {row.broker_id}, {row.quota_type} "
        f"({row.quota_user!r}, {row.quota_client_id!r}) of {row.bound}: logged {logged}, replayed "
        f"{replayed}, amount {row.amount}, proven {row.is_proven}, "
        f"{row.source_file}:{row.source_line}"
    )


def _runs(scores: Sequence[RunScore]) -> Table:
    table = Table("run", "version", "layout", "load", "pauses", *_FIGURES, title="Runs")
    for score in scores:
        run = score.run
        own = (run.name, run.kafka_version, run.layout, "load" if run.is_loaded else "")
        table.add_row(*own, str(run.pauses or ""), *_figures(totals([score])))
    return table


def _versions(scores: Sequence[RunScore]) -> Table:
    table = Table("version", "runs", "under load", *_FIGURES, title="Versions")
    of_version = defaultdict(list)
    for score in scores:
        of_version[score.run.kafka_version].append(score)
    in_order = sorted(of_version, key=lambda version: [int(n) for n in version.split(".")])
    for name, own in [*((v, of_version[v]) for v in in_order), ("all", list(scores))]:
        total = totals(own)
        table.add_row(name, str(total.runs), str(total.loaded), *_figures(total))
    return table


_FIGURES = (
    "decisions", "undecided", "produces agree", "throttles", "within 1 ms", "mutations",
    "mutations right", "missing", "wrong", "findings",
)  # fmt: skip


def _figures(total: Totals) -> list[str]:
    produces, mutations = total.produces, total.mutations
    return [
        f"{total.decisions:,}",
        shown_share(total.decisions - total.decided, total.decisions),
        shown_share(produces.agreeing, produces.decisions),
        f"{produces.throttled:,}",
        shown_share(produces.within_1ms, produces.throttled),
        f"{mutations.decisions:,}",
        shown_share(mutations.agreeing, mutations.decisions),
        str(total.missing),
        str(total.wrong),
        str(total.findings),
    ]


def _types(scores: Sequence[RunScore]) -> Table:
    table = Table("quota type", "decisions", "undecided", "wrong", title="Quota types")
    counted = _summed(score.verdicts for score in scores)
    wrong = Counter(row.quota_type for score in scores for row in score.accusations)
    for quota_type in QUOTA_TYPES:
        counts = counted.get(quota_type, Counter())
        undecided = shown_share(counts["indeterminate"], counts.total())
        table.add_row(quota_type, f"{counts.total():,}", undecided, str(wrong[quota_type]))
    return table


def _undecided(scores: Sequence[RunScore]) -> Table:
    table = Table("quota type", "reason", "decisions", "share", title="What is undecided, and why")
    decisions = _summed(score.verdicts for score in scores)
    for quota_type, reasons in sorted(_summed(score.undecided for score in scores).items()):
        for reason, count in reasons.most_common():
            of_type = shown_share(count, decisions[quota_type].total())
            table.add_row(quota_type, reason, f"{count:,}", of_type)
    return table


def _causes(scores: Sequence[RunScore]) -> Table:
    table = Table("accused", "quota type", "as", "by", "proven", "runs", "count", title="Causes")
    count: Counter[tuple[str, ...]] = Counter()
    runs: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for score in scores:
        keys = [
            ("decision", row.quota_type, row.verdict, row.reason or "", str(row.is_proven))
            for row in score.accusations
        ]
        keys += [
            ("finding", one.quota_type, f"{one.severity} {one.kind}", one.hypothesis or "", "")
            for one in score.findings
        ]
        count.update(keys)
        for key in keys:
            runs[key].add(score.run.name)
    for key, times in count.most_common():
        table.add_row(*key, str(len(runs[key])), str(times))
    return table


def _limits(scores: Sequence[RunScore], failed: Sequence[FailedRun]) -> Table:
    table = Table("demand", "found", "kept", title=f"{len(scores)} runs, {len(failed)} failed")
    for one in limits(scores):
        table.add_row(one.demand, one.found, "yes" if one.is_kept else "NO")
    return table


def _summed(of_runs: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for of_types in of_runs:
        for quota_type, counts in of_types.items():
            found[quota_type].update(counts)
    return found


def shown_share(part: int, whole: int) -> str:
    """Return a share as tables show it, ``-`` of nothing."""
    found = share(part, whole)
    return "-" if found is None else f"{found:.4f}"
