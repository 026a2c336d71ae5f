"""Answering which rate profile explains a log best."""

from __future__ import annotations

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from spark_jobs.errors import BadInputError
from spark_jobs.replay.broker_rules import best_profiles, profile_scores
from spark_jobs.replay.broker_stream import row_groups
from spark_jobs.replay.replay_quotas import resolutions_of
from spark_jobs.replay.survey_requests import survey_requests
from spark_jobs.warehouse.read import whole_folder
from spark_jobs.warehouse.scope import RunScope


def print_profiles(spark: SparkSession, scope: RunScope) -> None:
    """Print how each profile explains each broker's throttles, and the best one a broker."""
    groups = row_groups(whole_folder(scope, "requests"))
    survey = survey_requests(spark, groups)
    scores = profile_scores(spark, scope, groups, survey, resolutions_of(scope, survey))
    best = best_profiles(scores)
    if not best:
        raise BadInputError(
            f"{scope.cluster} {scope.day}: the produces that a bandwidth quota alone throttled "
            f"({max((s.throttled for s in scores), default=0)}) do not tell the profiles apart. "
            "Give --broker-version instead."
        )
    table = Table("broker", "profile", "decisions agree", "throttles within 1 ms", "")
    for score in sorted(scores, key=lambda s: (s.broker_id, s.profile)):
        within, agreeing = score.rank
        is_best = score.profile in best.get(score.broker_id, ())
        table.add_row(
            str(score.broker_id),
            str(score.profile),
            f"{agreeing:.4f}",
            f"{within:.4f}",
            "best" if is_best else "",
        )
    console = Console(soft_wrap=True)
    console.print(table)
    answers = [f"broker {b} follows {' or '.join(best[b])}" for b in sorted(best)]
    brokers = sorted({score.broker_id for score in scores} - best.keys())
    answers += [f"broker {b}: the log does not tell" for b in brokers]
    console.print(", ".join(answers), highlight=False)
