"""The page of a day's recommendations: what to change, what not, and why; a hundred at a time."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from quota_pages.addresses import Addresses
from quota_pages.entities_page import team_of
from quota_pages.page import Place, render
from spark_jobs.publish.facts.proposals import ProposedQuota
from spark_jobs.publish.read_facts import change_results_of, proposals_of, written_files
from spark_jobs.quota.codes import DEFAULT
from spark_jobs.quota.sensor_key import ENTITY_COLUMNS
from spark_jobs.warehouse.read import read_table
from spark_jobs.warehouse.scope import RunScope
from spark_jobs.wording.visible_text import shortened

ROWS_PER_PAGE = 100
_NOT_THE_QUOTA = "not_the_quota"

SensorName = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class StatusGroup:
    """Recommendations of one kind; ``is_open``: its rows are shown at once."""

    key: str
    title: str
    about: str
    is_open: bool


GROUPS = (
    StatusGroup("proposed", "Proposed", "by the throttle time that they are about", True),
    StatusGroup(
        _NOT_THE_QUOTA,
        "Not the quota",
        "throttled, and another value is not what would mend it",
        True,
    ),
    StatusGroup(
        "withheld",
        "Withheld",
        "on earlier days they would not have done what they promise",
        False,
    ),
    StatusGroup("keep", "Keep", "the quota fits as it is", False),
    StatusGroup("not_enough_data", "Not enough data", "the log says too little about them", False),
)


@dataclass(frozen=True, slots=True)
class ProposalRow:
    """A recommendation; ``address`` of whoever is bound by it, None where nobody is known."""

    proposal: ProposedQuota
    address: str | None


@dataclass(frozen=True, slots=True)
class GroupPart:
    """A group's rows on this page, number ``first`` to ``last`` of ``total``.

    ``begins_on`` is the page with the first of all.
    """

    group: StatusGroup
    rows: tuple[ProposalRow, ...]
    first: int
    last: int
    total: int
    begins_on: int


def recommendations_page(place: Place, scope: RunScope, q: str = "", page: int = 1) -> str | None:
    """Return the page of the day's recommendations; None where the day was not audited.

    ``q`` leaves only those whose entity's name contains it, in whatever case. ``page`` counts from
    1; a number that is too high or too low is the nearest there is.
    """
    if not scope.partition_dir("files").is_dir():
        return None
    everything = proposals_of(scope)
    chosen = _in_order(p for p in everything if is_named(p, q))
    pages = max(1, -(-len(chosen) // ROWS_PER_PAGE))
    page = min(max(page, 1), pages)
    return render(
        "recommendations_page.html.j2",
        place,
        team_of=team_of(scope),
        # Only on the first page of the whole list.
        results=change_results_of(scope) if page == 1 and not q else (),
        total=len(everything),
        found=len(chosen),
        groups=_parts(place, scope, chosen, page),
        # Whoever looks for a name, or turns the page, came to see the rows.
        all_open=bool(q) or page > 1,
        q=q,
        page=page,
        pages=pages,
        proposed=sum(p.status == "proposed" for p in everything),
        deletes=any(p.status == "proposed" and p.proposed is None for p in everything),
        files=written_files(scope.output_dir("reports")),
        options=_options(scope),
        shortened=shortened,
    )


def is_named(proposal: ProposedQuota, text: str) -> bool:
    """Return True if ``text`` is part of the entity's names, or of its name as people say it."""
    names = (proposal.quota_user or "", proposal.quota_client_id or "", proposal.entity)
    return any(text.casefold() in name.casefold() for name in names)


def group_of(proposal: ProposedQuota) -> StatusGroup:
    """Return the group of a recommendation; the last one for an unknown status."""
    key = _NOT_THE_QUOTA if proposal.kind == _NOT_THE_QUOTA else proposal.status
    return next((group for group in GROUPS if group.key == key), GROUPS[-1])


def _in_order(proposals: Iterable[ProposedQuota]) -> list[ProposedQuota]:
    return sorted(proposals, key=lambda p: GROUPS.index(group_of(p)))


def _parts(
    place: Place, scope: RunScope, chosen: Sequence[ProposedQuota], page: int
) -> tuple[GroupPart, ...]:
    begin = (page - 1) * ROWS_PER_PAGE
    # Who had traffic on the day has a page.
    columns = read_table(scope, "demand", [*ENTITY_COLUMNS]).to_pydict()
    seen = frozenset(zip(*(columns[name] for name in ENTITY_COLUMNS), strict=True))
    parts, before = [], 0
    for group, grouped in groupby(chosen, key=group_of):
        members = list(grouped)
        first = max(begin - before, 0)
        shown = members[first : max(begin + ROWS_PER_PAGE - before, 0)]
        rows = tuple(ProposalRow(p, _address(place.to, scope, p, seen)) for p in shown)
        last, begins_on = first + len(rows), before // ROWS_PER_PAGE + 1
        parts.append(GroupPart(group, rows, first + 1, last, len(members), begins_on))
        before += len(members)
    return tuple(parts)


def _address(
    to: Addresses, scope: RunScope, proposal: ProposedQuota, seen: frozenset[SensorName]
) -> str | None:
    """Return the address of the entity's sensor, or of its user's; None if neither has a page."""
    user, client_id = proposal.quota_user or "", proposal.quota_client_id or ""
    if DEFAULT in (user, client_id):
        return None
    for names in dict.fromkeys([(user, client_id), (user, "")]):
        if (proposal.quota_type, *names) in seen:
            return to.entity(scope.cluster, scope.day, *names, quota_type=proposal.quota_type)
    return None


def _options(scope: RunScope) -> str:
    """Return the options that name this day's proposals, as a shell takes them."""
    given = ["--warehouse", str(scope.warehouse.absolute()), "--cluster", scope.cluster]
    return shlex.join([*given, "--day", str(scope.day)])
