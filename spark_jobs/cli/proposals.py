"""The command ``quota-audit proposals``: what ``quota-audit apply`` would be asked to change."""

from __future__ import annotations

from spark_jobs.cli.options import AsJson, ClusterName, ProposalDay, Warehouse


def list_proposals(
    warehouse: Warehouse,
    cluster: ClusterName = "default",
    day: ProposalDay = None,
    as_json: AsJson = False,
) -> None:
    """Print what the recommendations of a day would change.

    Each change is under the name that apply takes.
    """
    from spark_jobs.cli.print_proposals import print_proposals

    print_proposals(warehouse.absolute(), cluster, day and day.date(), as_json=as_json)
