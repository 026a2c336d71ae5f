"""The check of an archive as a page of a terminal."""

from __future__ import annotations

import datetime as dt
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from spark_jobs.check.auditable import QuotaShare
from spark_jobs.check.clock import AGREES, HINTED, NOT_TOLD, ClockAnswer
from spark_jobs.check.hours import BrokerHours, hours_of_brokers, main_span, runs
from spark_jobs.check.looked_at import Beside, Looked, summed
from spark_jobs.check.lost import LINES_MAX
from spark_jobs.check.missing import BLOCKS, LIMITS, named
from spark_jobs.check.result import AuditSize, Check, listeners_of
from spark_jobs.ingest.lost_lines.lost_lines import LOST_LINES
from spark_jobs.wording.names import counted, plural
from spark_jobs.wording.numbers import count, duration, share, significant, size
from spark_jobs.wording.visible_text import shortened, visible

WIDTH_MAX = 100
_NAME = 10
_MARKS = {BLOCKS: "✗", LIMITS: "!"}
_MAPS_MAX, _LISTENERS_MAX, _CELLS_MAX = 8, 8, 96
_APIS_MAX = 4
NOT_TOLD_WHY = (
    "no stamp names an offset, no container runtime wrote its own times, no answer holds the "
    "broker's, and files were not written when their last lines were"
)


class Page:
    """Gathers lines, each no longer than the terminal is wide."""

    def __init__(self, width: int) -> None:
        self.lines: list[str] = []
        self._width = min(width, WIDTH_MAX)

    def head(self, text: str) -> None:
        """Begin a part."""
        self.lines += ["", text]

    def row(self, name: str, text: str) -> None:
        """Add a named line, broken where it is too long."""
        self.wrap(f"  {name:<{_NAME}} ", " " * (_NAME + 3), text)

    def wrap(self, first: str, others: str, text: str) -> None:
        """Add a text that begins with ``first``, and with ``others`` on lines that follow."""
        self.lines += textwrap.wrap(
            visible(text),
            self._width,
            initial_indent=first,
            subsequent_indent=others,
            break_on_hyphens=False,
        ) or [first.rstrip()]


def page_lines(check: Check, width: int) -> list[str]:
    """Return the page: the answer first, what is missing and what an audit takes last."""
    page = Page(width)
    looked, beside = check.looked, check.beside
    answer = "can be audited" if check.can_be_audited else "cannot be audited as it is"
    page.wrap("", "  ", f"{check.archive}, cluster {check.cluster}: {answer}")
    page.wrap("", "  ", looked_at_text(looked))
    _files(page, looked, beside)
    _hours(page, looked)
    if looked.requests:
        _clock(page, check.clock)
    _lines(page, looked, check.losses)
    if looked.requests:
        _listeners(page, looked)
        _quotas(page, check.shares)
    if check.missing:
        page.head("Missing → do this")
        for each in check.missing:
            mark = _MARKS.get(each.weight, "·")
            page.wrap(f"  {mark} ", "    ", f"{shortened(each.what, 400)} → {each.do}")
    if looked.requests:
        _audit(page, check.size, is_whole=looked.is_whole)
    return page.lines


def looked_at_text(looked: Looked) -> str:
    """Return the lines that say what the answer rests on."""
    files = len(looked.files) + len(looked.copies)
    listed = files + len(looked.passed_by)
    if not listed:
        return "Looked at: no request log was found"
    what = f"{counted(looked.lines, 'line')}"
    if looked.is_whole:
        logs = f"{count(files)} request {plural(files, 'log')}"
        return f"Looked at: every line, {what} of {logs}"
    read = sum(f.unpacked_bytes for f in looked.files)
    ways = []
    in_pieces = sum(not f.is_whole and f.reaches_end for f in looked.files)
    begun = sum(not f.is_whole and not f.reaches_end and not f.refused for f in looked.files)
    if whole := sum(f.is_whole for f in looked.files):
        ways.append(f"all of {count(whole)}")
    if in_pieces:
        ways.append(f"beginning, middle and end of {count(in_pieces)}")
    if begun:
        ways.append(f"only the beginning of {count(begun)} (packed)")
    if looked.passed_by:
        ways.append(f"nothing of {count(len(looked.passed_by))}")
    logs = plural(listed, "log")
    return (
        f"Looked at: {what}, {size(read)} of about {size(looked.estimated('unpacked_bytes'))}; of "
        f"{count(listed)} request {logs} {', '.join(ways)}. --all looks at every line"
    )


