"""Times of brokers and of their logs that several steps go by."""

from __future__ import annotations

SAMPLES = 11
"""A broker's ``quota.window.num``, and ``controller.quota.window.num``, where it is not set."""

WINDOW_MS = 1000
"""So long is a sample where ``quota.window.size.seconds``, or the controller's, is not set."""

EXPIRED_AFTER_MS = 3_630_000
"""A sensor without a record for an hour is removed by a task that runs every 30 s, and begins anew
(Kafka: ``ClientQuotaManager.InactiveSensorExpirationTimeSeconds``, ``Metrics.ExpireSensorTask``).
Between 3600 s and this it may be there still, but holds nothing that counts: a purged window, a
bucket that is full again.
"""

LATE_LINE_MS = 50
"""A process may stop for so long (garbage collection, a busy machine) before a response is complete
or its line logged: then an amount was recorded, or a throttle computed, earlier than that says. On
captures of sound brokers 60 ms excuses nothing more; throttles that are 55 ms off it would excuse.
"""

LINE_LAG_MAX_MS = 350
"""No line is taken to be later than this but after a stop of the process, whatever else of the log
leaves open."""

PROVES_MS = 2
"""A throttle that is replayed to the millisecond or two proves the state of its sensor."""

CHANGE_MS = 1_000
"""So close to a quota change, a request may have met the quota, and the sensor, of before."""

CHANGE_LATEST_MS = 3_000
"""A broker that runs follows a quota change within this. The latest that a real one was seen to
follow is 1,184 ms, just started on a busy machine.
"""

ZOOKEEPER_RECONNECT_MS = 13_000
"""A broker that keeps its quotas in ZooKeeper takes a connection that brings nothing for dead after
two thirds of the session's time (18 s where ``zookeeper.session.timeout.ms`` is not set), and waits
up to a second before it connects again (``ClientCnxn``): only then it is told of a change.
"""

TIME_BITS = 42
"""A number and a time are one number (number << TIME_BITS | ms): they hold times until 2109."""

TIME_MAX_MS = (1 << TIME_BITS) - 1
