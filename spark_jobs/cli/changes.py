"""The commands that change a cluster: ``quota-audit apply`` and ``quota-audit rollback``."""

from __future__ import annotations

from spark_jobs.cli.options import (
    AllowDelete,
    AsJson,
    BootstrapServer,
    By,
    Change,
    ClusterName,
    CommandConfig,
    Execute,
    Note,
    Only,
    ProposalDay,
    Warehouse,
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
    note: Note = None,
    as_json: AsJson = False,
) -> None:
    """Apply proposed quotas to a Kafka cluster, with --execute.

    Without it, show what would be done.
    """
    from spark_jobs.apply.apply_quotas import ClusterTarget, apply_quotas
    from spark_jobs.cli.print_changes import changes_printer

    target = ClusterTarget(
        warehouse.absolute(), cluster, bootstrap_server, command_config, execute, by, note
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
