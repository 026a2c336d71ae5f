"""A question about two quotas, its settings, and answers to it: what approval is tested with."""

from __future__ import annotations

import datetime as dt
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from quota_dags.approval import Bounds, Decision, RecommendRun, plan_digest
from quota_dags.process import TaskTerms
from spark_jobs.apply.changes.change_key import change_key_with_values, parse_selection
from spark_jobs.apply.changes.quota_alteration import QuotaAlteration
from spark_jobs.settings import ApprovalSettings, DailyAuditSettings, KafkaTarget

DAY = "2026-11-20"
FORM: dict[str, Any] = {
    "day": None,
    "cluster": "east",
    "warehouse": "/wh",
    "target": "default",
}
BOUNDS = Bounds(
    DailyAuditSettings(warehouse=Path("/wh"), warehouses=("/other",)),
    ApprovalSettings(
        bootstrap_servers="b:9092",
        targets={"west": KafkaTarget(bootstrap_servers="w:9093", command_config=Path("/w.conf"))},
    ),
)
LOOSE = replace(
    BOUNDS, approval=BOUNDS.approval.model_copy(update={"dry_run": False, "allow_delete": True})
)
ANSWERED = dt.datetime(2026, 11, 21, 9, tzinfo=dt.UTC)
RUN_ID = "manual__2026-11-21"
DAG_RUN = SimpleNamespace(run_id=RUN_ID, triggering_user_name="bob")
RUN = RecommendRun(
    *(RUN_ID, "bob", "/wh", "east", DAY, "default", "b:9092", None),
    dry_run=True,
    allow_delete=False,
)
SCOPE = ["--warehouse", "/wh", "--cluster", "east"]
TOLD = ["--by=ada", "--asked-by=bob", "--plan", "0123"]
DECISION = Decision(("users/a:producer_byte_rate:1000:2000",), "ada", None)
A, B, GONE = (
    "users/a:producer_byte_rate",
    "users/b:producer_byte_rate",
    "clients/c:producer_byte_rate",
)


A12 = f"{A}:1000:2000"


class FinalError(Exception):
    """Stands for Airflow's exception that forbids a retry."""


class Skipped(Exception):
    """Stands for Airflow's exception that skips a task."""


def proposal(change: str, after: float | None = 2000.0, before: float | None = 1000.0) -> Any:
    one = parse_selection(change)
    assert one.quota_type
    altered = QuotaAlteration(one.quota_type, one.user, one.client_id, before, after)
    return {
        "change": change,
        "exactly": change_key_with_values(altered),
        "quota_type": one.quota_type,
        "before": before,
        "after": after,
        "current": before,
        "throttle_time_ms_before": 5000,
        "throttle_time_ms_after": 0,
        "backtest_trials": 0,
        "backtest_kept": 0,
        "reason": "Throttled.",
    }


class Steps:
    """A `quota-audit` that says what is proposed, and notes what else it is asked."""

    def __init__(self, folder: Path) -> None:
        self.log: list[str] = []
        self._journal = folder / "journal"
        self._said = folder / "proposals.json"
        code = (
            "import json, sys; print(json.dumps(sys.argv[3:]), file=open(sys.argv[1], 'a'));"
            "print(open(sys.argv[2]).read() if sys.argv[3] == 'proposals' else '1 applied')"
        )
        launcher = [sys.executable, "-S", "-c", code, str(self._journal), str(self._said)]
        self.terms = TaskTerms(self.log.append, FinalError, Skipped, launcher)

    def propose(self, *proposals: Any, day: str = DAY) -> None:
        self._said.write_text(json.dumps({"day": day, "proposals": proposals}))

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self._journal.read_text().splitlines()]


def answer(asked: Any, *chosen: str, note: str | None = None, by: str = "ada") -> dict[str, Any]:
    """Return the answer to a question, as Airflow's HITLOperator returns it."""
    return {
        "chosen_options": list(chosen),
        "params_input": {"note": note, "plan": plan_digest(asked)},
        "responded_at": ANSWERED,
        "responded_by_user": {"id": "1", "name": by},
    }
