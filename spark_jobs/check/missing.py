"""What an archive lacks, each with what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.check.auditable import QuotaShare, controller_listeners
from spark_jobs.check.clock import DIFFERS, HINTED, MIXED, NOT_TOLD, ClockAnswer
from spark_jobs.check.hours import hours_of_brokers, main_span
from spark_jobs.check.looked_at import Beside, Looked, summed
from spark_jobs.ingest.lines.line_reader import Reason
from spark_jobs.ingest.lost_lines.lost_lines import LOST_LINES, OTHER_BROKER
from spark_jobs.quota.codes import QuotaType
from spark_jobs.wording.names import plural
from spark_jobs.wording.numbers import share

BLOCKS, LIMITS, NOTE = "blocks", "limits", "note"
"""Nothing can be audited so; less can be than could; nothing is wrong with the result."""

NAMED_MAX = 3
DO_DEBUG = "set kafka.request.logger to DEBUG on every broker (docs/howto/own-archive.md)"


@dataclass(frozen=True, slots=True)
class Missing:
    """One thing that is missing or wrong, what to do about it, and how much it matters."""

    weight: str
    what: str
    do: str


def named(names: Sequence[str]) -> str:
    """Return the first of many names, and how many more there are.

    >>> named(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")


MANY_REQUESTS = 1000
"""Among so many a kind that all clusters have is no longer missing by chance."""
REASONS = {
    Reason.FOREIGN: (
        "no line of a Kafka log",
        "take the file out; if a shipper put something before each line, pass --prefix",
    ),
    Reason.BAD_TIME: (
        "a time before 1970, or that clocks of this zone never showed",
        "pass the brokers' zone with --timezone",
    ),
    Reason.FUTURE: (
        "a time that is still to come by this machine's clock",
        "look at the clock of the broker, and of this machine",
    ),
    Reason.CUT: ("lines that end early", "copy files when they are closed; look at the shipper"),
    Reason.INTERLEAVED: ("two requests in one line", "give the logger an appender of its own"),
    Reason.BROKEN_JSON: ("JSON that does not read", "look at what rewrites the lines"),
    Reason.UNEXPECTED_FIELD: (
        "a message that this release does not read",
        "look for a newer quota-audit; the brokers may be newer",
    ),
    Reason.BROKEN_TEXT: (
        "text of 2.0 to 2.7 that does not read",
        "look at what rewrites the lines",
    ),
    Reason.BEFORE_2_0: (
        "requests of a broker before 2.0",
        "nothing: such brokers held throttled responses back, they cannot be audited",
    ),
    Reason.TOO_LONG: ("lines of more than 16 MB", "take the file out of the archive"),
}
_ZONES = {
    DIFFERS: (
        LIMITS,
        "the log was read in the wrong zone, {zone}: {said}",
        "pass the brokers' zone with --timezone{example}",
    ),
    MIXED: (
        LIMITS,
        "brokers in different zones do not fit into one audit: {said}",
        "set -Duser.timezone=UTC for all; audit older logs in an archive for each zone",
    ),
    HINTED: (
        LIMITS,
        "the zone {zone} does not seem to fit: {said}",
        "ask which zone the brokers' clocks are set to, and pass it with --timezone",
    ),
    NOT_TOLD: (
        NOTE,
        "the time zone is not told by the log; it was read as {zone}",
        "pass the brokers' zone with --timezone if it is another",
    ),
}


def missing_of(
    looked: Looked,
    beside: Beside,
    shares: Sequence[QuotaShare],
    clock: ClockAnswer,
    losses: Mapping[str, int] | None,
) -> list[Missing]:
    """Return all that is missing, what matters most first."""
    found = [
        *(
            Missing(BLOCKS, f"an ingest would end: {why}", "do what it says, then check again")
            for why in beside.refused
        ),
        *_without_requests(looked, beside),
        *_levels(looked),
        *_values(looked, beside, shares),
        *_sizes(looked, shares),
        *_controllers(looked, shares),
        *(_clock(clock) if looked.requests else ()),
        *_files(looked),
        *_hours(looked),
        *_lines(looked),
        *_lost(looked, losses),
        *_beside(looked, beside),
        *_unheard(looked, beside),
    ]
    weights = [BLOCKS, LIMITS, NOTE]
    return sorted(found, key=lambda missing: weights.index(missing.weight))


def _clock(clock: ClockAnswer) -> Iterator[Missing]:
    if clock.state in _ZONES:
        weight, what, do = _ZONES[clock.state]
        said = what.format(zone=clock.read_as, said="; ".join(clock.sentences))
        example = f", such as {clock.example}" if clock.example else ""
        yield Missing(weight, said, do.format(example=example))


def _files(looked: Looked) -> Iterator[Missing]:
    cut = [f.source_file for f in looked.files if f.cut]
    empty = [f.source_file for f in looked.files if f.is_empty]
    if cut:
        yield Missing(
            LIMITS,
            f"{len(cut)} {plural(len(cut), 'file')} cut off: {named(cut)}",
            "copy again when the file is closed; what is lost is treated as missing",
        )
    if empty:
        yield Missing(
            NOTE, f"{len(empty)} empty {plural(len(empty), 'file')}: {named(empty)}", "nothing"
        )
    if looked.copies:
        n = len(looked.copies)
        yield Missing(
            NOTE,
            f"{n} {plural(n, 'file')} with the lines of another: {named(looked.copies)}",
            "nothing: each line counts once",
        )


def _hours(looked: Looked) -> Iterator[Missing]:
    """Yield brokers without hours that others have, and stamps far from all others."""
    for broker, hours in hours_of_brokers(looked).items():
        lacked = sum(end - begin for begin, end in hours.missing)
        if lacked:
            who = "files of no broker's folder" if broker is None else f"broker {broker}"
            yield Missing(
                LIMITS,
                f"{who}: no line of {lacked:,} {plural(lacked, 'hour')} that others have",
                "archive what was rotated away; a quiet or stopped broker has none",
            )
    first, end = main_span(looked.hours)
    far = sum(n for hour, n in looked.hours.items() if not first <= hour < end)
    if far:
        yield Missing(
            LIMITS,
            f"{far:,} {plural(far, 'request')} a year or more from most others: days of their own",
            "look for damaged stamps; audit with --day, or take the lines out",
        )


def _lines(looked: Looked) -> Iterator[Missing]:
    for reason, count in looked.quarantined.most_common():
        if reason in REASONS:
            what, do = REASONS[Reason(reason)]
            yield Missing(LIMITS, f"{count:,} {plural(count, 'line')}: {what} ({reason})", do)


def _lost(looked: Looked, losses: Mapping[str, int] | None) -> Iterator[Missing]:
    for cause, what, do in (
        (
            LOST_LINES,
            "are missing, by gaps in the clients' correlation ids",
            "look for what drops lines: rotation, an asynchronous appender that discards",
        ),
        (
            OTHER_BROKER,
            "went to brokers whose logs are not in the archive",
            "archive the request logs of all brokers",
        ),
    ):
        count = (losses or {}).get(cause, 0)
        if count:
            of_all = share(count, looked.requests + count)
            yield Missing(LIMITS, f"{count:,} requests ({of_all}) {what}", do)


def _beside(looked: Looked, beside: Beside) -> Iterator[Missing]:
    brokers = set(looked.broker_ids)
    if not brokers:
        return
    unlogged = brokers - beside.server_log_brokers
    if unlogged:
        yield Missing(
            LIMITS,
            f"no server.log of broker {_ids(unlogged)}: when quotas changed there is known to "
            "tens of ms only, and starts of the broker by inference",
            "archive server.log* beside the request logs, quota managers at INFO or DEBUG",
        )
    elif not beside.throttle_records and beside.server_logs:
        yield Missing(
            NOTE,
            "the server logs have no throttled requests",
            "set kafka.server.ClientQuotaManager to DEBUG: record times are then exact",
        )
    without = (beside.server_log_brokers | beside.property_brokers) - brokers
    if without and looked.is_whole:
        yield Missing(
            LIMITS,
            f"no request of broker {_ids(without)}, which has other files here",
            f"archive its request logs, or {DO_DEBUG}",
        )
    if brokers - beside.property_brokers:
        yield Missing(
            NOTE,
            f"no server.properties of broker {_ids(brokers - beside.property_brokers)}: "
            "Kafka's default windows are taken",
            "archive it, if quota.window.num or quota.window.size.seconds is set",
        )
    if not beside.versions:
        told = sorted({v for f in looked.files for v in f.versions})
        yield Missing(
            NOTE,
            "the brokers' version is not given: it is found out from throttles, if there are any",
            f"write {' or '.join(told) or 'it'} into kafka-version.txt, or pass --broker-version",
        )


def _unheard(looked: Looked, beside: Beside) -> Iterator[Missing]:
    heard = {(g.broker_id, g.listener) for g in looked.groups}
    brokers = set(looked.broker_ids)
    silent = sorted(
        f"{listener} of broker {broker}"
        for broker, listeners in beside.listeners.items()
        for listener in listeners
        if broker in brokers and (broker, listener) not in heard
    )
    if silent:
        yield Missing(
            NOTE,
            f"no request on a listener that is configured: {named(silent)}",
            "nothing if nobody uses it; else look for a filter of the appender or the shipper",
        )
    apis = {g.api_name for g in looked.groups}
    lacking = [api for api in ("PRODUCE", "FETCH") if api not in apis]
    if lacking and looked.requests >= MANY_REQUESTS:
        yield Missing(
            NOTE,
            f"no {' and no '.join(lacking)} among {looked.requests:,} requests",
            "look for a filter of the appender or the shipper",
        )


def _ids(brokers: set[int] | frozenset[int]) -> str:
    return named([str(b) for b in sorted(brokers)])


def _without_requests(looked: Looked, beside: Beside) -> Iterator[Missing]:
    if not looked.files:
        what = "no request log: no file is named kafka-request.log*"
        if beside.ignored:
            what += f"; other files are {named(beside.ignored)}"
        yield Missing(
            BLOCKS, what, f"archive them below broker=<id>/ under that name, or {DO_DEBUG}"
        )
        return
    reasons = looked.quarantined
    unknown = reasons[Reason.UNKNOWN_BROKER]
    if unknown:
        addresses = sorted({a for f in looked.files for a in f.addresses})
        seen = f" (brokers answered at {named(addresses)})" if addresses else ""
        example = addresses[0] if addresses else "HOST:PORT"
        yield Missing(
            LIMITS if looked.requests else BLOCKS,
            f"{unknown:,} {plural(unknown, 'request')} of no known broker: neither a folder "
            f"broker=<id> nor --listener names it{seen}",
            f"put each broker's files below broker=<id>/, or pass --listener {example}=<id> for "
            "each address",
        )
    if looked.requests or unknown:
        return
    if looked.lines and not reasons:
        yield Missing(BLOCKS, "no line is a request: the logger stands above DEBUG", DO_DEBUG)
    elif reasons.keys() <= {Reason.BEFORE_2_0} and looked.lines:
        yield Missing(BLOCKS, "no request of Kafka 2.0 or later", REASONS[Reason.BEFORE_2_0][1])
    elif not looked.lines:
        yield Missing(
            BLOCKS, "every request log is empty or cannot be read", "look at what copies them"
        )
    else:
        yield Missing(BLOCKS, "no line is a request that can be read", "see the next lines")


def _values(looked: Looked, beside: Beside, shares: Sequence[QuotaShare]) -> Iterator[Missing]:
    if not looked.requests:
        return
    snapshot = (
        "print the quotas with kafka-configs.sh --describe into quota-snapshot-<epoch ms>.txt "
        "(docs/howto/own-archive.md)"
    )
    within = _within(looked)
    lacking = [s for s in shares if s.without_value]
    if not beside.events:
        yield Missing(
            BLOCKS, f"no quota value: no snapshot, and no change of one is logged{within}", snapshot
        )
    elif not any(s.auditable for s in shares):
        yield Missing(
            BLOCKS, f"no request whose size and quota value are both known{within}", snapshot
        )
    elif lacking and not beside.snapshots:
        listed = ", ".join(f"{s.quota_type} {share(s.without_value, s.requests)}" for s in lacking)
        yield Missing(
            LIMITS,
            f"no snapshot of quotas: a value set before the log begins is unknown, so clients "
            f"without a known value ({listed} of its requests) may have one{within}",
            snapshot,
        )


def _within(looked: Looked) -> str:
    return "" if looked.is_whole else ", in the lines looked at (--all looks at every one)"


def _levels(looked: Looked) -> Iterator[Missing]:
    levels = summed(f.levels for f in looked.files)
    if levels["INFO"] and not levels["DEBUG"] and not levels["TRACE"]:
        yield Missing(
            BLOCKS,
            "every request was logged at INFO: at that level brokers log only requests of "
            "deprecated versions",
            DO_DEBUG,
        )


def _sizes(looked: Looked, shares: Sequence[QuotaShare]) -> Iterator[Missing]:
    is_text = any(look.formats["text"] for look in looked.files)
    for each in shares:
        if not each.unsized:
            continue
        what = f"{each.quota_type}: {each.unsized:,} of {each.requests:,} requests without a size"
        if each.quota_type == QuotaType.CONTROLLER_MUTATION_RATE:
            what = what.replace("a size", "a number of partitions") + _within(looked)
            do = "let the archive begin where the topics were created; else nothing"
        elif is_text:
            do = "set kafka.request.logger to TRACE: text logs of 2.0 to 2.7 have sizes only there"
        else:
            do = "look for a newer quota-audit: this one does not know the request's version"
        yield Missing(LIMITS, what, do)


def _controllers(looked: Looked, shares: Sequence[QuotaShare]) -> Iterator[Missing]:
    mutations = shares[-1]
    if mutations.without_controller:
        yield Missing(
            LIMITS,
            f"{mutations.quota_type}: {mutations.without_controller:,} of {mutations.requests:,} "
            "mutations without the line of the controller that decided",
            "archive the request logs of all controllers, with the same logger at DEBUG",
        )
    elif looked.requests and not mutations.requests and not controller_listeners(looked.groups):
        yield Missing(
            NOTE,
            "no controller's log and no mutation: whether topics are created is not known",
            "archive the controllers' request logs too, if controller_mutation_rate is set",
        )
