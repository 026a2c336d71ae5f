"""A run of the daily DAG in a process of its own, as Airflow would schedule it.

Prints one JSON object: the run's ``state`` and ``tasks``, the state of each task and how many
attempts it took. Argument: the run's conf as JSON.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

from airflow.dag_processing.dagbag import DagBag  # noqa: E402

DAGS = Path(__file__).parents[2] / "dags"


def main() -> None:
    bag = DagBag(dag_folder=str(DAGS / "quota_audit_daily.py"))
    assert bag.import_errors == {}, bag.import_errors
    dag = bag.dags["quota_audit_daily"]
    for task in dag.tasks:
        task.retry_delay = dt.timedelta(0)
    run = dag.test(run_conf=json.loads(sys.argv[1]))
    tasks = {ti.task_id: [ti.state, ti.try_number] for ti in run.get_task_instances()}
    print(json.dumps({"state": run.state, "tasks": tasks}))


if __name__ == "__main__":
    main()
