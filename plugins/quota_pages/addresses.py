"""Where each page is: addresses hold no name of a user or client, whatever it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from urllib.parse import urlencode

import msgspec

from spark_jobs.wording.numbers import iso

ENTITY_PATTERN = r"^[0-9a-f]{16}$"


def entity_id(quota_user: str, quota_client_id: str) -> str:
    """Return 16 hexadecimal digits for a sensor's names: the same for the same names everywhere.

    Names come from clients and have up to 32,767 characters of any kind.
    """
    names = msgspec.json.encode([quota_user, quota_client_id])
    return blake2b(names, digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses below ``base``, where the pages are mounted (no slash at the end)."""

    base: str

    def overview(self) -> str:
        """Return the address of the list of clusters and days."""
        return f"{self.base}/"

    def outcomes(self) -> str:
        """Return the address of what every audit found, as CSV."""
        return f"{self.base}/audits.csv"

    def audit(self, cluster: str, day: object) -> str:
        """Return the address of one audited day."""
        return f"{self.base}/clusters/{cluster}/{day}"

    def entities(self, cluster: str, day: object, **query: object) -> str:
        """Return the address of the list of clients of a day."""
        return f"{self.audit(cluster, day)}/entities{_query(query)}"

    def entity(
        self, cluster: str, day: object, quota_user: str, quota_client_id: str, **query: object
    ) -> str:
        """Return the address of one client's page.

        ``query`` says what is shown: quota_type, broker, from_ms and until_ms (epoch ms).
        """
        name = entity_id(quota_user, quota_client_id)
        for end in ("from", "until"):
            at_ms = query.pop(f"{end}_ms", None)
            if isinstance(at_ms, int):
                query[end] = iso(at_ms)
        return f"{self.audit(cluster, day)}/entities/{name}{_query(query)}"

    def finding(self, cluster: str, day: object, finding_id: str) -> str:
        """Return the address of one finding."""
        return f"{self.audit(cluster, day)}/finding{_query({'id': finding_id})}"

    def recommendations(self, cluster: str, day: object, **query: object) -> str:
        """Return the address of the proposals of a day; ``query``: q (text of a name), page."""
        return f"{self.audit(cluster, day)}/recommendations{_query(query)}"

    def whatif(self, cluster: str, day: object) -> str:
        """Return the address of the comparison of policies on a day."""
        return f"{self.audit(cluster, day)}/whatif"

    def quality(self, cluster: str, day: object) -> str:
        """Return the address of the data-quality results of a day."""
        return f"{self.audit(cluster, day)}/quality"

    def explain(self, **query: object) -> str:
        """Return the address of the page that explains a request."""
        return f"{self.base}/explain{_query(query)}"

    def file(self, cluster: str, day: object, name: str) -> str:
        """Return the address of a published file."""
        return f"{self.base}/reports/{cluster}/{day}/{name}"

    def data_docs(self, cluster: str, day: object, stage: str, name: str) -> str:
        """Return the address of a page of Data Docs: its links to others are by their folders."""
        return f"{self.base}/data_docs/cluster={cluster}/date={day}/{stage}/{name}"

    def static(self, name: str, version: str) -> str:
        """Return the address of a file that comes with the package."""
        return f"{self.base}/static/{name}?v={version}"


def _query(values: dict[str, object]) -> str:
    given = {name: value for name, value in values.items() if value is not None and value != ""}
    return f"?{urlencode(given, doseq=True)}" if given else ""
