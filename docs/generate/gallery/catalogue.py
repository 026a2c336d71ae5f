"""All pages, pictures and examples of the gallery."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from docs.generate.gallery import (
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
from docs.generate.gallery.example import TODAY, Example
from docs.generate.gallery.page import Page, rendered

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
    """Return the documents' examples, document by document, and today's brokers after them."""
    found = [
        *bytes_in_examples.examples(),
        *kip13_examples.examples(),
        *kip599_examples.examples(),
    ]
    return sorted(found, key=lambda example: example.document == TODAY)


def gallery_files() -> Mapping[str, str]:
    """Return the text of every file of the gallery by its name; always the same."""
    files, pages = {}, [make() for make in PAGES]
    for page in pages:
        text = rendered(page.name, **page.facts)
        files[f"{page.name}.svg"] = page.svg
        files[f"{page.name}.md"] = rendered("page", page=page, text=text)
    files["README.md"] = front_page(pages, every_example())
    return files


def front_page(pages: Sequence[Page], examples: Sequence[Example]) -> str:
    """Return the page that lists the others, and what the policies make of every example."""
    got = [example.run() for example in examples]
    by_document: dict[str, list[tuple[Example, str]]] = {}
    for example, found in zip(examples, got, strict=True):
        by_document.setdefault(example.document, []).append((example, found))
    return rendered(
        "gallery",
        pages=pages,
        documents=by_document,
        number_of_examples=len(examples),
        differ=sum(one.expected != found for one, found in zip(examples, got, strict=True)),
    )
