"""The commands that change quotas: list proposals, render them, apply, roll back."""

from __future__ import annotations

from spark_jobs.cli.options import (
    AllowDelete,
    AsJson,
    AskedBy,
    BootstrapServer,
    By,
    Change,
    ClusterName,
    CommandConfig,
    Execute,
    Note,
    Only,
    Plan,
    ProposalDay,
    RenderTarget,
    Rollback,
    Warehouse,
)


def list_proposals(
    warehouse: Warehouse,
    cluster: ClusterName = "default",
    day: ProposalDay = None,
    as_json: AsJson = False,
) -> None:
    """Print what the recommendations of a day would change.

    Each change is under the name that apply takes.
    """
    from spark_jobs.cli.print_changes import print_proposals

    print_proposals(warehouse.absolute(), cluster, day and day.date(), as_json=as_json)


def render(
    target: RenderTarget,
    warehouse: Warehouse,
    cluster: ClusterName = "default",
    day: ProposalDay = None,
    rollback: Rollback = False,
) -> None:
    """Print a day's proposals as the file of a tool.

    What the tool cannot hold goes to standard error.
    """
    from spark_jobs.cli.print_changes import print_render

    print_render(
        target, warehouse.absolute(), cluster, day.date() if day else None, is_rollback=rollback
    )


def apply_changes(
    warehouse: Warehouse,
    bootstrap_server: BootstrapServer,
    cluster: ClusterName = "default",
    day: ProposalDay = None,
    command_config: CommandConfig = None,
    only: Only = None,
    execute: Execute = False,
    allow_delete: AllowDelete = False,
    by: By = None,
    asked_by: AskedBy = None,
    plan: Plan = None,
    note: Note = None,
    as_json: AsJson = False,
) -> None:
    """Apply proposed quotas to a Kafka cluster, with --execute.

    Without it, show what would be done.
    """
    from spark_jobs.apply.apply_quotas import ClusterTarget, apply_quotas
    from spark_jobs.cli.print_changes import changes_printer

    target = ClusterTarget(
        *(warehouse.absolute(), cluster, bootstrap_server, command_config, execute),
        *(by, note, asked_by, plan),
    )
    show = changes_printer(target, as_json=as_json)
    apply_quotas(target, day and day.date(), only or [], allow_delete=allow_delete, show=show)


def roll_back(
    warehouse: Warehouse,
    bootstrap_server: BootstrapServer,
    cluster: ClusterName = "default",
    change: Change = None,
    command_config: CommandConfig = None,
    execute: Execute = False,
    by: By = None,
    note: Note = None,
    as_json: AsJson = False,
) -> None:
    """Take back what apply changed, with --execute.

    Without it, show what would be done.
    """
    from spark_jobs.apply.apply_quotas import ClusterTarget, rollback_quotas
    from spark_jobs.cli.print_changes import changes_printer

    target = ClusterTarget(
        warehouse.absolute(), cluster, bootstrap_server, command_config, execute, by, note
    )
    rollback_quotas(target, change, show=changes_printer(target, as_json=as_json))
