"""The summary of a run in a terminal: one screen, the answer first, the report's path last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from spark_jobs.publish.summary import AuditSummary, ThrottledClient
from spark_jobs.wording.names import plural
from spark_jobs.wording.numbers import count, duration, share, time_of_day
from spark_jobs.wording.visible_text import shortened

LINES_MAX = 20
_FINDINGS_MAX = 4
_THROTTLED_MAX = 4
_RECOMMENDATIONS_MAX = 3
_SENTENCE_LENGTH_MAX = 300
_MOODS = {
    "good": ("✓", "bold green"),
    "warning": ("!", "bold yellow"),
    "critical": ("✗", "bold red"),
    "unknown": ("?", "bold"),
}
_SEVERITIES = {"critical": "red", "warning": "yellow", "info": "dim"}


def print_summary(summary: AuditSummary, console: Console | None = None) -> None:
    """Print ``summary`` in at most ``LINES_MAX`` lines; long ones are left to the terminal."""
    # Text, not markup: a client id like [red] is a name. Soft wrap keeps the path in one piece.
    console = console or Console(soft_wrap=True, highlight=False)
    for line in summary_lines(summary):
        console.print(line, soft_wrap=True, highlight=False)


def summary_lines(summary: AuditSummary) -> list[Text]:
    """Return the lines of the summary, the report's path in the last."""
    mark, style = _MOODS.get(summary.mood, _MOODS["unknown"])
    lines = [
        Text(_audited(summary), style="bold"),
        Text(f"{mark} {summary.title}", style=style),
    ]
    if summary.decisions:
        lines.append(Text(_decisions(summary)))
    if summary.news:
        lines.append(Text(summary.news))
    lines += _listed("findings", list(_findings(summary.findings)), _FINDINGS_MAX, "Findings: none")
    throttled = [Text(_throttled(client)) for client in summary.throttled]
    lines += _listed("throttled most", throttled, _THROTTLED_MAX, "Throttled: nobody")
    recommended = [Text(_short(sentence)) for sentence in summary.recommendations]
    lines += _listed("recommended", recommended, _RECOMMENDATIONS_MAX, "Recommended: no change")
    written = str(summary.report) if summary.is_report_written else "not published yet"
    lines.append(Text(f"Report: {written}", style="bold"))
    return lines


def _audited(summary: AuditSummary) -> str:
    where = f"{summary.cluster} on {summary.day}"
    if summary.span_ms:
        first, last = (time_of_day(moment, summary.day) for moment in summary.span_ms)
        where += f", {first} to {last} UTC"
    brokers, requests = summary.brokers, summary.requests
    text = (
        f"{where}: {count(requests)} {plural(requests, 'request')} of {count(brokers)} "
        f"{plural(brokers, 'broker')}"
    )
    if summary.quarantined:
        text += f", {count(summary.quarantined)} unreadable {plural(summary.quarantined, 'line')}"
    return text


def _decisions(summary: AuditSummary) -> str:
    whole = summary.decisions
    parts = [
        f"{count(number)} {what} ({share(number, whole)})"
        for number, what in (
            (summary.agree, "as configured"),
            (summary.indeterminate, "cannot be decided"),
            (summary.wrong, "wrong"),
        )
    ]
    return f"{count(whole)} {plural(whole, 'decision')}: {', '.join(parts)}"


def _findings(findings: Sequence[tuple[str, str]]) -> Iterator[Text]:
    for severity, sentence in findings:
        style = _SEVERITIES.get(severity, "")
        yield Text.assemble((severity, style), f"  {_short(sentence)}")


def _throttled(client: ThrottledClient) -> str:
    who = f"{client.client} by {client.quota_type} on broker {client.broker_id}"
    if client.refused:
        refused = plural(client.refused, "mutation")
        return f"{who}: {count(client.refused)} {refused} refused"
    requests = plural(client.requests, "request")
    time = duration(client.throttle_time_ms)
    return f"{who}: {count(client.requests)} {requests}, {time} of delay"


def _listed(name: str, lines: Sequence[Text], lines_max: int, none: str) -> Iterator[Text]:
    if not lines:
        yield Text(none)
        return
    shown = min(len(lines), lines_max)
    of = f", {shown} of {count(len(lines))}" if shown < len(lines) else ""
    yield Text(f"{name[0].upper()}{name[1:]}{of}:")
    yield from (Text("  ").append_text(line) for line in lines[:lines_max])


def _short(sentence: str) -> str:
    return shortened(sentence, _SENTENCE_LENGTH_MAX)
