"""The message of a run that ended at a step, before anything was published."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from spark_jobs.publish.alert_message import AlertMessage, FailureRecord

UNSEEN = (
    "Nobody saw it end: it was killed, or stopped because it took too long. Its log may say more."
)
_REASON_LINES_MAX = 30
_LINE_LENGTH_MAX = 600


def failure_message(
    cluster: str,
    day: dt.date,
    run_id: str,
    step: str,
    ended: Mapping[str, Any] | None,
    url: str | None,
) -> AlertMessage:
    """Return what is told of a run that failed at ``step``; ``ended``: how, None: nobody saw it."""
    exit_code = ended["exit_code"] if ended else None
    reason = _shortened(ended["reason"]) if ended else UNSEEN
    subject = f"Kafka quotas, {cluster} on {day}: the audit failed at {step}"
    how = f" with exit code {exit_code}" if exit_code is not None else ""
    text = (
        f"{subject}\nThe step ended{how}. Nothing of this run was published: what readers see is "
        f"as it was before.\n\n{reason}\n"
    )
    return AlertMessage(
        kind="failure",
        cluster=cluster,
        day=day,
        run_id=run_id,
        subject=subject,
        text=text,
        url=url,
        failure=FailureRecord(step=step, exit_code=exit_code, reason=reason),
    )


def _shortened(reason: str) -> str:
    lines = reason.splitlines()
    shown = [line if len(line) <= _LINE_LENGTH_MAX else f"{line[:_LINE_LENGTH_MAX]}…"
             for line in lines[:_REASON_LINES_MAX]]  # fmt: skip
    more = len(lines) - len(shown)
    return "\n".join([*shown, f"… and {more} lines more in its log"] if more else shown)
