"""A policy's configuration that its system would refuse."""

from __future__ import annotations

from spark_jobs.errors import BadInputError


class PolicyConfigError(BadInputError):
    """A key, what was found there, and the rule that it breaks."""

    def __init__(self, policy: str, key: str, found: object, rule: str) -> None:
        """Say that ``policy`` refuses ``found`` at ``key`` because of ``rule``, a sentence."""
        super().__init__(f"{policy}: {key} = {found!r}: {rule}")
        self.key = key
        self.rule = rule
