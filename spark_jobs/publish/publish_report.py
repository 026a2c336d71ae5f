"""Step publish_report: tables → the files and sentences people read."""

from __future__ import annotations

import os

from spark_jobs.publish.publish import publish_report
from spark_jobs.publish.summary import summarize
from spark_jobs.publish.terminal import print_summary as print_to_terminal
from spark_jobs.recommend.recommendations import write_files
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.warehouse.write import publish_draft


def publish_run(scope: RunScope) -> str:
    """Publish the run of ``scope``: its tables, then the report and the recommendation files.

    Without a run, the files are made of what is published. Returns where they are.
    """
    scope = publish_draft(scope).held()
    folder = scope.output_dir("reports")
    folder.mkdir(parents=True, exist_ok=True)
    write_files(read_table(scope, "recommendations"), folder)
    # Airflow tells its tasks, and what they start, which run they are.
    published = publish_report(scope, dag_run_id=os.environ.get("AIRFLOW_CTX_DAG_RUN_ID"))
    return f"report: {published.report}"


def print_summary(scope: RunScope) -> None:
    """Print the summary of an audited day to the terminal."""
    print_to_terminal(summarize(scope))
