"""The question about a day's proposals, in Markdown.

Names in it come from logs, and so from whoever connects to a broker: a change's name is
percent-encoded and stands in a code span, every other text is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from spark_jobs.wording.numbers import change, duration, exact_rate
from spark_jobs.wording.visible_text import visible

ALL, NONE = "all", "none"
"""What can be chosen besides single changes; a change's name begins with users/ or clients/."""

_COLUMNS = (
    ("change", "---"),
    ("now", "--:"),
    ("proposed", "--:"),
    ("throttled now", "--:"),
    ("with it", "--:"),
    ("backtest", "---"),
    ("why", "---"),
)

# What begins markup inside a line, HTML and Jinja; as an entity it ends no cell of a table either.
_MARKED = re.compile(r"[&<>`*_~|\[\]{}\\]")

# Plain text that Airflow's page would make a link of.
_LINKED = re.compile(r"(?i)(www(?=\.)|:(?=//)|@)")

_WORD_JOINER = "\u2060"


def is_removal(proposal: Mapping[str, Any]) -> bool:
    """Return True if the proposal removes an entity's value."""
    return proposal["after"] is None


def question_text(
    proposals: Sequence[Mapping[str, Any]],
    withdrawn: Sequence[Mapping[str, Any]],
    audited: str,
    target: str,
    applied_to: str,
    taken_back_by: str,
    *,
    is_dry_run: bool,
) -> str:
    """Return the question in Markdown.

    ``proposals`` and ``withdrawn`` (removals that may not be chosen) are objects as
    ``quota-audit proposals --json`` has them; ``audited`` names cluster and day, ``target``
    what is changed, ``applied_to`` its brokers, ``taken_back_by`` is a command.
    """
    effect = (
        "**Dry run**: what is chosen is checked against the cluster, and nothing is changed."
        if is_dry_run
        else "**What is chosen is changed in the cluster**, where it still has the value of “now”."
    )
    parts = [
        f"Proposed from the audit of {escaped(audited)}, for the target {code(target)}, the Kafka "
        f"cluster at {code(applied_to)}. “Throttled” and “with it” are of that day, replayed; "
        "“backtest” says on how many later days a value found the same way would have kept its "
        "promise.",
        _table(proposals),
        f"{effect} Choose {code(ALL)}, {code(NONE)}, or single changes.",
    ]
    if withdrawn:
        names = ", ".join(code(proposal["change"]) for proposal in withdrawn)
        parts.append(f"Not offered, because removing values is not allowed here: {names}.")
    if not is_dry_run:
        parts.append(f"To take it back: {code(taken_back_by)}")
    return "\n\n".join(parts)


def escaped(text: str) -> str:
    r"""Return ``text`` so that Markdown shows its characters, and makes nothing else of them.

    >>> escaped("a|b"), escaped("x\u202ey\n")
    ('a&#124;b', 'x&#92;u202ey&#92;n')
    """
    unlinked = _LINKED.sub(rf"\1{_WORD_JOINER}", visible(text))
    return _MARKED.sub(lambda mark: f"&#{ord(mark[0])};", unlinked)


def code(text: str) -> str:
    """Return ``text`` as a code span.

    >>> code("users/alice"), code("a`b")
    ('`users/alice`', '`` a`b ``')
    """
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{' '.join(text.splitlines())}{pad}{fence}"


def _table(proposals: Sequence[Mapping[str, Any]]) -> str:
    rows = [[title for title, _ in _COLUMNS], [align for _, align in _COLUMNS]]
    rows += [_row(proposal) for proposal in proposals]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _row(proposal: Mapping[str, Any]) -> list[str]:
    trials = proposal["backtest_trials"]
    return [
        code(proposal["change"]),
        _now(proposal),
        _proposed(proposal),
        _unbroken(duration(proposal["throttle_time_ms_before"])),
        _unbroken(duration(proposal["throttle_time_ms_after"])),
        _unbroken(f"{proposal['backtest_kept']} of {trials}") if trials else "–",
        escaped(proposal["reason"]),
    ]


def _now(proposal: Mapping[str, Any]) -> str:
    quota_type, before = proposal["quota_type"], proposal["before"]
    if before is not None:
        return _unbroken(exact_rate(before, quota_type))
    inherited = proposal["current"]
    if inherited is None:
        return "none"
    return f"none of its own; gets {_unbroken(exact_rate(inherited, quota_type))}"


def _proposed(proposal: Mapping[str, Any]) -> str:
    if is_removal(proposal):
        return "**remove it**"
    value = exact_rate(proposal["after"], proposal["quota_type"])
    difference = change(proposal["before"], proposal["after"])
    return f"**{_unbroken(value)}** {_unbroken(f'({difference})')}"


def _unbroken(figure: str) -> str:
    """Return a figure that stays on one line with its unit."""
    return figure.replace(" ", "\u00a0")
