"""Hypotheses for a stretch of unexplained throttles, tried one against the other.

Each says what every throttle should have been, or how far it may lie from the configured bound's.
Its score is the share of the stretch's decisions that it explains; a decision counts where the
broker throttled, or either the configured bound or the hypothesis says that it should have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spark_jobs.judge.causes.sensor_decisions import SensorDecisions, throttle_ms
from spark_jobs.judge.causes.stretches import Stretch, groups
from spark_jobs.quota.codes import (
    CLIENT_IGNORES_THROTTLE,
    CONFIGURED,
    LINES_MISSING,
    NOT_ENFORCED,
    OTHER_LEVEL,
    OTHER_RATE_PROFILE,
    PREVIOUS_QUOTA,
    REQUEST_QUOTA,
    STATE_LOST,
    UNKNOWN_QUOTA,
)
from spark_jobs.quota.constants import WINDOW_MS
from spark_jobs.quota.states import Bools, Floats, Int64s

EXPLAINED_WITHIN_MS = 2
"""Log and hypothesis may differ by this: rounding, and an event on a sample's very edge."""

HARMLESS = (CONFIGURED, LINES_MISSING, REQUEST_QUOTA)
"""What accuses nobody; it is believed where it explains nearly as much as the best accusation."""

ANOTHER_BOUND = (PREVIOUS_QUOTA, OTHER_LEVEL, UNKNOWN_QUOTA)
"""The quota was enforced, with another value than the configured one."""

EARLY_MS = 100
"""A request is early by more than any record time is off."""

# Who may be believed at equal shares: a known value before one fitted to the very throttles, and
# before none at all, since a client below a larger value is not throttled either; a value that
# throttles nobody is none, unless the change to it is known.
_HANDICAP = {
    NOT_ENFORCED: 0.01,
    OTHER_LEVEL: 0.015,
    UNKNOWN_QUOTA: 0.02,
    **dict.fromkeys(HARMLESS, -0.1),
}
SHARE_MIN = 0.6
GAIN_MIN = 0.3
# Of two hypotheses that say different things of the broker, one has to be clearly the better.
_MARGIN_MIN = 0.1
# Where no single decision is wrong, only what explains nearly all of them is told, or so many
# throttles to the millisecond that most of them speak against any other.
SHARE_MIN_UNACCUSED = 0.9
THROTTLES_MIN_UNACCUSED, MARGIN_MIN_UNACCUSED = 50, 0.4
# Throttles of 0 fit many hypotheses: so many others must be told to the millisecond.
THROTTLES_MIN = 5
_THROTTLED_SHARE_MAX = 0.1
# A sample that begins at another record than replayed looks like a lost state, until it has left;
# where nothing is throttled for longer than so many samples, a broker throttles nothing.
_FREE_SAMPLES = 2
# What a client was given fits any bound while it is always as much.
SIZES_MIN = 3
_SAME_BOUND = 0.01
_SPREAD_MAX = 0.02
_DIGITS_MAX = 6
# People set round values; a decision in two hundred may be just beyond what counts as explained.
_ROUNDING_SHARE = 0.005


@dataclass(frozen=True, slots=True)
class OtherQuota:
    """A value that may have been in force instead; ``level`` and times are those of the value."""

    hypothesis: str  # PREVIOUS_QUOTA or OTHER_LEVEL
    bound: float
    level: str
    valid_from_ms: int
    valid_until_ms: int | None


@dataclass(frozen=True, slots=True)
class OtherReplay:
    """The sensor replayed otherwise: arrays of the history's length, NaN rate where it was not."""

    hypothesis: str  # OTHER_RATE_PROFILE, STATE_LOST or COUNTED_APART
    detail: str
    rate: Floats
    window_size_ms: Int64s
    rows: slice  # that were tried
    apart: int | None = None  # the code of the connection that is counted apart


