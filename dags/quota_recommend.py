"""Ask a person about the quotas that an audit proposes, and apply what is approved.

A run starts when an audit has renewed the proposals (asset `quota_recommendations`), or by hand.
In *Required Actions* it waits for an answer: `all`, `none`, or single changes, and maybe a note.

**Dry run**: unless `QUOTA_AUDIT_KAFKA_DRY_RUN` is false, and the form too, what is chosen is only
checked against the cluster. **Applied** is what the table showed, while cluster and proposals are
still the same. `quota-audit rollback` takes it back.

**When it is red**: exit code 1 is a change that was not made, 2 a refusal, or an input that cannot
be used; neither is retried. The log ends with what to do; clearing and running again is safe.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from airflow.sdk import Asset, Param, dag, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from quota_dags.approval import Bounds, apply_answer, ask, recommend_run
from quota_dags.approval_operator import Approval, answer_params
from quota_dags.forms import approval_fields
from quota_dags.process import TaskTerms
from quota_dags.steps import ASSETS, asset_uri
from spark_jobs.settings import ApprovalSettings, DailyAuditSettings

SETTINGS, APPROVAL = DailyAuditSettings(), ApprovalSettings()
NAME = "quota_recommendations"
PROPOSALS = Asset(NAME, asset_uri(ASSETS[NAME]))
TERMS = TaskTerms(logging.getLogger("quota_audit").info, AirflowFailException,
                  AirflowSkipException, SETTINGS.launcher)  # fmt: skip
PARAMS = {name: Param(**field) for name, field in approval_fields(SETTINGS, APPROVAL).items()}


@task(multiple_outputs=True, execution_timeout=timedelta(minutes=15))
def read_proposals(params=None, triggering_asset_events=None, dag_run=None) -> dict:
    """Say what is proposed; Airflow fills in what defaults to None."""
    extras = [e.extra for events in triggering_asset_events.values() for e in events]
    run = recommend_run(params, extras, dag_run, Bounds(SETTINGS, APPROVAL), TERMS)
    return ask(run, APPROVAL, TERMS, by_hand=not extras)


@task(execution_timeout=timedelta(hours=1))
def apply_changes(asked, answer) -> str:
    """Apply what was approved."""
    return apply_answer(asked, answer, datetime.now(UTC), Bounds(SETTINGS, APPROVAL), TERMS)


# One run at a time: two would ask about the same values.
@dag(schedule=[PROPOSALS], max_active_runs=1, is_paused_upon_creation=False, params=PARAMS,
     default_args={"retries": 1, "retry_delay": timedelta(seconds=30)},
     doc_md=__doc__, tags=["kafka", "quota"])  # fmt: skip
def quota_recommend() -> None:
    """Read, ask, apply."""
    found = read_proposals()
    approve = Approval(task_id="approve", subject=found["subject"], body=found["body"],
        options=found["options"], plan=found["plan"], params=answer_params(),
        response_timeout=timedelta(days=APPROVAL.answer_within_days),
        execution_timeout=timedelta(minutes=15))  # fmt: skip
    apply_changes(found["asked"], approve.output)


quota_recommend()
