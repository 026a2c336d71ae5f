"""The daily DAG's last two tasks: telling what is new, or that the audit failed and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args
from urllib.parse import quote

import msgspec

from quota_dags.alert_failure import failure_message
from quota_dags.alert_sending import send
from quota_dags.steps import FAILURE_KEY, STEPS, DailyAudit
from quota_dags.submitted_step import default_launcher, run_submitted
from spark_jobs.publish.alert_message import AlertMessage, NewsRecord, SeverityName
from spark_jobs.settings import AlertSettings

NEWS, FAILURE = "alert_news", "alert_failure"
"""The tasks' ids: after a run that published, and after one that did not."""

ALERTS: Mapping[str, str] = {NEWS: "all_success", FAILURE: "one_failed"}
"""Task id → Airflow's rule of when it runs, by the state of the step that publishes.

Two tasks, so that a failed run stays red: what it ends with is then ``alert_news``, which could not
run. One task that always runs would end it green. No callbacks of the DAG: those run in the DAG
processor, where nobody sees them fail and nothing tries them again.
"""

_RANKS: tuple[SeverityName, ...] = get_args(SeverityName)


@dataclass(frozen=True, slots=True)
class AlertTerms:
    """How a task says what it does and how it ends; ``launcher`` runs ``quota-audit``.

    ``final_error`` is raised where another attempt cannot help, ``skipped`` where nothing is sent.
    """

    log: Callable[[str], None]
    final_error: type[Exception]
    skipped: type[Exception]
    settings: AlertSettings
    launcher: Sequence[str] = ()


def alert(task_id: str, audit: DailyAudit, context: Mapping[str, Any], terms: AlertTerms) -> str:
    """Send the run's one message and return its subject; ``context`` is the task's, of Airflow.

    Raises ``terms.skipped`` where there is nothing to tell, or it was told before in this run;
    NotSentError where it did not go out by every channel.
    """
    if task_id == NEWS:
        message = news_message(audit, context["run_id"], terms)
    else:
        message = failed_run_message(audit, context["ti"], context["run_id"], terms)
    sent = send(message, terms.settings, context["task_state_store"], terms.log)
    if not sent:
        raise terms.skipped(f"this run has told it before: {message.subject}")
    return message.subject


def news_message(audit: DailyAudit, run_id: str, terms: AlertTerms) -> AlertMessage:
    """Return the message of a published audit; raises ``terms.skipped`` where nothing is urgent."""
    launcher = terms.launcher or default_launcher()
    command = [*launcher, "news", *audit.scope_arguments(), "--json"]
    line = run_submitted(NEWS, audit.day.isoformat(), command, terms.log, terms.final_error)
    news = msgspec.json.decode(line, type=NewsRecord)
    level = terms.settings.level
    if news.urgency is None or _RANKS.index(news.urgency) > _RANKS.index(level):
        raise terms.skipped(f"nothing to tell: nothing new or worse is {level}: {news.subject}")
    page = f"quota-audit/clusters/{quote(audit.cluster)}/{audit.day}"
    return AlertMessage(
        kind="news",
        cluster=audit.cluster,
        day=audit.day,
        run_id=run_id,
        subject=news.subject,
        text=news.text,
        url=_address(page, terms.settings),
        news=news,
    )


def failed_run_message(audit: DailyAudit, ti: Any, run_id: str, terms: AlertTerms) -> AlertMessage:
    """Return the message of a run that failed at a step; ``ti`` is Airflow's task instance."""
    states = ti.get_task_states(dag_id=ti.dag_id, run_ids=[run_id]).get(run_id, {})
    step = next((name for name in STEPS if states.get(name) == "failed"), None)
    if step is None:
        raise terms.skipped("nothing to tell: no step of this run is failed any more")
    ended = ti.xcom_pull(task_ids=step, key=FAILURE_KEY)
    page = f"dags/{ti.dag_id}/runs/{quote(run_id, safe='')}/tasks/{step}"
    url = _address(page, terms.settings)
    return failure_message(audit.cluster, audit.day, run_id, step, ended, url)


def _address(page: str, settings: AlertSettings) -> str | None:
    return f"{settings.base_url.rstrip('/')}/{page}" if settings.base_url else None
