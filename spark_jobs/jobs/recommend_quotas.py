"""Step recommend_quotas: one audited day → proposed quota values."""

from __future__ import annotations

from spark_jobs.jobs.local_table import write_local
from spark_jobs.recommend.recommend import recommend
from spark_jobs.settings import RecommendSettings
from spark_jobs.warehouse import RunScope, open_table, read_table


def recommend_quotas(scope: RunScope, settings: RecommendSettings | None = None) -> str:
    """Write the ``recommendations`` of a day and return in a sentence how many there are."""
    rows = recommend(
        open_table(scope, "decisions"),
        read_table(scope, "rates"),
        read_table(scope, "quota_changes"),
        read_table(scope, "brokers"),
        read_table(scope, "findings"),
        settings or RecommendSettings(),
    )
    write_local(rows, "recommendations", scope)
    status = rows["status"].to_pylist()
    return (
        f"recommendations: {status.count('proposed')} proposed, {status.count('keep')} keep, "
        f"{status.count('not_enough_data')} without enough data"
    )
