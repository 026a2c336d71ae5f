"""Data Docs of one stage: Great Expectations writes the pages, and here they are made safe.

Its pages load styles, scripts and a logo from the network and do not escape the values they show,
so a client-id that reads like HTML would run in the reader's browser. Here values are escaped
before the pages are written, and what is published is rebuilt from a list of permitted tags and
attributes, carries its own style, and forbids the browser to load or run anything.
"""

from __future__ import annotations

import copy
import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from great_expectations.checkpoint import CheckpointResult
from great_expectations.core import ExpectationSuiteValidationResult
from great_expectations.data_context import EphemeralDataContext

from expectations.validate.overview import POLICY, STYLE, TEMPLATES
from expectations.validate.results import TableResult, ValidationReport

_SITE = "quota_audit"
# fmt: off
_TAGS = frozenset({
    "html", "head", "title", "body", "nav", "div", "ol", "ul", "li", "a", "h4", "h5", "h6", "p",
    "span", "strong", "i", "br", "table", "thead", "tbody", "tr", "th", "td",
})
_SILENT = frozenset({"script", "style", "footer", "label", "button", "select", "textarea", "svg"})
# fmt: on
_INDENT = re.compile(r"\s*\n\s*")
_SECTION = re.compile(r"#?section-\d+")
_INDEX = TEMPLATES.from_string(
    """<!DOCTYPE html>
<html lang="en"><head>{{ policy|safe }}<title>Data quality {{ report.date }} {{ report.stage }}
</title><style>{{ style|safe }}</style></head><body>
<p><a href="../../../index.html">All runs</a></p>
<h1>Data quality: {{ report.stage }}, cluster {{ report.cluster }}, {{ report.date }}</h1>
<p>Outcome: <strong class="{{ report.outcome }}">{{ report.outcome }}</strong></p>
<table><thead><tr><th>Table</th><th>Rows</th><th>Rules</th><th>Do not hold</th><th>Checked by</th>
</tr></thead><tbody>
{% for table in report.tables %}
<tr><td><a href="{{ table.table }}.html">{{ table.table }}</a></td>
<td class="number">{{ "{:,}".format(table.rows).replace(",", " ") }}</td>
<td class="number">{{ table.rules|length }}</td>
<td>{{ not_holding(table) }}</td><td>{{ table.engine }}</td></tr>
{% endfor %}
</tbody></table>
{% for table in report.tables %}{% for rule in table.rules if rule.error or not rule.success %}
<h2>{{ table.table }}: {{ rule.rule }} ({{ "check broken" if rule.error else rule.severity }})</h2>
<p>{{ rule.description }}
{% if rule.error %}It could not be evaluated: {{ rule.error }}
{% elif rule.found is not none %}Found: {{ rule.found }}.
{% else %}{{ rule.failed_rows }} of {{ table.rows }} rows break it.{% endif %}</p>
{% if rule.sample %}
<table><thead><tr>{% for name in rule.sample[0] %}<th>{{ name }}</th>{% endfor %}</tr></thead>
<tbody>{% for row in rule.sample %}
<tr>{% for value in row.values() %}<td>{{ "" if value is none else value }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table>
{% endif %}
{% endfor %}{% endfor %}
</body></html>
"""
)


def add_site(context: EphemeralDataContext, pages: Path) -> None:
    """Let :func:`draft_pages` write the pages of validated tables below ``pages``."""
    site: Any = {
        "class_name": "SiteBuilder",
        "store_backend": {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": str(pages),
        },
        # The page of a validated table has all rules of its suite: no pages of suites alone.
        "site_section_builders": {"expectations": "None"},
    }
    context.add_data_docs_site(_SITE, site)


def draft_pages(context: EphemeralDataContext, result: CheckpointResult) -> None:
    """Write the pages of a checkpoint's results below the site's folder, values escaped.

    This is what ``UpdateDataDocsAction`` does, with a step before it: the action would render the
    results as they are stored, values unescaped and with the time of loading.
    """
    for key, validation in result.run_results.items():
        context.validation_results_store.set(key, _showable(validation))
    context.build_data_docs(
        site_names=[_SITE], resource_identifiers=list(result.run_results), build_index=False
    )


def write_pages(drafts: Path, folder: Path, report: ValidationReport) -> None:
    """Write the cleaned pages of a stage's tables into ``folder``, and an index to open."""
    folder.mkdir(parents=True)
    for table in report.tables:
        (written,) = (drafts / "validations" / table.table).rglob("*.html")
        (folder / f"{table.table}.html").write_text(offline(written.read_text("utf-8")), "utf-8")
    index = _INDEX.render(report=report, policy=POLICY, style=STYLE, not_holding=_not_holding)
    (folder / "index.html").write_text(index, "utf-8")


def _showable(validation: ExpectationSuiteValidationResult) -> ExpectationSuiteValidationResult:
    shown = copy.deepcopy(validation)
    about: dict[str, Any] = dict(shown.meta)
    for volatile in ("batch_markers", "batch_parameters"):
        about.pop(volatile, None)
    about["batch_spec"] = {"data_asset_name": shown.suite_name}
    shown.meta = about
    for result in shown.results:
        config: Any = result.expectation_config
        config.description = (
            f"{config.meta['rule']} ({config.severity.value}): {config.description}"
        )
        found: dict[str, Any] = result.result
        if "partial_unexpected_list" in found:
            found["partial_unexpected_list"] = [
                _as_text(value) for value in found["partial_unexpected_list"]
            ]
        for counted in found.get("partial_unexpected_counts", []):
            if "value" in counted:
                counted["value"] = _as_text(counted["value"])
    return shown


def _as_text(value: Any) -> str:
    """Return one unexpected value, or the values of several columns, as escaped text."""
    if isinstance(value, dict):
        value = ", ".join(f"{name} {one}" for name, one in value.items())
    elif isinstance(value, (list, tuple)):
        value = ", ".join(str(one) for one in value)
    return html.escape(str(value))


def offline(page: str) -> str:
    """Return a Data Docs page that loads nothing, runs nothing and brings its own style."""
    cleaner = _Cleaner()
    cleaner.feed(page)
    cleaner.close()
    return "<!DOCTYPE html>\n" + "".join(cleaner.parts)


class _Cleaner(HTMLParser):
    """Copies permitted tags and attributes and all text but that of what is never shown."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Copy a permitted tag."""
        if tag in _SILENT:
            self._silent += 1
        elif tag in _TAGS and not self._silent:
            kept = "".join(_attribute(name, value or "") for name, value in attrs)
            self.parts.append(f"<{tag}{kept}>")
            if tag == "head":
                self.parts.append(f"{POLICY}<style>{STYLE}</style>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Copy a permitted tag without content."""
        if tag not in _SILENT:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """Copy the end of a permitted tag."""
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag in _TAGS and tag != "br" and not self._silent:
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        """Copy text, blanks of the template's indentation taken together."""
        if not self._silent:
            self.parts.append(html.escape(_INDENT.sub("\n", data), quote=False))


def _attribute(name: str, value: str) -> str:
    if name == "href" and value.endswith("/index.html") and ":" not in value:
        value = "index.html"
    elif name == "href" or name == "id":
        # Only sections are linked to; other ids are random.
        value = value if _SECTION.fullmatch(value) else ""
    elif name != "class":
        value = ""
    return f' {name}="{html.escape(value)}"' if value else ""


def _not_holding(table: TableResult) -> str:
    kinds = ["broken" if r.error else r.severity for r in table.rules if r.error or not r.success]
    found = (k for k in ("broken", "critical", "warning", "info") if k in kinds)
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in found)
