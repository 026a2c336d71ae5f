"""Airflow's operator that waits for a person's answer, as the approval of quotas needs it."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowSkipException


class Approval(HITLOperator):
    """A question whose options are known in the run only, and that nobody has to answer."""

    template_fields = (*HITLOperator.template_fields, "options")

    def process_trigger_event_error(self, event: dict[str, Any]) -> None:
        """End green where nobody has answered."""
        if event["error_type"] == "timeout":
            raise AirflowSkipException("nobody has answered in time: nothing is applied")
        super().process_trigger_event_error(event)
