"""Writes what a release is made of, as CycloneDX JSON: locked packages, and code in the wheel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

LOCK = "requirements.txt"
ASKED = "-r requirements.in"
MESSAGES = "spark_jobs/ingest/messages/kafka_messages"
LICENSE_LENGTH_MAX = 60
_ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VIA = re.compile(r"^    #\s+(?:via )?(\S.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Bundled:
    """Code of others in the wheel; ``version`` "": it was changed, and of none."""

    name: str
    version: str
    license: str
    type: str = "npm"
    namespace: str | None = None


# As NOTICE has them.
IN_CHARTS = (
    Bundled("echarts", "6.1.0", "Apache-2.0"),
    Bundled("zrender", "6.1.0", "BSD-3-Clause"),
    Bundled("tslib", "2.3.0", "0BSD"),
    Bundled("d3", "", "BSD-3-Clause"),
    Bundled("snabbdom", "", "MIT"),
    Bundled("timsort", "", "MIT"),
    Bundled("tween.js", "", "MIT", namespace="@tweenjs"),
)


@dataclass(frozen=True, slots=True)
class Locked:
    """A package of the lock: the hashes of its files, and who asks for it."""

    name: str
    version: str
    hashes: tuple[str, ...]
    asked_by: frozenset[str]


def locked_packages(lock: str) -> list[Locked]:
    """Return the packages of a lock, in its order."""
    return [
        Locked(found[1], found[2], tuple(_HASH.findall(entry)), frozenset(_VIA.findall(entry)))
        for entry in re.split(r"\n(?=\S)", lock)
        if (found := _ENTRY.match(entry))
    ]


def bill_of_materials(root: Path, version: str) -> str:
    """Return the bill of the clone ``root`` as CycloneDX JSON."""
    bom, licenses = Bom(), LicenseFactory()
    ours = Component(
        name="quota-audit",
        version=version,
        type=ComponentType.APPLICATION,
        licenses=[licenses.make_from_string("Apache-2.0")],
        purl=PackageURL("pypi", None, "quota-audit", version),
    )
    bom.metadata.component = ours
    packages = locked_packages((root / LOCK).read_text("utf-8"))
    components = {one.name: _package(one, licenses) for one in packages}
    bundled = [_bundled(one, licenses) for one in (*IN_CHARTS, *_messages(root))]
    bom.components = [*components.values(), *bundled]
    asked = {one.name: components[one.name] for one in packages if ASKED in one.asked_by}
    bom.register_dependency(ours, [*asked.values(), *bundled])
    for name, component in components.items():
        needed = [components[one.name] for one in packages if name in one.asked_by]
        bom.register_dependency(component, needed)
    return JsonV1Dot6(bom).output_as_string(indent=2)


def _package(one: Locked, licenses: LicenseFactory) -> Component:
    purl = PackageURL("pypi", None, one.name, one.version)
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(str(purl)),
        comment="one of the files with these hashes",
        hashes=[HashType.from_composite_str(f"sha256:{each}") for each in one.hashes],
    )
    said = _license_of(one.name)
    return Component(
        name=one.name,
        version=one.version,
        type=ComponentType.LIBRARY,
        bom_ref=str(purl),
        purl=purl,
        external_references=[files],
        licenses=[licenses.make_from_string(said)] if said else [],
    )


def _license_of(package: str) -> str | None:
    """Return the license that the installed package names; None: none, or a whole text."""
    try:
        said = metadata(package)
    except PackageNotFoundError:
        return None
    text = said.get("License-Expression") or said.get("License") or ""
    return text if 0 < len(text) <= LICENSE_LENGTH_MAX and "\n" not in text else None


def _bundled(one: Bundled, licenses: LicenseFactory) -> Component:
    purl = PackageURL(one.type, one.namespace, one.name, one.version or None)
    return Component(
        name=one.name,
        version=one.version or None,
        type=ComponentType.LIBRARY,
        bom_ref=f"in-the-wheel/{purl}",
        purl=purl,
        licenses=[licenses.make_from_string(one.license)],
    )


def _messages(root: Path) -> Iterator[Bundled]:
    """Yield the releases of Kafka that message definitions are copies of."""
    for folder in sorted((root / MESSAGES).glob("[0-9]*")):
        yield Bundled("kafka-clients", folder.name, "Apache-2.0", "maven", "org.apache.kafka")
