"""``docs/reference/cli.md``: every command of ``quota-audit``, as the program itself has it."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from spark_jobs.cli.app import GROUPS, ExampleCommand, app, main

HEAD = """\
# Commands
<!-- Written by `make reference` from spark_jobs/cli: change it there. -->

{about} Each prints this with `--help`.

{exit_codes}

Settings of the environment that the commands follow: [configuration.md](configuration.md).
Which command writes which table: [architecture](../architecture.md).
"""


def cli_page() -> str:
    """Return the page as Markdown, commands in the order of the program's own help."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    head = HEAD.format(about=group.help, exit_codes=_exit_codes())
    commands = {name: _command(group, name) for name in group.commands}
    listed = [
        _listed(title, [commands[name] for name, _, _ in of_group])
        for title, of_group in GROUPS.items()
    ]
    return "\n".join([head, *listed, *map(_section, commands.values())])


def _command(group: TyperGroup, name: str) -> ExampleCommand:
    command = group.commands[name]
    assert isinstance(command, ExampleCommand), f"{name} has no example"
    return command


def _listed(title: str, commands: list[ExampleCommand]) -> str:
    rows = "\n".join(
        f"| [`{c.name}`](#quota-audit-{c.name}) | {_cell(c.first_line)} |" for c in commands
    )
    return f"**{title}**\n\n| command | what it does |\n|---|---|\n{rows}\n"


def _exit_codes() -> str:
    said = (main.__doc__ or "").partition("; ")[2].rstrip(".")
    assert said.startswith("exit 0 "), "main() says what the exit codes mean"
    return "Exit codes: " + said.removeprefix("exit ") + "."


def _section(command: ExampleCommand) -> str:
    arguments = [p for p in command.params if isinstance(p, TyperArgument)]
    words = ["quota-audit", str(command.name), *(_argument(a) for a in arguments), "[OPTIONS]"]
    usage = " ".join(words)
    rows = "\n".join(_rows(command))
    return (
        f"## `quota-audit {command.name}`\n{command.help}\n\n```text\n{usage}\n```\n\n"
        f"Example: `{command.epilog}`\n\n"
        f"| option | meaning | default |\n|---|---|---|\n{rows}\n"
    )


def _argument(argument: TyperArgument) -> str:
    name = f"{argument.metavar}{'…' if argument.nargs != 1 else ''}"
    return name if argument.required else f"[{name}]"


def _rows(command: ExampleCommand) -> Iterator[str]:
    for param in command.params:
        if isinstance(param, TyperArgument):
            yield _row(f"`{_argument(param).strip('[]')}`", param)
        elif isinstance(param, TyperOption):
            first, *others = param.opts
            spelled = first if param.is_flag else f"{first} {param.metavar}"
            yield _row(", ".join(f"`{name}`" for name in (spelled, *others)), param)


def _row(name: str, param: TyperArgument | TyperOption) -> str:
    return f"| {name} | {_cell(param.help or '')} | {_due(param)} |"


def _due(param: TyperArgument | TyperOption) -> str:
    if param.required:
        return "required"
    if param.default in (None, "", False):
        return ""
    return f"`{param.default}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
