"""The command ``quota-audit explain``: why one request was throttled, or why not."""

from __future__ import annotations

from typing import Annotated

from spark_jobs.cli.options import AsJson, ClusterName, ExplainDay, Warehouse, option


def explain(
    warehouse: Warehouse,
    cluster: ClusterName = "default",
    day: ExplainDay = None,
    line: Annotated[
        str | None,
        option("--line FILE:NUMBER", "The request's line: file of the archive and number."),
    ] = None,
    user: Annotated[str | None, option("--user NAME", "User of the client.")] = None,
    client_id: Annotated[str | None, option("--client-id NAME", "Client-id.")] = None,
    broker: Annotated[int | None, option("--broker ID", "Broker's id.")] = None,
    at: Annotated[
        str | None,
        option(
            "--at MOMENT",
            "The client's last request at that moment: 02:41:00.250 of the day, or with day "
            "and zone, 2026-11-21T02:41:00.250+01:00; UTC where it names none [default: the end "
            "of the day].",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say why a request was throttled, or why not.

    Says which quotas counted it, and how a throttle came out of them, step by step.
    """
    from spark_jobs.errors import BadInputError
    from spark_jobs.explain.explain_request import Asked, print_explanation

    if not (line or user or client_id):
        raise BadInputError("which request? Give --line, or --user or --client-id, with --at.")
    asked = Asked(line, user, client_id, at, broker)
    print_explanation(warehouse.absolute(), cluster, day and day.date(), asked, as_json=as_json)
