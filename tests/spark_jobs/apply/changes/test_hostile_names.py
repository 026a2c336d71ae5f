"""Names that mean harm: every tool's own reader finds them as they are, or they are refused."""

from __future__ import annotations

import json
import subprocess

import pygohcl
import pytest
import yaml

from spark_jobs.apply.changes.quota_alteration import altered, quota_set
from spark_jobs.apply.render import TARGETS, render
from tests.spark_jobs.apply.changes.fixed_alterations import alteration
from tests.spark_jobs.apply.changes.quota_models import AFTER

NAMES = [
    "../../etc/passwd",
    "$(touch x)",
    "`touch x`; touch y",
    "'; DROP TABLE requests; --",
    "a\nb: c\r\n---\nkind: Pod",
    "<script>alert(1)</script>",
    "!!python/object/apply:os.system ['touch x']",
    "&anchor *alias",
    "{{ 7*7 }}",
    "${file('/etc/passwd')} %{if true}",
    "\x00",
    "\x85\u2028\ufeff\u202e",
    "x" * 4096,
]
PLAIN_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str", "int", "float", "null")}
PAIRS = [(True, False), (False, True), (True, True)]
YAML = {"strimzi", "jikkou", "rpk"}


def tags(node: yaml.Node | None) -> set[str]:
    """Return the tags of a YAML document's nodes."""
    if node is None:
        return set()
    parts = [node.value] if isinstance(node, yaml.ScalarNode) else node.value
    found = {node.tag}
    for part in parts:
        for inner in part if isinstance(part, tuple) else (part,):
            found |= tags(inner) if isinstance(inner, yaml.Node) else set()
    return found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_a_hostile_name_is_read_back_as_it_is_or_refused(target: str, name: str) -> None:
    for has_user, has_client in PAIRS:
        change = alteration(
            name if has_user else None, name if has_client else None, reason=f"Because of {name}."
        )
        rendered = render(target, [change], [])
        written = [] if rendered.refusals else [change]
        assert "\x00" not in rendered.text
        if target in AFTER and (written or target != "rpk"):
            held = quota_set([])
            names = {one.entity for one in written}
            assert AFTER[target](held, rendered.text, names) == altered(held, written)
        if target in YAML:
            documents = list(yaml.compose_all(rendered.text, Loader=yaml.SafeLoader))
            assert len([one for one in documents if one is not None]) <= 1
            assert set().union(*map(tags, documents)) <= PLAIN_TAGS
        if target == "terraform" and written:
            (resource,) = pygohcl.loads(rendered.text)["resource"]["kafka_quota"].values()
            # An interpolation that is written out is doubled, and read as what stands there.
            assert resource["entity_name"].replace("$${", "${").replace("%%{", "%{") == name
        if target == "kafka-configs":
            done = subprocess.run(["bash", "-n"], input=rendered.text, text=True, check=False)
            assert done.returncode == 0
        if target == "admin-json":
            assert json.loads(rendered.text)["entries"] != []
