"""The program of ``python -m spark_jobs.cli``, and the file that spark-submit starts."""

from __future__ import annotations

from spark_jobs.cli.app import main

if __name__ == "__main__":
    main()
