"""The report: what one run found, as one HTML document that needs nothing else.

For each owner there is one about their clients only, with a list of owners and of the unowned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from spark_jobs.judge.throttles import ThrottledSensor
from spark_jobs.publish.facts.audit_facts import AuditFacts, headline
from spark_jobs.publish.facts.findings import Finding, by_severity
from spark_jobs.publish.facts.news import changes_in_words, gone_in_words, problem_name
from spark_jobs.publish.facts.owner_facts import TeamSummary, is_of_team, teams_on
from spark_jobs.publish.facts.proposals import ProposedQuota, proposal_in_words
from spark_jobs.publish.facts.quality import QuarantineReason, total_lines
from spark_jobs.publish.facts.timelines import EntityTimeline, SensorHistory
from spark_jobs.publish.follow.changes import Status
from spark_jobs.publish.page.page_template import page_template
from spark_jobs.publish.page.pictures import bound_in_words, pictured_sensors, sensor_pictures
from spark_jobs.quota.sensor_key import SensorKey
from spark_jobs.settings import ReportSettings
from spark_jobs.wording.names import FINDING_KINDS, REASONS, counted, entity_name, in_words
from spark_jobs.wording.numbers import count, duration, rate, share
from spark_jobs.wording.visible_text import shortened

OWNERS_NAME = "owners.html"
_PAGE = re.compile(r"owner-[a-z0-9-]+\.html")
_SLUG_LENGTH_MAX = 40


@dataclass(frozen=True, slots=True)
class ReportTables:
    """What the reports of a day show of its tables and files besides the facts."""

    timelines: tuple[EntityTimeline, ...]
    quarantine: tuple[QuarantineReason, ...]
    data_docs: tuple[tuple[str, str], ...]  # stage, address as seen from the report
    written_files: tuple[tuple[str, str], ...]  # name, description


def render(
    facts: AuditFacts,
    tables: ReportTables,
    histories: Mapping[SensorKey, SensorHistory],
    settings: ReportSettings,
) -> str:
    """Return the page of ``facts``: the same text for the same tables and settings.

    Of one team's facts it leaves out what is about the run as a whole.
    """
    is_of_all = facts.team is None
    pictures = sensor_pictures(facts, histories)
    return page_template("report.html.j2").render(
        facts=facts,
        headline=headline(facts),
        first=first_page(facts),
        pictures=pictures,
        pictures_max=settings.pictures_max,
        pictures_possible=len(pictured_sensors(facts)),
        anchors={picture.sensor: picture.anchor for picture in pictures},
        timelines=[t for t in tables.timelines if is_of_all or is_of_team(t, facts)],
        quarantine=tables.quarantine,
        data_docs=tables.data_docs,
        lines=total_lines(facts.files),
        written_files=tables.written_files if is_of_all else (),
        rows_max=settings.table_rows_max,
        bound_in_words=bound_in_words,
        course=changes_in_words(facts.news),
        gone_in_words=gone_in_words,
        problem_name=problem_name,
        # A report of one owner does not repeat the team beside each name.
        team_of=teams_on(facts.news.owners if is_of_all else None, facts.scope.day),
    )


def page_name(team: str) -> str:
    """Return the name of a team's report: readable, and another one for every other team.

    >>> page_name("Orders & Co.")
    'owner-orders-co-cb402c.html'
    """
    slug = re.sub("[^a-z0-9]+", "-", team.lower()).strip("-")[:_SLUG_LENGTH_MAX]
    digest = blake2b(team.encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()
    return "-".join(filter(None, ("owner", slug, digest))) + ".html"


def is_owner_page(name: str) -> bool:
    """Return True if a file's name is that of an owner's report, or of the list of owners."""
    return name == OWNERS_NAME or _PAGE.fullmatch(name) is not None


def render_owners(
    facts: AuditFacts, summaries: Sequence[TeamSummary], settings: ReportSettings
) -> str:
    """Return the page that lists the owners of clients, and the clients that nobody owns."""
    unowned = next((s.clients for s in summaries if s.team is None), ())
    return page_template("owners.html.j2").render(
        facts=facts,
        summaries=[s for s in summaries if s.team is not None],
        unowned=[entity_name(user, client_id) for user, client_id in unowned],
        page_name=page_name,
        by_severity=by_severity,
        told=(Status.NEW, Status.WORSE),
        rows_max=settings.table_rows_max,
    )


FINDINGS_MAX = 3
THROTTLED_MAX = 5
PROPOSALS_MAX = 3
_REASONS_MAX = 3
_NAME_LENGTH_MAX = 48
_SENTENCE_LENGTH_MAX = 180

QuotaOf = tuple[str, str, str]
"""Quota type, user and client-id of sensors that differ by broker only."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """How much one quota held one client back, on all brokers, and what to do about it."""

    client: str
    quota_type: str
    brokers: str
    requests: str
    delay: str
    why: str
    to_do: str


@dataclass(frozen=True, slots=True)
class FirstPage:
    """What the first page says besides the headline; ``*_left`` is how many are not on it.

    It must fit on one printed page whatever the names and however many the findings: everything
    here is counted, cut to a length, and says how much it leaves out.
    """

    agreement: str
    severities: tuple[tuple[str, int], ...]  # the worst first
    findings: tuple[tuple[str, str], ...]  # severity and sentence
    findings_left: int
    throttled: tuple[HeldBack, ...]
    throttled_left: int
    proposals: tuple[str, ...]
    proposals_left: int
    quality: tuple[str, ...]
    unchecked: tuple[str, ...]


def first_page(facts: AuditFacts) -> FirstPage:
    """Return ``facts`` as the first page says them."""
    groups = _by_quota(facts.throttled)
    most = list(groups.items())[:THROTTLED_MAX]
    changes = facts.changes
    return FirstPage(
        agreement=_agreement(facts),
        severities=tuple(by_severity(facts.findings).items()),
        findings=tuple(
            (finding.severity, shortened(finding.explanation, _SENTENCE_LENGTH_MAX))
            for finding in facts.findings[:FINDINGS_MAX]
        ),
        findings_left=max(0, len(facts.findings) - FINDINGS_MAX),
        throttled=tuple(_held_back(quota, sensors, facts) for quota, sensors in most),
        throttled_left=len(groups) - len(most),
        proposals=tuple(
            proposal_in_words(proposal, _NAME_LENGTH_MAX) for proposal in changes[:PROPOSALS_MAX]
        ),
        proposals_left=max(0, len(changes) - PROPOSALS_MAX),
        quality=tuple(_quality(facts)),
        unchecked=tuple(_unchecked(facts)),
    )


def _by_quota(throttled: Iterable[ThrottledSensor]) -> dict[QuotaOf, list[ThrottledSensor]]:
    """Return the sensors of each client and quota type, the longest total delay first."""
    groups: dict[QuotaOf, list[ThrottledSensor]] = {}
    for each in throttled:
        sensor = each.sensor
        key = (sensor.quota_type, sensor.quota_user, sensor.quota_client_id)
        groups.setdefault(key, []).append(each)
    order = sorted(groups, key=lambda key: (-sum(t.throttle_time_ms for t in groups[key]), key))
    return {key: groups[key] for key in order}


def _held_back(quota: QuotaOf, sensors: list[ThrottledSensor], facts: AuditFacts) -> HeldBack:
    quota_type, user, client_id = quota
    brokers = sorted({each.sensor.broker_id for each in sensors})
    return HeldBack(
        client=shortened(entity_name(user, client_id), _NAME_LENGTH_MAX),
        quota_type=quota_type,
        brokers=(f"broker {brokers[0]}" if len(brokers) == 1 else f"{count(len(brokers))} brokers"),
        requests=count(sum(each.requests for each in sensors)),
        delay=duration(sum(each.throttle_time_ms for each in sensors)),
        why=_why(sensors),
        to_do=_to_do(quota, facts.findings, facts.proposals),
    )


def _why(sensors: list[ThrottledSensor]) -> str:
    uses = [each.use for each in sensors]
    if all(use.bound_min is None for use in uses):
        return "No quota is known."
    worst = max(uses, key=lambda use: use.use_of_bound)
    bound = bound_in_words(worst)
    if worst.tokens_min is not None:
        return f"Used up its tokens ({bound})."
    if worst.use_max is None:
        return f"Its quota is {bound}."
    return f"Peak {count(100 * worst.use_max)} % of its quota ({bound})."


def _to_do(quota: QuotaOf, findings: Iterable[Finding], proposals: Iterable[ProposedQuota]) -> str:
    for finding in findings:
        own = (finding.quota_type, finding.quota_user, finding.quota_client_id)
        if own == quota and finding.severity != "info":
            return f"First see the finding: {in_words(finding.kind, FINDING_KINDS)}."
    for proposal in proposals:
        configured = (
            proposal.quota_type,
            proposal.quota_user or "",
            proposal.quota_client_id or "",
        )
        if configured == quota:
            return _proposed(proposal)
    return "Nothing is proposed for it alone."


def _proposed(proposal: ProposedQuota) -> str:
    if proposal.status == "proposed":
        if proposal.proposed is None:
            return "Proposed: remove the value."
        return f"Proposed: {rate(proposal.proposed, proposal.quota_type)}."
    if proposal.kind == "not_the_quota":
        return "Another value would not mend it."
    return {
        "withheld": "A proposal is withheld: it failed on earlier days.",
        "keep": "The value fits as it is.",
    }.get(proposal.status, "Not enough data for a proposal.")


def _agreement(facts: AuditFacts) -> str:
    found = facts.agreement
    if not found.throttles:
        return "No produce was throttled, so there is nothing to compare to the millisecond."
    return (
        f"{count(found.within_1ms)} of {count(found.throttles)} produce throttles "
        f"({share(found.within_1ms, found.throttles)}) are replayed to the millisecond."
    )


def _quality(facts: AuditFacts) -> Iterable[str]:
    lines = total_lines(facts.files)
    lost = f" {count(lines.lost)} are unaccounted for." if lines.lost else ""
    yield (
        f"{count(lines.lines_read)} lines read: {count(lines.requests)} requests, "
        f"{count(lines.quarantined)} not readable, {count(lines.other)} other log lines.{lost}"
    )
    checked = [stage for stage in facts.stages if stage.tables]
    if checked:
        parts = (
            f"{stage.stage} {count(sum(t.holding for t in stage.tables))} of "
            f"{count(sum(len(t.rules) for t in stage.tables))} ({shortened(stage.outcome, 30)})"
            for stage in checked
        )
        yield f"Rules of the tables that hold: {', '.join(parts)}."


def _unchecked(facts: AuditFacts) -> Iterable[str]:
    verdicts = facts.verdicts
    if verdicts.indeterminate:
        yield (
            f"{count(verdicts.indeterminate)} of {count(verdicts.decided)} decisions "
            f"({share(verdicts.indeterminate, verdicts.decided)}): "
            f"{_reasons(verdicts.indeterminate_by_reason)}."
        )
    elif verdicts.decided:
        yield "Every decision under a quota could be decided."
    else:
        yield "No decision was made under a quota."
    if verdicts.no_quota:
        amounts = counted(verdicts.no_quota, "amount was", "amounts were")
        yield f"{amounts} recorded while no quota was in force."
    if unseen := [stage.stage for stage in facts.stages if not stage.tables]:
        yield f"Tables that were not validated: after {', '.join(unseen)}."


def _reasons(by_reason: Mapping[str, int]) -> str:
    told = list(by_reason.items())[:_REASONS_MAX]
    parts = [f"{count(number)} because {_because(reason)}" for reason, number in told]
    if rest := sum(by_reason.values()) - sum(number for _, number in told):
        parts.append(f"{count(rest)} for other reasons")
    return "; ".join(parts)


def _because(reason: str) -> str:
    return shortened(in_words(reason, REASONS), _SENTENCE_LENGTH_MAX // 2)
