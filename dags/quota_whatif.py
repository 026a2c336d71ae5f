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

from quota_dags.forms import PLACE_PATTERN, shared_fields
from quota_dags.process import TaskTerms
from quota_dags.steps import asset_uri
from quota_dags.whatif import AS_LOGGED, ASSET, MODES, run_whatif, whatif_of_run
from spark_jobs.settings import DailyAuditSettings
from spark_jobs.whatif.policies.catalogue import POLICIES

SETTINGS = DailyAuditSettings()
TERMS = TaskTerms(logging.getLogger("quota_audit").info, AirflowFailException,
                  AirflowSkipException, SETTINGS.launcher)  # fmt: skip
OUTLET = Asset(ASSET[0], asset_uri(ASSET[1]))
PARAMS = {
    "policies": Param(None, type=["null", "array"], examples=list(POLICIES), uniqueItems=True,
        items={"type": "string", "enum": list(POLICIES)}, title="Policies",
        description="Of the scenario only these; empty: all. Without one: nothing configured."),
    "scenario": Param(None, type=["null", "string"], format="multiline", title="Scenario (TOML)",
        description="Policies with their configurations; the DAG's docs show one. May be empty."),
    "mode": Param(AS_LOGGED, type="string", enum=list(MODES), values_display=dict(MODES),
        title="How clients behave",
        description="As logged, a client goes on sending however long a rule makes it wait."),
    "day": Param(None, type=["null", "string"], format="date", title="Day (UTC)",
        description="Empty: every day that the archive, or the warehouse, has."),
    "archive": Param(None, type=["null", "string"], pattern=f"^$|{PLACE_PATTERN}", title="Archive",
        examples=[str(SETTINGS.archive)],
        description="Absolute path; ingested first. Empty: what the warehouse holds."),
    **{name: Param(**field) for name, field in shared_fields(SETTINGS).items()},
}  # fmt: skip


@task(outlets=[OUTLET], retries=1, retry_delay=timedelta(seconds=30),
      execution_timeout=timedelta(hours=4))  # fmt: skip
def replay_policies(params=None, run_id=None, outlet_events=None) -> str:
    """Replay what the form asks for; Airflow fills in what defaults to None."""
    asked = whatif_of_run(params, run_id)
    outlet_events[OUTLET].extra = asked.scope()
    return run_whatif(asked, TERMS)


# One run at a time: another would be a second Spark, and would overwrite the same days.
@dag(schedule=None, max_active_runs=1, is_paused_upon_creation=False, params=PARAMS,
     doc_md=__doc__, tags=["kafka", "quota"])  # fmt: skip
def quota_whatif() -> None:
    """Replay in one task."""
    replay_policies()


quota_whatif()
