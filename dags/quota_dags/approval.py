"""Asking for approval of a day's proposals, and applying what was approved: the DAG's two tasks."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from quota_dags.approval_question import ALL, NONE, is_removal, question_text
from quota_dags.forms import (
    FormError,
    bounded_flags,
    check_event,
    check_places,
    chosen_target,
    refused_for_good,
    shown,
    text_of,
)
from quota_dags.process import TaskTerms
from spark_jobs.settings import ApprovalSettings, DailyAuditSettings, KafkaTarget
from spark_jobs.wording.visible_text import visible

READ, APPROVE, APPLY = "read_proposals", "approve", "apply_changes"
"""The tasks' ids."""

NO_TARGET = (
    "No target is chosen, so nothing can be applied and nobody is asked: set "
    "QUOTA_AUDIT_KAFKA_BOOTSTRAP_SERVERS, or start a run by hand and choose one in the form."
)

PLAN = "plan"
"""The question's field, and the answer's, that has the digest of what was shown."""

NO_PLAN = (
    "The answer brings no plan back, so nothing is applied: send params_input.plan as the question "
    "has it. Clear the task 'approve' to be asked again; where the question has no plan, an "
    "earlier version has asked it: start a new run."
)
_TWO_PERSONS = "Nothing is applied: QUOTA_AUDIT_KAFKA_TWO_PERSONS demands two persons, and "

_LAST_DAY = "the last day"
# By what a proposal is chosen, and by what the very one that was shown is applied.
_ASKED = ("change", "exactly")
_DIGEST_LENGTH = 32


class UnclearAnswerError(ValueError):
    """An answer that says two things at once, or nobody's, or to something else.

    Nothing may be applied.
    """


@dataclass(frozen=True, slots=True)
class RecommendRun:
    """Whose proposals to ask about, and where to apply them; ``day`` None = the last there is.

    ``target`` is what settings call the brokers; "" = none is chosen. ``asked_by`` has started the
    DAG run ``run_id``; None: nobody is known to, as where an audit has.
    """

    run_id: str
    asked_by: str | None
    warehouse: str
    cluster: str
    day: str | None
    target: str
    bootstrap_servers: str
    command_config: str | None
    dry_run: bool
    allow_delete: bool

    def proposals_arguments(self) -> list[str]:
        """Return the arguments of ``quota-audit`` that list the proposals."""
        day = ["--day", self.day] if self.day else []
        return ["proposals", *self._scope(), *day, "--json"]

    def apply_arguments(self, decision: Decision, plan: str) -> list[str]:
        """Return the arguments of ``quota-audit`` that apply what was approved, or refuse to.

        ``plan`` is the digest of what was shown.
        """
        assert self.day, "what was asked about was of a day"
        assert decision.changes, "without --only all changes would be applied"
        return [
            *("apply", *self._scope(), "--day", self.day, *self._brokers()),
            *(word for change in decision.changes for word in ("--only", change)),
            # A name or note may begin with a dash.
            f"--by={decision.approved_by}",
            *([f"--asked-by={self.asked_by}"] if self.asked_by else []),
            *("--plan", plan),
            *([f"--note={decision.note}"] if decision.note else []),
            *([] if self.dry_run else ["--execute"]),
            *(["--allow-delete"] if self.allow_delete else []),
        ]

    def rollback_arguments(self) -> list[str]:
        """Return the arguments of ``quota-audit`` that take back what was applied last."""
        return ["rollback", *self._scope(), *self._brokers(), "--execute"]

    def _scope(self) -> list[str]:
        return ["--warehouse", self.warehouse, "--cluster", self.cluster]

    def _brokers(self) -> list[str]:
        config = ["--command-config", self.command_config] if self.command_config else []
        return ["--bootstrap-server", self.bootstrap_servers, *config]


