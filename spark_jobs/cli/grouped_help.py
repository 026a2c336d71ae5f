"""How the command line prints its help: commands in groups, and an example of each."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

from typer.core import TyperCommand, TyperGroup


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
        """Return what follows the command's name; required arguments have no braces."""
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
