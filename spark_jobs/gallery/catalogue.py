"""All pages, pictures and examples of the gallery."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spark_jobs.gallery import (
    batch_of_15_mb,
    broker_side,
    bytes_in_examples,
    consumer_bootstrap,
    kip13_examples,
    kip599_examples,
    mutation_burst,
    retry_storm,
    topic_interference,
    topic_split,
    wildcard_consumer,
)
from spark_jobs.gallery.example import Example
from spark_jobs.gallery.page import Page, rendered

PAGES: tuple[Callable[[], Page], ...] = (
    mutation_burst.page,
    wildcard_consumer.page,
    topic_split.page,
    retry_storm.page,
    topic_interference.page,
    consumer_bootstrap.page,
    broker_side.page,
    batch_of_15_mb.page,
)


def every_example() -> list[Example]:
    """Return the documents' examples, document by document."""
    return [
        *bytes_in_examples.examples(),
        *kip13_examples.examples(),
        *kip599_examples.examples(),
    ]


def gallery_files() -> Mapping[str, str]:
    """Return the text of every file of the gallery by its name; always the same."""
    files, pages = {}, [make() for make in PAGES]
    for page in pages:
        text = rendered(page.name, **page.facts)
        files[f"{page.name}.svg"] = page.svg
        files[f"{page.name}.md"] = rendered("page", page=page, text=text)
    rows = [(example, example.run()) for example in every_example()]
    differ = sum(example.expected != got for example, got in rows)
    files["README.md"] = rendered("gallery", pages=pages, rows=rows, differ=differ)
    return files