@dataclass(frozen=True, slots=True)
class Decision:
    """The changes that ``approved_by`` chose, in the order in which they were offered.

    Each is named with its values, as it was shown. ``names`` are what Airflow calls that person:
    none where it may be anybody.
    """

    changes: tuple[str, ...]
    approved_by: str
    note: str | None
    names: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The settings that bound what a run may do."""

    audit: DailyAuditSettings
    approval: ApprovalSettings


def recommend_run(
    params: Mapping[str, Any],
    extras: Sequence[Mapping[str, Any]],
    dag_run: Any,
    bounds: Bounds,
    terms: TaskTerms,
) -> RecommendRun:
    """Return the proposals that a DAG run asks about, from its params and its asset events' extras.

    ``dag_run`` is Airflow's, which knows its id and who started it.

    Of the events only those of the params' cluster count, as the target is that cluster's, and of
    these the latest day. Raises ``terms.skipped`` where all are of others, and
    ``terms.final_error`` where the settings do not allow what a form or an event asks for.
    """
    with refused_for_good(terms.final_error):
        check_places(params, bounds.audit)
        for extra in extras:
            check_event(extra, bounds.audit)
        flags = bounded_flags(params, bounds.approval)
        target = chosen_target(params, bounds.approval)
    servers, config = connection_of(target) if target else ("", None)
    cluster = text_of(params, "cluster")
    event = _latest(cluster, extras) if extras else {}
    if event is None:
        others = ", ".join(sorted({str(extra["cluster"]) for extra in extras}))
        raise terms.skipped(
            f"nobody is asked: what was audited is the cluster {others}, and the target is that "
            f"of {cluster}. Start a run by hand for another cluster."
        )
    return RecommendRun(
        run_id=dag_run.run_id,
        asked_by=dag_run.triggering_user_name or None,
        warehouse=event.get("warehouse") or text_of(params, "warehouse"),
        cluster=cluster,
        day=event.get("day") or params.get("day") or None,
        target=params["target"] if target else "",
        bootstrap_servers=servers,
        command_config=config,
        **flags,
    )


def connection_of(target: KafkaTarget) -> tuple[str, str | None]:
    """Return the brokers of a target, and the path of its client properties file, if any."""
    config = target.command_config
    return target.bootstrap_servers, str(config) if config else None


def _latest(cluster: str, extras: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the extra of the latest day; an event that names no cluster is of this one."""
    own = [extra for extra in extras if extra.get("cluster", cluster) == cluster]
    return max(own, key=lambda extra: str(extra.get("day") or ""), default=None)


def ask(
    run: RecommendRun, approval: ApprovalSettings, terms: TaskTerms, *, by_hand: bool
) -> dict[str, Any]:
    """Return the question: ``subject``, ``body``, ``options``, ``plan``, and what is ``asked``.

    Raises ``terms.skipped`` where there is nothing to approve, nowhere to apply it, or nobody may;
    that is ``terms.final_error`` in a run that was started ``by_hand``.
    """
    not_asked = terms.final_error if by_hand else terms.skipped
    if not run.target:
        raise not_asked(NO_TARGET)
    if approval.two_persons and not run.asked_by:
        raise not_asked(
            f"{_TWO_PERSONS}nobody is known to have started this run: start one by hand."
        )
    found = json.loads(terms.run(READ, run.day or _LAST_DAY, run.proposals_arguments()))
    run = replace(run, day=found["day"])
    audited = f"{run.cluster}, {run.day} UTC"
    offered = [p for p in found["proposals"] if run.allow_delete or not is_removal(p)]
    withdrawn = [p for p in found["proposals"] if p not in offered]
    if not offered:
        removals = f" but {len(withdrawn)} removals, which are not allowed" if withdrawn else ""
        raise terms.skipped(f"nothing to approve: nothing is proposed for {audited}{removals}.")
    terms.log(f"asking about {len(offered)} proposals for {audited}")
    body = question_text(
        offered,
        withdrawn,
        audited,
        run.target,
        run.bootstrap_servers,
        shlex.join(["quota-audit", *run.rollback_arguments()]),
        is_dry_run=run.dry_run,
    )
    many = "1 quota change" if len(offered) == 1 else f"{len(offered)} quota changes"
    # Twice the same option would be two that cannot be told apart.
    changes = list(dict.fromkeys(proposal["change"] for proposal in offered))
    asked = {"run": asdict(run), "proposals": [{n: p[n] for n in _ASKED} for p in offered]}
    return {
        "subject": f"{'Dry run: c' if run.dry_run else 'C'}hoose from {many} for {audited}",
        "body": body,
        "options": [ALL, NONE, *changes],
        PLAN: plan_digest(asked),
        "asked": asked,
    }


