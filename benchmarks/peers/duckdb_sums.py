"""Peer of the whole audit: DuckDB sums bytes in 10 s windows for each client, from the same logs.

It reads the same lines and parses the same JSON, and answers one question: who sent and read how
many bytes of records. No quotas, no sizes on the wire, no throttles, nothing for lines it cannot
read.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb

# What it takes of a line; DuckDB skips the rest.
FIELDS = """{
  "requestHeader": {"requestApiKeyName": "VARCHAR", "clientId": "VARCHAR"},
  "request": {"topicData": [{"partitionData": [{"recordsSizeInBytes": "BIGINT"}]}]},
  "response": {"responses": [{"partitions": [{"recordsSizeInBytes": "BIGINT"}]}]}
}"""

SUMS = """
COPY (
  WITH line AS (
    SELECT line[2:20]::TIMESTAMP AS logged_at, json_transform(substring(line, instr(line, '{'),
           length(line) - instr(line, '{') - 22), $fields) AS said
    FROM read_csv($logs, columns = {'line': 'VARCHAR'}, header = false, delim = '\x01',
                  quote = '', escape = '', auto_detect = false, max_line_size = 10000000)
  ), request AS (
    SELECT logged_at, said.requestHeader.clientId AS client_id,
           said.requestHeader.requestApiKeyName AS api_name,
           CASE api_name
             WHEN 'PRODUCE' THEN list_sum(flatten(list_transform(said.request.topicData,
               lambda t: list_transform(t.partitionData, lambda p: p.recordsSizeInBytes))))
             WHEN 'FETCH' THEN list_sum(flatten(list_transform(said.response.responses,
               lambda t: list_transform(t.partitions, lambda p: p.recordsSizeInBytes))))
           END AS bytes
    FROM line
  )
  SELECT time_bucket(INTERVAL 10 SECONDS, logged_at) AS window_start, client_id, api_name,
         sum(bytes) AS bytes
  FROM request WHERE bytes IS NOT NULL GROUP BY ALL
) TO $out (FORMAT parquet, COMPRESSION zstd)
"""


def main(archive: Path, out: Path) -> None:
    with duckdb.connect() as database:
        logs = [str(path) for path in sorted(archive.glob("broker=*/kafka-request.log"))]
        database.execute(SUMS, {"logs": logs, "fields": FIELDS, "out": str(out)})
        found = database.execute("SELECT sum(bytes) FROM read_parquet($out)", {"out": str(out)})
        print(*found.fetchone() or ())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