def _files(page: Page, looked: Looked, beside: Beside) -> None:
    page.head("Files")
    if looked.files:
        kinds = Counter(_kind(f.source_file) for f in looked.files)
        levels = summed(f.levels for f in looked.files)
        parts = [
            f"{count(len(looked.files) + len(looked.passed_by))} "
            f"({', '.join(f'{count(n)} {kind}' for kind, n in kinds.most_common())})"
        ]
        said = {"JSON": "JSON (Kafka 2.8 and later)", "text": "text (Kafka 2.0 to 2.7)"}
        parts += [said[name] for name in summed(f.formats for f in looked.files)]
        if levels:
            parts.append("at " + " and ".join(levels))
        envelopes = summed(f.envelopes for f in looked.files)
        wrapped = [f"in {name} envelopes" for name in envelopes if name != "plain"]
        page.row("requests", ", ".join(parts + wrapped))
    if beside.server_logs:
        read = beside.server_logs_read
        part = "" if read == beside.server_logs else f", of which {count(read)} were read"
        changes = beside.events.get("server_log", 0)
        page.row(
            "server log",
            f"{count(beside.server_logs)} of broker {_ids(beside.server_log_brokers)}{part}: "
            f"{count(changes)} quota changes, {count(beside.throttle_records)} throttled "
            f"requests, {count(beside.starts)} starts",
        )
    if beside.property_brokers:
        page.row("settings", f"server.properties of broker {_ids(beside.property_brokers)}")
    page.row("version", _versions(looked, beside))
    page.row("quotas", _sources(beside))
    if beside.ignored:
        page.row("not read", f"{count(len(beside.ignored))}: {named(beside.ignored)}")


def _kind(name: str) -> str:
    return {"gz": ".gz", "zst": ".zst"}.get(name.rpartition(".")[2], "plain")


def _ids(brokers: Iterable[int]) -> str:
    """Return the ids as people list them: 1-3, 7."""
    spans = runs(sorted(brokers))
    return ", ".join(f"{a}-{b - 1}" if b - a > 1 else str(a) for a, b in spans) or "none"


def _versions(looked: Looked, beside: Beside) -> str:
    if beside.versions:
        by_version: defaultdict[str, list[int]] = defaultdict(list)
        for text in beside.versions:
            broker, _, version = text.partition(": ")
            by_version[version].append(int(broker))
        given = "; ".join(f"{v} (broker {_ids(ids)})" for v, ids in sorted(by_version.items()))
    else:
        given = "not given"
    told = sorted({v for look in looked.files for v in look.versions})
    return given + (f"; brokers say of themselves {', '.join(told)}" if told else "")


def _sources(beside: Beside) -> str:
    names = {
        "log": "changes in the request log",
        "server_log": "in server logs",
        "snapshot": "in snapshots",
        "journal": "in quota_changes.txt",
        "static": "in server.properties",
    }
    parts = [f"{count(n)} {names[source]}" for source, n in beside.events.items()]
    lacking = [] if beside.snapshots else ["no snapshot"]
    return ", ".join([*parts, *lacking]) if parts else "no value is known"


def _hours(page: Page, looked: Looked) -> None:
    hours = hours_of_brokers(looked)
    if not hours:
        return
    first, end = main_span(looked.hours)
    step = 1 if end - first <= _CELLS_MAX else 24
    begin = first - first % step
    unit = "an hour" if step == 1 else "a day"
    page.head(f"Hours  {_hour(first)} to {_hour(end)} UTC, one sign {unit}")
    maps: defaultdict[str, list[int | None]] = defaultdict(list)
    for broker, of_broker in hours.items():
        maps[_map(of_broker, begin, end, step)].append(broker)
    for cells, brokers in list(maps.items())[:_MAPS_MAX]:
        known = _ids([b for b in brokers if b is not None])
        page.row("no folder" if None in brokers else f"broker {known}", cells)
    if len(maps) > _MAPS_MAX:
        page.row("", f"and {len(maps) - _MAPS_MAX} more kinds of brokers (--json has all)")
    if any(set(cells) - {"#"} for cells in maps):
        page.row("", "# there, ? not looked at, - in part, . missing")


def _map(hours: BrokerHours, begin: int, end: int, step: int) -> str:
    cells = []
    lacked = {h for run in hours.missing for h in range(*run)}
    for at in range(begin, end, step):
        these = range(at, min(at + step, end))
        missing = sum(h in lacked for h in these)
        if missing:
            cells.append("." if missing == len(these) else "-")
        else:
            cells.append("#" if any(h in hours.seen for h in these) else "?")
    return "".join(cells)


