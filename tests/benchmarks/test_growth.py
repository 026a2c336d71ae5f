"""What growth says of sizes beside each other."""

from __future__ import annotations

from benchmarks.growth import hot_beside_even, with_marginal_cost


def test_the_marginal_cost_leaves_out_what_the_smallest_size_costs() -> None:
    rows = [{"requests": 1_000_000, "cpu_s": 10.0}, {"requests": 3_000_000, "cpu_s": 13.0}]
    assert with_marginal_cost(rows)[1]["marginal_us"] == 1.5


def test_a_hot_client_is_compared_by_the_process_that_grew_most() -> None:
    even_mb = {"driver": 100, "worker": 200, "java": 800}
    hot_mb = {"driver": 100, "worker": 250, "java": 400}
    even = {"cpu_s": 10.0, "worker_s": 4.0, "wall_s": 5.0, "peak_mb": even_mb}
    hot = {"cpu_s": 11.0, "worker_s": 5.2, "wall_s": 6.0, "peak_mb": hot_mb}
    assert hot_beside_even(hot, even) == {
        "wall_times": 1.2,
        "cpu_times": 1.1,
        "worker_times": 1.3,
        "memory_times": 1.25,
    }
