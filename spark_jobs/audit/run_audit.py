"""The whole audit in one process: every step, in order, for every day asked for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from spark_jobs.audit.due_days import due_days, read_with
from spark_jobs.audit.validate_tables import validate_stage
from spark_jobs.ingest.archive import Archive, choose_cluster, clusters_of, find_archive
from spark_jobs.ingest.archive_days import day_options
from spark_jobs.ingest.ingest_options import IngestOptions
from spark_jobs.ingest.ingest_requests import ingest_requests
from spark_jobs.ingest.lines.chunk import LogOptions
from spark_jobs.judge.judge_decisions import judge_decisions
from spark_jobs.publish.publish_report import publish_run
from spark_jobs.publish.summary import print_summary
from spark_jobs.recommend.recommend_quotas import recommend_quotas
from spark_jobs.replay.replay_quotas import replay_quotas
from spark_jobs.resolve.resolve_quotas import resolve_quotas
from spark_jobs.spark.spark_session import spark_session
from spark_jobs.warehouse.pipeline import STEPS
from spark_jobs.warehouse.runs import RunOwner
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.write import new_run
from spark_jobs.wording.progress import StepProgress, telling

_INGEST, *_LATER = STEPS.values()


def run_audit(
    archive: Path,
    warehouse: Path,
    cluster: str | None,
    day: dt.date | None,
    options: IngestOptions,
    *,
    only_due: bool = False,
    take_over: bool = False,
) -> None:
    """Audit ``archive`` into ``warehouse``: all its clusters and days unless told otherwise.

    ``only_due`` leaves out days whose audit is as the archive is (:func:`due_days`); ``take_over``
    ends what another process is making of a day.

    A day is published by its last step. Raises what the failing step raises; later steps do not
    run then, and what readers see stays as it was.
    """
    clusters = (cluster,) if cluster else clusters_of(archive) or (choose_cluster(archive, None),)
    archives = [find_archive(archive, name) for name in clusters]
    scopes: list[RunScope] = []
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    with StepProgress(console) as progress, spark_session("run") as spark:
        for found in archives:
            # The logs of one day alone might tell otherwise whose clock is wrong.
            reading = day_options(found, options.timezone, options.prefix, warehouse)
            parts: Iterable[tuple[Archive, dt.date | None]] = [(found, day)]
            if only_due:
                parts = _due_one_by_one(spark, found, warehouse, day, reading, progress)
            for part, one_day in parts:
                with telling(progress.tell, _INGEST.task_id, str(one_day or "")) as say:
                    run = new_run(RunOwner.this_process("quota-audit run"), take_over=take_over)
                    known = replace(options, until_ms=reading.until_ms)
                    report = ingest_requests(spark, part, warehouse, one_day, known, run)
                    say(report.sentence())
                for scope in report.scopes:
                    console.print(f"[bold]auditing {scope.day} of {scope.cluster}[/bold]")
                    _run_steps(spark, scope, part.metrics, progress)
                    scopes.append(replace(scope, run=None))
    for scope in scopes:
        print_summary(scope)
    plural = "" if len(scopes) == 1 else "s"
    Console(soft_wrap=True).print(
        f"audited {len(scopes)} day{plural} of {', '.join(clusters)} into {warehouse}",
        highlight=False,
        markup=False,
    )


def _due_one_by_one(
    spark: SparkSession,
    archive: Archive,
    warehouse: Path,
    day: dt.date | None,
    reading: LogOptions,
    progress: StepProgress,
) -> Iterator[tuple[Archive, dt.date | None]]:
    """Yield each day that is due, and the archive with the logs of that day only.

    A day that was audited may leave other states to the next one, which is due then.
    """
    read_logs = read_with(spark, archive, reading)
    done: set[dt.date] = set()
    while True:
        due = [
            one
            for one in due_days(archive, warehouse, read_logs, reading.until_ms)
            if one.day not in done and day in (None, one.day)
        ]
        if not due:
            return
        first = due[0]
        done.add(first.day)
        said = f"{archive.cluster} {first.day} is due: {first.reason}"
        progress.console.print(said, markup=False)
        yield replace(archive, request_logs=first.logs), first.day


def _run_steps(
    spark: SparkSession, scope: RunScope, metrics: Sequence[Path], progress: StepProgress
) -> None:
    """Run the steps after the ingest."""
    functions: Mapping[str, Callable[..., str]] = {
        "validate": lambda stage: validate_stage(scope, stage, spark),
        "resolve": lambda: resolve_quotas(scope),
        "replay": lambda: replay_quotas(spark, scope),
        "judge": lambda: judge_decisions(lambda: spark, scope, metrics=metrics),
        "recommend": lambda: recommend_quotas(scope),
        "publish": lambda: publish_run(scope),
    }
    for step in _LATER:
        command, *arguments = step.command
        with telling(progress.tell, step.task_id, str(scope.day)) as say:
            say(functions[command](*arguments))
