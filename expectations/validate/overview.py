"""The look of all pages of Data Docs, and the page that leads to those of each day."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import jinja2

from spark_jobs.warehouse.pipeline import STAGES
from spark_jobs.warehouse.scope import RunScope, folders_shown
from spark_jobs.warehouse.storage import write_whole

POLICY = (
    '<meta charset="utf-8"><meta name="color-scheme" content="light dark">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    # Without an icon of its own a browser asks the server for one.
    '<link rel="icon" href="data:,"><meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
)
"""What the head of every page begins with."""

STYLE = """
:root { --paper: #fff; --ink: #1c2733; --soft: #51606e; --line: #d5dce3; --link: #0b5cad;
  --ground: #eef2f6; --rows: #fbf4f3; --good: #1a7f37; --bad: #b42318; --warning: #8a5a00; }
@media screen and (prefers-color-scheme: dark) {
  :root { --paper: #1a1e22; --ink: #e5e9ec; --soft: #a2adb7; --line: #343b42; --link: #7cc4ee;
    --ground: #2a3036; --rows: #33221f; --good: #7fd6a0; --bad: #ff9b90; --warning: #f0c060; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  margin: 0 auto; max-width: 78rem; padding: 0 1.5rem 3rem; overflow-wrap: anywhere; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; } h4, h5, h6 { margin: 0; }
nav.navbar { border-bottom: 1px solid var(--line); padding: .6rem 0; margin-bottom: 1rem; }
.sticky > .card:first-child, .navbar-brand, .collapse, p.lead { display: none; }
a:not([href]) { color: inherit; } h6 { font-size: .9rem; }
ol.breadcrumb, ul.nav { list-style: none; display: flex; gap: .5rem; margin: 0; padding: 0; }
ol.breadcrumb li + li::before { content: "/ "; color: var(--soft); }
.container-fluid > .row { display: flex; gap: 2rem; }
.container-fluid > .row > .col-lg-2 { flex: 0 0 14rem; }
.container-fluid > .row > .col-lg-10 { flex: 1; min-width: 0; }
.sticky { position: sticky; top: 1rem; max-height: 90vh; overflow: auto; font-size: .85rem; }
.sticky ul.nav { display: block; } .sticky nav { border: 0; padding: 0; }
.ge-section .row { display: block; } .ge-section { margin-bottom: 1.2rem; }
.alert { background: var(--ground); border-left: 4px solid var(--soft); padding: .3rem .7rem; }
table { border-collapse: collapse; width: 100%; margin: .3rem 0; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: left;
  vertical-align: top; overflow-wrap: anywhere; }
.ge-section table { table-layout: fixed; } .ge-section th:first-child { width: 4rem; }
.ge-section th:last-child { width: 40%; } p.show-more-or-less, .ge-section > a { display: none; }
th { font-weight: 600; color: var(--soft); overflow-wrap: normal; } td.number { text-align: right; }
td table { width: auto; background: var(--rows); }
.fa-check-circle::before { content: "✓"; } .fa-times::before { content: "✗"; }
.fa-exclamation-triangle::before { content: "!"; } i { font-style: normal; font-weight: 700; }
.text-success, .passed { color: var(--good); }
.text-danger, .failed, .broken { color: var(--bad); }
.text-warning, .warnings { color: var(--warning); }
@media (max-width: 46rem) {
  .container-fluid > .row { display: block; } .container-fluid > .row > .col-lg-2 { display: none; }
}
"""

TEMPLATES = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
_OVERVIEW = TEMPLATES.from_string("""<!DOCTYPE html>
<html lang="en"><head>{{ policy|safe }}<title>Data quality</title><style>{{ style|safe }}</style>
</head><body><h1>Data quality</h1>
<table><thead><tr><th>Cluster</th><th>Day</th><th>Stages</th></tr></thead><tbody>
{% for (cluster, day), stages in days.items() %}
<tr><td>{{ cluster }}</td><td>{{ day }}</td><td>
{% for stage, href in stages %}<a href="{{ href }}">{{ stage }}</a> {% endfor %}</td></tr>
{% endfor %}
</tbody></table></body></html>
""")


def write_overview(warehouse: Path) -> None:
    """Write the page that leads to the published pages of each day and stage."""
    root = warehouse / "data_docs"
    days: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for cluster, day, folder in sorted(folders_shown(warehouse, "data_docs")):
        shown = RunScope(warehouse, cluster, day).plain_dir("data_docs").relative_to(root)
        written = {page.parent.name for page in folder.glob("*/index.html")}
        days[cluster, str(day)] = [
            (stage, quote(f"{shown.as_posix()}/{stage}/index.html"))
            for stage in STAGES
            if stage in written
        ]
    if days:
        write_whole(root / "index.html", _OVERVIEW.render(days=days, policy=POLICY, style=STYLE))