def _hour(hour: int) -> str:
    moment = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(hours=hour)
    return moment.strftime("%Y-%m-%d %H:00")


def _clock(page: Page, clock: ClockAnswer) -> None:
    page.head("Time zone")
    said = "; ".join(clock.sentences)
    if clock.state == NOT_TOLD:
        page.row("read as", f"{clock.read_as}. Not told by the log: {NOT_TOLD_WHY}")
    else:
        unfit = "which does not seem to fit" if clock.state == HINTED else "which does not fit"
        fits = "which fits" if clock.state == AGREES else unfit
        page.row("read as", f"{clock.read_as}, {fits}: {said}")


def _lines(page: Page, looked: Looked, losses: Mapping[str, int] | None) -> None:
    if not looked.lines:
        return
    page.head("Lines")
    whole = looked.lines
    requests = f"{count(looked.requests)} requests ({share(looked.requests, whole)})"
    other = sum(f.other for f in looked.files)
    aside = sum(looked.quarantined.values())
    page.row(
        "read as",
        f"{requests}, {count(other)} of other loggers, {count(aside)} set aside (quarantine)",
    )
    if losses is None:
        why = f"every line has to be looked at, of up to {count(LINES_MAX)} requests"
        page.row("lost", f"not looked for: {why}")
    elif looked.requests:
        lost = losses.get(LOST_LINES, 0)
        told = share(lost, looked.requests + lost)
        page.row("lost", f"{count(lost)} requests ({told}), by gaps in the correlation ids")


def _listeners(page: Page, looked: Looked) -> None:
    page.head("Listeners")
    with_replicas = {g.listener for g in looked.groups if g.is_replica}
    busiest = sorted(listeners_of(looked), key=lambda one: -sum(one["requests"].values()))
    for each in busiest[:_LISTENERS_MAX]:
        listener, apis = each["listener"], each["requests"]
        who = "clients and replicas" if listener in with_replicas else "clients"
        who = "controllers" if each["is_controllers"] else who
        shown = ", ".join(f"{api} {count(n)}" for api, n in [*apis.items()][:_APIS_MAX])
        more = f" and {len(apis) - _APIS_MAX} more" if len(apis) > _APIS_MAX else ""
        protocol = "/".join(each["security_protocols"]) or "protocol not told"
        page.wrap(
            "  ",
            "    ",
            f"{shortened(listener, 40)} ({protocol}), broker {_ids(each['brokers'])}, {who}: "
            f"{count(sum(apis.values()))} requests, {shown}{more}",
        )
    if len(busiest) > _LISTENERS_MAX:
        page.row("", f"and {len(busiest) - _LISTENERS_MAX} more listeners")


def _quotas(page: Page, shares: Sequence[QuotaShare]) -> None:
    page.head(
        f"{'Quotas':<26}{'requests':>12}{'size known':>12}{'value known':>13}{'auditable':>11}"
    )
    for each in shares:
        n = each.requests
        sized = share(n - each.unsized - each.without_controller, n)
        decided = n - each.without_controller
        valued = share(decided - each.without_value, n)
        page.lines.append(
            f"  {each.quota_type:<24}{count(n):>12}{sized:>12}{valued:>13}"
            f"{share(each.auditable, n):>11}"
        )


def _audit(page: Page, audit: AuditSize, *, is_whole: bool) -> None:
    page.head("An audit would take")
    about = "" if is_whole else "about "
    page.row(
        "reads",
        f"{about}{size(audit.unpacked_bytes)} of log unpacked, {_round(audit.lines, is_whole)} "
        f"lines, {_round(audit.requests, is_whole)} requests, {count(audit.days)} UTC "
        f"{plural(audit.days, 'day')}",
    )
    least, most = audit.wall_s
    page.row(
        "takes",
        f"about {duration(audit.cpu_s * 1000)} of processor time, {duration(least * 1000)} to "
        f"{duration(most * 1000)} on this machine ({count(audit.processors)} "
        f"{plural(audit.processors, 'processor')}), {size(audit.warehouse_bytes)} of warehouse "
        "(docs/capacity.md)",
    )


def _round(value: float, is_exact: bool) -> str:
    if is_exact:
        return count(value)
    return "about " + significant(float(f"{value:.2g}"), 2)
