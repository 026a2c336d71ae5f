"""The summary of a run in a terminal: one screen, the answer first, the report's path last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from spark_jobs.judge.decision_counts import VerdictCounts
from spark_jobs.judge.throttles import ThrottledSensor
from spark_jobs.publish.facts.audit_facts import AuditFacts, headline
from spark_jobs.publish.facts.findings import Finding
from spark_jobs.publish.facts.news import news_in_a_line
from spark_jobs.publish.facts.proposals import proposal_in_words
from spark_jobs.publish.facts.quality import total_lines
from spark_jobs.publish.publish_report import report_path
from spark_jobs.publish.read_facts import gather
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.names import counted, entity_name
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


def print_summary(scope: RunScope, console: Console | None = None) -> None:
    """Print an audited day in at most ``LINES_MAX`` lines; long ones are left to the terminal."""
    # Text, not markup: a client id like [red] is a name. Soft wrap keeps the path in one piece.
    console = console or Console(soft_wrap=True, highlight=False)
    for line in _lines(gather(scope)):
        console.print(line, soft_wrap=True, highlight=False)


def _lines(facts: AuditFacts) -> list[Text]:
    answer, report = headline(facts), report_path(facts.scope)
    mark, style = _MOODS.get(answer.mood, _MOODS["unknown"])
    lines = [
        Text(_audited(facts), style="bold"),
        Text(f"{mark} {answer.title}", style=style),
    ]
    if facts.verdicts.decided:
        lines.append(Text(_decisions(facts.verdicts)))
    if news := news_in_a_line(facts.news):
        lines.append(Text(news))
    lines += _listed("findings", list(_findings(facts.findings)), _FINDINGS_MAX, "Findings: none")
    throttled = [Text(_throttled(sensor)) for sensor in facts.throttled]
    lines += _listed("throttled most", throttled, _THROTTLED_MAX, "Throttled: nobody")
    recommended = [Text(_short(proposal_in_words(proposal))) for proposal in facts.changes]
    lines += _listed("recommended", recommended, _RECOMMENDATIONS_MAX, "Recommended: no change")
    written = str(report) if report.is_file() else "not published yet"
    lines.append(Text(f"Report: {written}", style="bold"))
    return lines


def _audited(facts: AuditFacts) -> str:
    where = f"{facts.scope.cluster} on {facts.scope.day}"
    if facts.span_ms:
        first, last = (time_of_day(moment, facts.scope.day) for moment in facts.span_ms)
        where += f", {first} to {last} UTC"
    brokers = len(facts.brokers)
    text = f"{where}: {counted(facts.requests, 'request')} of {counted(brokers, 'broker')}"
    if quarantined := total_lines(facts.files).quarantined:
        text += f", {counted(quarantined, 'unreadable line')}"
    return text


def _decisions(verdicts: VerdictCounts) -> str:
    """Return the shares of what the log decides, and beside them what it cannot decide."""
    parts = [
        f"{count(number)} {what} ({share(number, verdicts.judged)})"
        for number, what in ((verdicts.agree, "as configured"), (verdicts.wrong, "wrong"))
    ]
    told = f"{counted(verdicts.decided, 'decision')}: {', '.join(parts)}"
    return f"{told}; {count(verdicts.indeterminate)} cannot be decided"


def _findings(findings: Sequence[Finding]) -> Iterator[Text]:
    for finding in findings:
        style = _SEVERITIES.get(finding.severity, "")
        yield Text.assemble((finding.severity, style), f"  {_short(finding.explanation)}")


def _throttled(one: ThrottledSensor) -> str:
    sensor = one.sensor
    who = f"{entity_name(*sensor.tags)} by {sensor.quota_type} on broker {sensor.broker_id}"
    if one.refused:
        return f"{who}: {counted(one.refused, 'mutation')} refused"
    requests = counted(one.requests, "request")
    return f"{who}: {requests}, {duration(one.throttle_time_ms)} of delay"


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