@dataclass(frozen=True, slots=True)
class Score:
    """How much of a stretch one hypothesis explains."""

    hypothesis: str
    share: float
    explained: int
    throttles: int  # of the explained, those that the configured bound does not throw
    bound: float | None = None
    detail: str | None = None

    @property
    def weight(self) -> float:
        """Return the share, less what a hypothesis must explain more to be believed."""
        return self.share - _HANDICAP.get(self.hypothesis, 0.0)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The best hypothesis for a stretch, the next best, and the stretch as far as it holds."""

    stretch: Stretch
    winner: Score
    runner_up: Score
    configured: Score
    evidence: int  # decisions of the stretch that say anything
    estimate: BoundEstimate | None

    @property
    def is_fault(self) -> bool:
        """Return True if somebody should act: something else is in force than is configured."""
        return self.winner.hypothesis not in HARMLESS

    @property
    def margin(self) -> float:
        """Return the winner's share of the stretch minus the runner-up's."""
        return self.winner.share - self.runner_up.share


def explain_stretch(
    history: SensorDecisions,
    stretch: Stretch,
    quotas: Sequence[OtherQuota] = (),
    replays: Sequence[OtherReplay] = (),
    *,
    is_loss_known: bool = False,
    sample_ms: int = WINDOW_MS,
) -> Explanation | None:
    """Return the hypothesis that explains a stretch, None where none does clearly.

    Another sensor tells that the broker lost its state then where ``is_loss_known``. A sample of
    the sensor is ``sample_ms`` long.
    """
    trial = _Trial(history, stretch, is_loss_known)
    configured = trial.score(CONFIGURED, trial.configured_ms)
    estimate = estimate_bound(history, stretch.rows)
    scores = [configured, trial.score(NOT_ENFORCED, np.zeros(len(trial), np.int64))]
    scores += [trial.of_bound(q.hypothesis, q.bound, q.level) for q in quotas]
    scores += [trial.of_replay(replay) for replay in replays]
    if estimate is not None and estimate.spread <= _SPREAD_MAX:
        scores += unknown_quota(trial.of_bound, estimate.bound, history.bound[stretch.first])
    scores += trial.of_intervals()
    ranked = sorted(distinct(scores), key=lambda s: -s.weight)
    winner = next(s for s in ranked if trial.has_evidence(s))
    others = [s for s in ranked if s.hypothesis != winner.hypothesis]
    runner_up = others[0]
    is_free = trial.is_free_for(_FREE_SAMPLES * sample_ms)
    rivals = (s for s in others if trial.has_evidence(s) or not (is_free and _is_loss(s)))
    rival = next((s for s in rivals if _says_other(winner, s)), configured)
    is_clear = winner.share >= SHARE_MIN and winner.share - configured.share >= GAIN_MIN
    if winner.hypothesis not in HARMLESS:
        is_clear &= winner.share - rival.share >= _MARGIN_MIN
        is_clear &= trial.is_accused(winner) or _is_told_unaccused(winner, rival)
    if winner.hypothesis == CONFIGURED or not is_clear:
        return None
    return Explanation(
        stretch=trial.extended(winner) if winner.bound is not None else stretch,
        winner=winner,
        runner_up=runner_up,
        configured=configured,
        evidence=trial.evidence,
        estimate=estimate,
    )


def explained_since_loss(
    history: SensorDecisions, lost: OtherReplay, after: Explanation
) -> list[Explanation]:
    """Return explanations of the rows between a loss and the stretch that tells of it.

    One for each configured bound, such as of the two seconds until a quota was changed, in which
    nothing was throttled any more. Only where the lost state explains SHARE_MIN of the throttles.
    """
    first, end = lost.rows.start, after.stretch.first
    found = []
    for group_first, group_end in groups(history):
        own_first, own_end = max(group_first, first), min(group_end, end)
        if own_first >= own_end:
            continue
        trial = _Trial(history, Stretch(own_first, own_end, own_first, own_end), True)
        winner, configured = trial.of_replay(lost), trial.score(CONFIGURED, trial.configured_ms)
        is_clear = winner.share >= SHARE_MIN and winner.share - configured.share >= GAIN_MIN
        if is_clear:
            found.append(
                replace(
                    after,
                    stretch=trial.stretch,
                    winner=winner,
                    configured=configured,
                    runner_up=configured,
                    evidence=trial.evidence,
                    estimate=None,
                )
            )
    return found


def _is_told_unaccused(winner: Score, rival: Score) -> bool:
    """Return True if a hypothesis is clear enough to be told where no single decision is wrong."""
    is_sure = winner.throttles >= THROTTLES_MIN_UNACCUSED
    is_sure &= winner.share - rival.share >= MARGIN_MIN_UNACCUSED
    return is_sure or winner.share >= SHARE_MIN_UNACCUSED


def _is_loss(score: Score) -> bool:
    return score.hypothesis == STATE_LOST


def _says_other(one: Score, other: Score) -> bool:
    """Return True unless both say that the broker does not hold to the configured bound."""
    not_configured = (*ANOTHER_BOUND, NOT_ENFORCED)
    return not (one.hypothesis in not_configured and other.hypothesis in not_configured)


class _Trial:
    """The rows of a stretch and what was logged for them."""

    def __init__(self, history: SensorDecisions, stretch: Stretch, is_loss_known: bool) -> None:
        self.history = history
        self._is_loss_known = is_loss_known
        self.stretch = stretch
        rows = stretch.rows
        self.logged_ms = history.logged_ms[rows]
        self.configured_ms = history.throttle_ms(history.bound)[rows]
        self.is_known = self.configured_ms >= 0
        self.counts = self.is_known & ((self.logged_ms > 0) | (self.configured_ms > 0))
        self.evidence = int(np.count_nonzero(self.counts))
        self._has_wrong = bool(history.is_wrong[rows].any())
        self._agrees = is_explained(self.logged_ms, self.configured_ms)
        self._throttled = self.is_known & (self.logged_ms > 0)

    def __len__(self) -> int:
        return len(self.logged_ms)

    def is_free_for(self, least_ms: int) -> bool:
        """Return True if nothing was throttled for so long, in all of the stretch."""
        first, last = self.history.recorded_at_ms[self.stretch.rows][[0, -1]].tolist()
        return last - first >= least_ms and not self._throttled.any()

    def is_accused(self, score: Score) -> bool:
        """Return True if a decision is wrong, or the loss of a state is known from elsewhere."""
        return self._has_wrong or (score.hypothesis == STATE_LOST and self._is_loss_known)

    def has_evidence(self, score: Score) -> bool:
        """Return True if throttles tell of a hypothesis, not only that there were none."""
        by_throttles = score.throttles >= THROTTLES_MIN
        throttled = int(np.count_nonzero(self._throttled))
        is_free = throttled <= _THROTTLED_SHARE_MAX * self.evidence
        if score.hypothesis == STATE_LOST and not self.is_accused(score):
            # A sample that begins at another record than replayed looks the same.
            return False
        if score.hypothesis in (STATE_LOST, OTHER_RATE_PROFILE, UNKNOWN_QUOTA):
            return by_throttles and self._has_sizes(score)
        if score.hypothesis == NOT_ENFORCED:
            return is_free
        if score.hypothesis in (PREVIOUS_QUOTA, OTHER_LEVEL):
            return is_free or (by_throttles and self._has_sizes(score))
        return True

    def _has_sizes(self, score: Score) -> bool:
        rows = self.stretch.rows
        is_tried = self.history.is_unrecorded[rows] & self._throttled
        if score.bound is None or not is_tried.any():
            return True
        return len(np.unique(self.history.amount[rows][is_tried])) >= SIZES_MIN

    def score(
        self,
        hypothesis: str,
        expected_ms: Int64s,
        bound: float | None = None,
        detail: str | None = None,
    ) -> Score:
        """Return the score of a hypothesis that expects ``expected_ms`` (-1: not told)."""
        near = is_explained(self.logged_ms, expected_ms)
        counts = self.counts | (self.is_known & (expected_ms > 0))
        return self._score(hypothesis, near, counts, bound, detail)

    def of_bound(self, hypothesis: str, bound: float, detail: str | None = None) -> Score:
        """Return the score of ``bound``."""
        expected_ms = self.history.throttle_ms(bound)[self.stretch.rows]
        return self.score(hypothesis, expected_ms, bound, detail)

    def of_replay(self, replay: OtherReplay) -> Score:
        """Return the score of another replay under the configured bound."""
        rows = self.stretch.rows
        other = throttle_ms(replay.rate, replay.window_size_ms, self.history.bound)[rows]
        return self.score(replay.hypothesis, other, detail=replay.detail)

    def of_intervals(self) -> list[Score]:
        """Return the hypotheses that do not tell the throttle itself.

        A missing request was recorded and fills the window, so it lengthens throttles, by no more
        than its size. Of two quotas of one request the longer throttle is logged, and the request
        quota's is never more than one window. And a connection that is read before its throttle
        has ended is not throttled, whatever its log says.
        """
        bound, rows = self.history.bound[self.stretch.rows], self.stretch.rows
        difference_ms = self.logged_ms - self.configured_ms
        with np.errstate(invalid="ignore", divide="ignore"):
            lost_ms = self.history.lost_amount_max[rows] * 1000.0 / bound
        is_longer = self.is_known & (difference_ms >= -EXPLAINED_WITHIN_MS)
        by_lost = is_longer & (lost_ms > 0) & (difference_ms <= lost_ms + EXPLAINED_WITHIN_MS)
        by_request = is_longer & (self.logged_ms <= self.history.request_throttle_max_ms[rows])
        by_client = self.history.early_ms()[rows] > EARLY_MS
        scores = []
        for hypothesis, fits in (
            (LINES_MISSING, by_lost),
            (REQUEST_QUOTA, by_request),
            (CLIENT_IGNORES_THROTTLE, by_client),
        ):
            if fits.any():
                scores.append(self._score(hypothesis, fits | self._agrees, self.counts))
        return scores

    def extended(self, winner: Score) -> Stretch:
        """Return the stretch with the neighbours of the same bound that the winner explains too."""
        history, stretch = self.history, self.stretch
        assert winner.bound is not None
        expected_ms = history.throttle_ms(winner.bound)
        fits = is_explained(history.logged_ms, expected_ms) | (expected_ms < 0)
        before = np.flatnonzero(~fits[stretch.group_first : stretch.first])
        after = np.flatnonzero(~fits[stretch.end : stretch.group_end])
        return Stretch(
            first=stretch.group_first + int(before[-1]) + 1 if len(before) else stretch.group_first,
            end=stretch.end + int(after[0]) if len(after) else stretch.group_end,
            group_first=stretch.group_first,
            group_end=stretch.group_end,
        )

    def _score(
        self,
        hypothesis: str,
        fits: Bools,
        counts: Bools,
        bound: float | None = None,
        detail: str | None = None,
    ) -> Score:
        explained = int(np.count_nonzero(fits & counts))
        total = max(int(np.count_nonzero(counts)), 1)
        throttles = int(np.count_nonzero(fits & self._throttled & ~self._agrees))
        return Score(hypothesis, explained / total, explained, throttles, bound, detail)


def is_explained(logged_ms: Int64s, expected_ms: Int64s) -> Bools:
    """Return True where the broker did what was expected: the same decision, the same throttle."""
    same_decision = (logged_ms > 0) == (expected_ms > 0)
    # At the bound itself a millisecond is a decision.
    is_near = np.abs(logged_ms - expected_ms) <= EXPLAINED_WITHIN_MS
    return np.asarray(
        (expected_ms >= 0) & is_near & (same_decision | (logged_ms + expected_ms <= 1))
    )


def unknown_quota(
    score: Callable[[str, float], Score], bound: float, configured: float
) -> list[Score]:
    """Return the score of a bound that throttles tell, as round as they allow.

    None where it is about the configured one.
    """
    if abs(bound / configured - 1) < _SAME_BOUND:
        return []
    best = score(UNKNOWN_QUOTA, bound)
    for digits in range(1, _DIGITS_MAX):
        plain = score(UNKNOWN_QUOTA, rounded(bound, digits))
        if plain.share >= best.share - _ROUNDING_SHARE:
            return [plain]
    return [best]


def distinct(scores: Iterable[Score]) -> list[Score]:
    """Leave out bounds that are the same as a likelier hypothesis': they say the same."""
    kept: list[Score] = []
    for score in sorted(scores, key=lambda s: -s.weight):
        if not any(_is_same_bound(score.bound, other.bound) for other in kept):
            kept.append(score)
    return kept


