"""Airflow's operator that waits for a person's answer, as the approval of quotas needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from quota_dags.approval import NO_PLAN, PLAN
from quota_dags.forms import NOTE_FIELD, plan_field


def answer_params() -> dict[str, Param]:
    """Return the fields of an answer; the digest is known once the question is asked."""
    return {"note": Param(**NOTE_FIELD), PLAN: Param(None, type=["null", "string"])}


class Approval(HITLOperator):
    """A question whose options are known in the run only, and that nobody has to answer.

    It carries ``plan``, the digest of what is asked about, as a field that the answer brings back.
    Airflow shows what a run asked first for ever: where the question is asked again about another
    plan, it is the field of the first one that comes back.
    """

    template_fields = (*HITLOperator.template_fields, "options", PLAN)

    def __init__(self, *, plan: str, **arguments: Any) -> None:
        super().__init__(multiple=True, **arguments)
        self.plan = plan

    def execute(self, context: Any) -> Any:
        """Ask, with the digest in the form."""
        self.params[PLAN] = Param(**plan_field(self.plan))
        return super().execute(context)

    def validate_params_input(self, params_input: Mapping[str, Any]) -> None:
        """Raise where the answer cannot be used; for good where it brings no digest back."""
        if not params_input.get(PLAN):
            raise AirflowFailException(NO_PLAN)
        super().validate_params_input({"note": None, **params_input})

    def process_trigger_event_error(self, event: dict[str, Any]) -> None:
        """End green where nobody has answered."""
        if event["error_type"] == "timeout":
            raise AirflowSkipException("nobody has answered in time: nothing is applied")
        super().process_trigger_event_error(event)
