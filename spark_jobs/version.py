"""The version of this program, also where it is not installed: in a zip on Spark's workers."""

from __future__ import annotations

VERSION = "0.1.0"