def _is_same_bound(one: float | None, other: float | None) -> bool:
    return bool(one and other and abs(one / other - 1) < _SAME_BOUND)


@dataclass(frozen=True, slots=True)
class BoundEstimate:
    """A bound estimated from ``decisions`` throttles; half of them lie in [low, high]."""

    bound: float
    low: float
    high: float
    decisions: int

    @property
    def spread(self) -> float:
        """Return the middle half's width, relative to the bound."""
        return (self.high - self.low) / self.bound


def estimate_bound(history: SensorDecisions, rows: slice) -> BoundEstimate | None:
    """Return the bound that explains the throttles of ``rows`` best, None where there are none.

    Solving Kafka's ``throttle = (rate - bound) / bound * window`` for the bound gives
    ``rate * window / (throttle + window)`` per throttled decision, whatever bound is configured.
    Their median stands where up to half of them are off, because a line is missing or a sample
    began at another millisecond than thought.
    """
    logged_ms, window_ms = history.logged_ms[rows], history.window_size_ms[rows]
    with np.errstate(invalid="ignore", divide="ignore"):
        each = history.rate[rows] * window_ms / (logged_ms + window_ms)
    each = each[(logged_ms > 0) & np.isfinite(each) & (each > 0)]
    if not len(each):
        return None
    low, middle, high = np.quantile(each, (0.25, 0.5, 0.75)).tolist()
    return BoundEstimate(middle, low, high, len(each))


def rounded(value: float, digits: int) -> float:
    """Return ``value`` with ``digits`` significant digits.

    >>> rounded(250_003.9, 2), rounded(0.0123456, 3)
    (250000.0, 0.0123)
    """
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))
