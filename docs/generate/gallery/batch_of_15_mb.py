"""KIP-13's own example of a delay, by the document's arithmetic and by a broker's."""

from __future__ import annotations

from matplotlib.axes import Axes

from docs.generate.gallery.drawing import BLUE, RED, legend, picture
from docs.generate.gallery.page import Page, seconds
from docs.generate.gallery.traffic import MB, T, produce
from spark_jobs.whatif.policies.catalogue import policy_class
from spark_jobs.whatif.policies.decision import Decision

BOUND_MB, SAMPLES, BATCH_MB = 5, 10, 15
MOMENTS_MS = tuple(range(0, 1000, 50))
CONFIGS = {
    "kip13": {"quota.producer.default": f"{BOUND_MB}M", "quota.window.num": SAMPLES},
    "broker_bandwidth": {
        "quota.window.num": SAMPLES,
        "quotas": [{"client-id": "app", "producer_byte_rate": BOUND_MB * MB}],
    },
}


def batch(policy: str, moment_ms: int = 0) -> Decision:
    """Return the decision on the 15 MB that follow on nine seconds of 5 MB.

    They come ``moment_ms`` into the tenth second; the others at the beginning of theirs.
    """
    made = policy_class(policy).configured(CONFIGS[policy])
    for second in range(SAMPLES - 1):
        made.decide(produce(T + 1000 * second, BOUND_MB * MB, "app"))
    return made.decide(produce(T + 1000 * (SAMPLES - 1) + moment_ms, BATCH_MB * MB, "app"))


def page() -> Page:
    """Return the page of the batch of 15 MB."""
    found = {policy: [batch(policy, at_ms) for at_ms in MOMENTS_MS] for policy in CONFIGS}
    brokers = [decision.delay_ms for decision in found["broker_bandwidth"]]
    label = (
        f"By the document the batch waits {seconds(found['kip13'][0].delay_ms)} whenever it comes; "
        f"by a broker's arithmetic {seconds(max(brokers))} at the beginning of its second, "
        f"{seconds(min(brokers))} at its end."
    )

    def draw(axes: list[Axes]) -> None:
        lines = (("kip13", BLUE, (6, 2)), ("broker_bandwidth", RED, None))
        for policy, colour, dashes in lines:
            delays = [decision.delay_ms / 1000 for decision in found[policy]]
            axes[0].plot([ms / 1000 for ms in MOMENTS_MS], delays, color=colour, linewidth=2,
                         label=policy,
                         linestyle="-" if dashes is None else (0, dashes))  # fmt: skip
        axes[0].set_ylim(0, 3.4)
        axes[0].set_xlim(0, 1)
        axes[0].set_title("seconds that the answer is held", loc="left", fontsize=9)
        axes[0].set_xlabel("when the batch comes: seconds into the tenth sample")
        legend(axes[0], "lower left")

    return Page(
        name="batch-of-15-mb",
        title="A batch of 15 MB at 5 MB/s",
        document="KIP-13, Delay time in QuotaViolationException",
        label=label,
        svg=picture("batch-of-15-mb", label, draw, heights_in=(2.4,)),
        facts={
            "bound": BOUND_MB,
            "samples": SAMPLES,
            "batch": BATCH_MB,
            "total": BOUND_MB * (SAMPLES - 1) + BATCH_MB,
            "moments": [
                {"at_ms": at_ms, "rate": decision.measured / MB, "delay_ms": decision.delay_ms}
                for at_ms, decision in zip(MOMENTS_MS, found["broker_bandwidth"], strict=True)
                if at_ms % 250 == 0 or at_ms == MOMENTS_MS[-1]
            ],
            "document": {
                "rate": found["kip13"][0].measured / MB,
                "delays": sorted({decision.delay_ms for decision in found["kip13"]}),
            },
        },
    )
