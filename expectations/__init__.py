"""Great Expectations suites of every table, and the checkpoints that run them.

Analytics are switched off here, before any module of this package imports Great Expectations.
"""

from __future__ import annotations

import os

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
