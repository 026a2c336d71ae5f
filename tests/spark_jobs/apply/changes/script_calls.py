"""What a rendered script calls the tool with: a fake tool records its arguments."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_TOOL = """\
#!/usr/bin/env bash
printf "%s\\0" "$@" >> "$CALLS"; printf "\\n\\0" >> "$CALLS"
[[ "$*" != *"$FAIL_ON"* ]]
"""


def recording_tool(folder: Path) -> Path:
    """Return the path of a tool that notes its calls in ``folder``."""
    tool = folder / "kafka-configs.sh"
    tool.write_text(_TOOL)
    tool.chmod(0o755)
    return tool


def run(
    script: str, tool: Path, fail_on: str = "no such thing", **environment: str
) -> tuple[subprocess.CompletedProcess[str], list[list[str]]]:
    """Run ``script`` in the tool's folder; return how it ended and the arguments of each call."""
    calls = tool.parent / "calls"
    calls.unlink(missing_ok=True)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tool.parent,
        env={
            "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}",
            "CALLS": str(calls),
            "FAIL_ON": fail_on,
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    recorded = calls.read_bytes().decode() if calls.exists() else ""
    return done, [call.split("\0")[:-1] for call in recorded.split("\n\0")[:-1]]


def calls_of(script: str, tool: Path) -> list[list[str]]:
    """Return the arguments of each call of a script that ends well."""
    done, calls = run(script, tool, BOOTSTRAP="broker-1:9092")
    assert done.returncode == 0, done.stderr
    return calls
