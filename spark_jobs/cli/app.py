"""The command line ``quota-audit``: its commands in groups, with an example of each."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from spark_jobs.cli.changes import apply_changes, list_proposals, render, roll_back
from spark_jobs.cli.closer import (
    crosscheck,
    detect_profile,
    diff,
    explain,
    score,
    what_if,
    which_quota,
)
from spark_jobs.cli.daily import acknowledge, list_days, list_due, news, run, summary
from spark_jobs.cli.ending import ending
from spark_jobs.cli.keep import anonymize, check, compact, digest, doctor, migrate, prune
from spark_jobs.cli.options import option
from spark_jobs.cli.steps import ingest, judge, publish, recommend, replay, resolve, validate
from spark_jobs.version import VERSION

GROUPS: dict[str, tuple[tuple[str, Callable[..., None], str], ...]] = {
    "Every day": (
        ("run", run, "logs -w warehouse"),
        ("due", list_due, "logs -w warehouse"),
        ("days", list_days, "logs --timezone Europe/Berlin"),
        ("news", news, "-w warehouse --owner Orders"),
        ("acknowledge", acknowledge, "2a06 -w warehouse --owner Ada --reason moves --days 7"),
        ("summary", summary, "-w warehouse --day 2026-11-21"),
    ),
    "Look closer": (
        ("explain", explain, "-w warehouse --user alice --broker 2 --at 07:43:17"),
        ("which-quota", which_quota, "-w warehouse --user alice --broker 1"),
        ("whatif", what_if, "logs --policy kip13 --policy kip599_rate --mode both"),
        ("diff", diff, "-w warehouse 2026-11-20 2026-11-21"),
        ("crosscheck", crosscheck, "quota-metrics.json -w warehouse"),
        ("score", score, "logs --controls"),
        ("detect-profile", detect_profile, "-w warehouse --day 2026-11-21"),
    ),
    "Change quotas": (
        ("proposals", list_proposals, "-w warehouse"),
        ("render", render, "--target strimzi -w warehouse"),
        ("apply", apply_changes, "-w warehouse --bootstrap-server kafka:9092"),
        ("rollback", roll_back, "-w warehouse --bootstrap-server kafka:9092"),
    ),
    "Set up and keep": (
        ("check", check, "logs"),
        ("anonymize", anonymize, "logs to-give-away --key-file secret.key"),
        ("doctor", doctor, "warehouse"),
        ("migrate", migrate, "warehouse --apply"),
        ("prune", prune, "warehouse --keep requests=14"),
        ("compact", compact, "warehouse --before 2026-11-01"),
        ("digest", digest, "-w warehouse --day 2026-11-21"),
    ),
    "Single steps": (
        ("ingest", ingest, "logs -w warehouse --day 2026-11-21"),
        ("resolve", resolve, "-w warehouse --day 2026-11-21"),
        ("replay", replay, "-w warehouse --day 2026-11-21"),
        ("judge", judge, "-w warehouse --day 2026-11-21"),
        ("recommend", recommend, "-w warehouse --day 2026-11-21"),
        ("validate", validate, "judged -w warehouse --day 2026-11-21"),
        ("publish", publish, "-w warehouse --day 2026-11-21"),
    ),
}
"""Group → its commands in the order of the help: name, function, what follows in an example."""


class GroupedCommands(TyperGroup):
    """Commands listed under their ``rich_help_panel``, each with the first line of its help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for every group, all with columns of the same width."""
        commands = [c for c in self.commands.values() if isinstance(c, ExampleCommand)]
        width = max(len(command.name or "") for command in commands)
        for title, of_group in groupby(commands, key=lambda command: command.rich_help_panel):
            with formatter.section(title):
                formatter.write_dl([(f"{c.name:{width}}", c.first_line) for c in of_group])


class ExampleCommand(TyperCommand):
    """A command whose ``epilog`` is an example of its use."""

    @property
    def first_line(self) -> str:
        """Return the sentence with which the help begins."""
        return (self.help or "").partition("\n")[0]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the arguments of the usage line: ``[OPTIONS] ARCHIVE``, without braces."""
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options; arguments without their Python type."""
        arguments, options = [], []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and param.param_type_name == "argument":
                arguments.append((record[0].partition(" ")[0], record[1]))
            elif record is not None:
                options.append(record)
        for title, records in (("Arguments", arguments), ("Options", options)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the example, not wrapped: it can be copied."""
        with formatter.section("Example"):
            formatter.write(f"  {self.epilog}\n")


app = typer.Typer(
    name="quota-audit",
    cls=GroupedCommands,
    help="Replays Apache Kafka client quotas from archived request logs and judges the brokers.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # brackets in help texts are meant as such
    pretty_exceptions_enable=False,
)
for title, commands in GROUPS.items():
    for name, function, example in commands:
        app.command(
            name, cls=ExampleCommand, rich_help_panel=title, epilog=f"quota-audit {name} {example}"
        )(function)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"quota-audit {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        option("--version", "Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run; exit 0 audited, 1 quality or audit failed, 2 bad usage or input, 3 nothing to audit."""
    with ending():
        app()
