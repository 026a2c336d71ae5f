"""What would a log's requests have got under other quota rules, before any cluster is changed.

Replays archived requests under policies: today's broker quotas with other values, the rules of
KIP-13, KIP-599 and "Broker side quota (V1)", and their rejected alternatives.

**Policies or a scenario.** Policies from the list are replayed with nothing configured but the
quotas that the log tells of. A scenario configures them, as here or in `examples/whatif.toml`
(keys: `docs/whatif.md`). With both, only the chosen policies of the scenario are replayed.

    policy = [
      {name = "broker_bandwidth", label = "as it was"},
      {name = "kip13", config = {"quota.producer.default" = "1M"}},
    ]

**Where the result is.** On the page `whatif.html` beside the day's report (*Browse → Quota
audits*), and in the warehouse's table `whatif`. The command is the first line of the task's log and
runs in a terminal as it stands; the scenario it names is kept in the warehouse.

**When it is red**: exit code 1 is bad data, 2 a form or an input that cannot be used; neither is
retried. The log ends with what to correct.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from airflow.sdk import Asset, Param, dag, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from quota_dags.process import TaskTerms
from quota_dags.steps import asset_uri
from quota_dags.whatif import ASSET, run_whatif, whatif_fields, whatif_of_run
from spark_jobs.settings import DailyAuditSettings

SETTINGS = DailyAuditSettings()
TERMS = TaskTerms(logging.getLogger("quota_audit").info, AirflowFailException,
                  AirflowSkipException, SETTINGS.launcher)  # fmt: skip
OUTLET = Asset(ASSET[0], asset_uri(ASSET[1]))
PARAMS = {name: Param(**field) for name, field in whatif_fields(SETTINGS).items()}


@task(outlets=[OUTLET], retries=1, retry_delay=timedelta(seconds=30),
      execution_timeout=timedelta(hours=4))  # fmt: skip
def replay_policies(params=None, run_id=None, outlet_events=None) -> str:
    """Replay what the form asks for; Airflow fills in what defaults to None."""
    asked = whatif_of_run(params, run_id, SETTINGS, TERMS)
    outlet_events[OUTLET].extra = asked.scope()
    return run_whatif(asked, TERMS)


# One run at a time: another would be a second Spark, and would overwrite the same days.
@dag(schedule=None, max_active_runs=1, is_paused_upon_creation=False, params=PARAMS,
     doc_md=__doc__, tags=["kafka", "quota"])  # fmt: skip
def quota_whatif() -> None:
    """Replay in one task."""
    replay_policies()


quota_whatif()