def plan_digest(asked: Mapping[str, Any]) -> str:
    """Return the digest (hex) of a question's run, warehouse, target and proposals."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:_DIGEST_LENGTH]


def apply_answer(
    asked: Mapping[str, Any],
    answer: Mapping[str, Any] | None,
    now: dt.datetime,
    bounds: Bounds,
    terms: TaskTerms,
) -> str:
    """Apply what was approved of what was ``asked``, and return the command's last line.

    ``answer`` is the return value of Airflow's ``HITLOperator``; None where a person has set that
    task to success.

    Raises ``terms.skipped`` where nothing was approved, ``terms.final_error`` where the answer is
    unclear, old, to another plan, or by somebody who may not give it, where the settings have
    become stricter, or where something else is proposed by now (the command says so).
    """
    run, answer = RecommendRun(**asked["run"]), answer or {}
    try:
        decision = decision_of(answer, asked["proposals"])
    except UnclearAnswerError as error:
        raise terms.final_error(str(error)) from error
    # A line's end in a note must not begin a line of the log.
    note = f", with the note: {visible(decision.note)}" if decision.note else ""
    if not decision.changes:
        raise terms.skipped(f"{decision.approved_by} approved nothing{note}")
    count = f"{len(decision.changes)} of {len(asked['proposals'])}"
    try:
        _check_shown(asked, answer)
        _check_recent(answer["responded_at"], now, bounds.approval)
        if bounds.approval.two_persons:
            _check_two_persons(run.asked_by, decision)
    except UnclearAnswerError as error:
        raise terms.final_error(str(error)) from error
    with refused_for_good(terms.final_error):
        _check_still_allowed(run, bounds)
    terms.log(f"{decision.approved_by} approved {count}{note}")
    return terms.run(APPLY, str(run.day), run.apply_arguments(decision, plan_digest(asked)))


def _check_shown(asked: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    """Raise UnclearAnswerError where the answer is not to what would be applied."""
    brought = (answer.get("params_input") or {}).get(PLAN)
    if not brought:
        raise UnclearAnswerError(NO_PLAN)
    if brought != plan_digest(asked):
        raise UnclearAnswerError(
            f"Nothing is applied: the answer is to the plan {shown(brought)}, and what would be "
            f"applied is the plan {plan_digest(asked)}. The task {READ!r} has run again since the "
            "question was shown, and Airflow goes on showing what a run asked first; or the answer "
            "is to another question. Start a new run to be asked about what is proposed now."
        )


def _check_recent(answered: dt.datetime, now: dt.datetime, approval: ApprovalSettings) -> None:
    """Raise UnclearAnswerError where the answer is older than a question may become."""
    if now - answered > dt.timedelta(days=approval.answer_within_days):
        raise UnclearAnswerError(
            f"Nothing is applied: the answer is of {answered:%Y-%m-%d %H:%M} UTC, and holds for "
            f"{approval.answer_within_days:g} days (QUOTA_AUDIT_KAFKA_ANSWER_WITHIN_DAYS). Start a "
            "new run to be asked about what is proposed now."
        )


def _check_two_persons(asked_by: str | None, decision: Decision) -> None:
    """Raise UnclearAnswerError where one person may have both asked and answered."""
    again = "Clear the task 'approve', and let somebody else answer."
    if not asked_by:
        raise UnclearAnswerError(
            f"{_TWO_PERSONS}nobody is known to have started this run: start one by hand."
        )
    if not decision.names:
        raise UnclearAnswerError(
            f"{_TWO_PERSONS}Airflow knows no name of {decision.approved_by}, who answered. {again}"
        )
    if _alike(asked_by) in decision.names:
        raise UnclearAnswerError(
            f"{_TWO_PERSONS}{asked_by} has both started the run and answered. {again}"
        )


def _alike(name: str) -> str:
    return unicodedata.normalize("NFKC", name).strip().casefold()


def _check_still_allowed(run: RecommendRun, bounds: Bounds) -> None:
    """Raise FormError where the settings, which may have changed since, do not allow the run."""
    form = {name: getattr(run, name) for name in ("warehouse", "target", "dry_run", "allow_delete")}
    check_places(form, bounds.audit)
    bounded_flags(form, bounds.approval)
    target = chosen_target(form, bounds.approval)
    assert target is not None, "nobody is asked where no target is chosen"
    if (run.bootstrap_servers, run.command_config) != connection_of(target):
        raise FormError(
            f"Nothing is applied: the target {run.target} was {run.bootstrap_servers} when this "
            f"was asked, and is {target.bootstrap_servers} by now, or has other credentials. Start "
            "a new run."
        )


def decision_of(answer: Mapping[str, Any], offered: Sequence[Mapping[str, str]]) -> Decision:
    """Return the decision about the ``offered`` proposals.

    ``answer`` is the return value of Airflow's ``HITLOperator``. Raises UnclearAnswerError.
    """
    user = answer.get("responded_by_user") or {}
    name = user.get("name") or user.get("id")
    if not name:
        raise UnclearAnswerError(
            "The answer names nobody who gave it, so nothing is applied. Clear the task 'approve' "
            "to be asked again."
        )
    note = _argument(str((answer.get("params_input") or {}).get("note") or "")).strip()
    changes = _changes(set(answer["chosen_options"]), offered)
    # Who asked is known by the name alone.
    names = frozenset(_alike(str(user.get(k) or "")) for k in ("name", "id") if user.get("name"))
    return Decision(changes, _argument(str(name)), note or None, names)


def _argument(text: str) -> str:
    """Return ``text`` without what no process can be given: a NUL, half a character."""
    return text.replace("\0", "").encode(errors="replace").decode()


def _changes(chosen: set[str], offered: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    if chosen == {NONE}:
        return ()
    if NONE in chosen or not chosen:
        others = ", ".join(sorted(chosen - {NONE})) or "nothing"
        raise UnclearAnswerError(
            f"The answer is unclear, so nothing is applied: found {NONE!r} together with {others}. "
            "Clear the task 'approve' to be asked again."
        )
    unknown = chosen - {ALL, *(proposal["change"] for proposal in offered)}
    if unknown:
        raise UnclearAnswerError(
            f"The answer is unclear, so nothing is applied: {', '.join(sorted(unknown))} was not "
            "offered. Clear the task 'approve' to be asked again."
        )
    return tuple(p["exactly"] for p in offered if ALL in chosen or p["change"] in chosen)
