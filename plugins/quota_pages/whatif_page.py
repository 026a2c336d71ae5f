"""The page that compares policies on a day: today's rule first, the others beside it."""

from __future__ import annotations

import dataclasses
import shlex

from quota_pages.page import Place, render
from quota_pages.whatif_comparison import FIGURES, comparisons
from spark_jobs.publish.page import whatif_wording as words
from spark_jobs.publish.page.whatif_page import WHATIF_PAGE_NAME
from spark_jobs.warehouse.warehouse import RunScope
from spark_jobs.wording.visible_text import shortened


def whatif_page(place: Place, scope: RunScope) -> str | None:
    """Return the comparison of the policies replayed on the day; None where it was not ingested.

    Where none was replayed the page says how to.
    """
    if not scope.partition_dir("files").is_dir():
        return None
    compared = comparisons(scope)
    return render(
        "whatif_page.html.j2",
        dataclasses.replace(place, tab="whatif"),
        compared=compared,
        modes=tuple(dict.fromkeys(comparison.mode for comparison in compared)),
        figures=FIGURES,
        words=words,
        page_name=WHATIF_PAGE_NAME,
        has_page=(scope.output_dir("reports") / WHATIF_PAGE_NAME).is_file(),
        options=shlex.join(
            ["--warehouse", str(scope.warehouse.absolute()), "--cluster", scope.cluster]
        ),
        shortened=shortened,
    )
