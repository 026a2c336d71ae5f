"""What a run found about one owner's clients: the run's facts, without those of all others."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from spark_jobs.judge.decision_counts import verdict_counts
from spark_jobs.publish.facts.audit_facts import Agreement, AuditFacts
from spark_jobs.publish.follow.kept_files import Owners
from spark_jobs.quota.codes import DEFAULT

TeamOf = Callable[[str | None, str | None], str | None]
"""The team that owns a user's client-id; None: nobody does, or nobody said so."""


class _OfClient(Protocol):
    @property
    def quota_user(self) -> str | None: ...
    @property
    def quota_client_id(self) -> str | None: ...


Of = TypeVar("Of", bound=_OfClient)


@dataclass(frozen=True, slots=True)
class TeamSummary:
    """How much there is to say of one owner's clients; ``team`` None: of those nobody owns."""

    team: str | None
    contacts: tuple[str, ...]
    clients: tuple[tuple[str, str], ...]  # quota user, quota client-id
    facts: AuditFacts


def team_of(facts: AuditFacts) -> TeamOf:
    """Return the lookup of the team that owns a client on the day of ``facts``."""
    return teams_on(facts.news.owners, facts.scope.day)


def teams_on(owners: Owners | None, day: dt.date) -> TeamOf:
    """Return the lookup of the team that owns a client on a day; ``owners`` None: no team does."""
    if owners is None:
        return lambda _user, _client_id: None
    return lambda user, client_id: owners.team_of(user, client_id, day)


def team_summaries(facts: AuditFacts) -> tuple[TeamSummary, ...]:
    """Return the owners whose clients the run tells of, in the order of their file, then nobody.

    A client is told of where a quota decided about it or a finding names it. Empty where no file
    says who owns clients.
    """
    owners = facts.news.owners
    if owners is None:
        return ()
    of = team_of(facts)
    clients: dict[str | None, set[tuple[str, str]]] = {}
    for user, client_id in sorted(_clients(facts)):
        clients.setdefault(of(user, client_id), set()).add((user, client_id))
    contacts: dict[str | None, list[str]] = {}
    for owner in owners.teams():
        contacts.setdefault(owner.team, []).append(owner.contact)
    return tuple(
        TeamSummary(
            team=team,
            contacts=tuple(contacts.get(team, ())),
            clients=tuple(sorted(clients[team])),
            facts=facts_of_team(facts, team),
        )
        for team in (*contacts, None)
        if team in clients
    )


def facts_of_team(facts: AuditFacts, team: str | None) -> AuditFacts:
    """Return ``facts`` of a team's clients only; None: of those that nobody owns.

    Brokers, files and data quality stay those of the whole run.
    """
    of = team_of(facts)

    def own(rows: Iterable[Of]) -> tuple[Of, ...]:
        return tuple(row for row in rows if of(row.quota_user, row.quota_client_id) == team)

    counted = tuple(c for c in facts.counted if of(c["quota_user"], c["quota_client_id"]) == team)
    sensors = {s for s in facts.uses if of(s.quota_user, s.quota_client_id) == team}
    changes = [c for c in facts.news.changes if own([c.problem.sensor])]
    return replace(
        facts,
        team=team,
        counted=counted,
        verdicts=verdict_counts(counted),
        findings=own(facts.findings),
        uses={sensor: use for sensor, use in facts.uses.items() if sensor in sensors},
        throttled=tuple(one for one in facts.throttled if one.sensor in sensors),
        proposals=own(facts.proposals),
        agreement=Agreement(tuple(a for a in facts.agreement.sensors if a.sensor in sensors)),
        news=replace(facts.news, changes=changes),
        applied=own(facts.applied),
    )


def is_of_team(row: _OfClient, facts: AuditFacts) -> bool:
    """Return True if a configured quota may hold for clients of the team that ``facts`` tell of.

    A default holds for everybody.
    """
    named = [
        None if name == DEFAULT else name or None for name in (row.quota_user, row.quota_client_id)
    ]
    return named == [None, None] or team_of(facts)(named[0], named[1]) == facts.team


def _clients(facts: AuditFacts) -> set[tuple[str, str]]:
    decided = {(s.quota_user, s.quota_client_id) for s, use in facts.uses.items() if use.decisions}
    throttled = {(t.sensor.quota_user, t.sensor.quota_client_id) for t in facts.throttled}
    return decided | throttled | {(f.quota_user, f.quota_client_id) for f in facts.findings}
