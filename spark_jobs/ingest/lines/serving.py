"""Requests that tell by whom they are served, or how a cluster is led."""

from __future__ import annotations

CONTROLLER_APIS = ("BROKER_HEARTBEAT", "BROKER_REGISTRATION", "CONTROLLER_REGISTRATION")
"""Requests that only controllers serve; the listener they arrive on is no client's."""

ZOOKEEPER_APIS = ("LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA")
"""What a controller with ZooKeeper tells the brokers by; with KRaft they read it from the log."""
