"""The pages over a warehouse, served on a free port of this machine while a block lasts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from tests.plugins.quota_pages.every_address import pages_app


@contextmanager
def served_pages(warehouse: Path) -> Iterator[str]:
    """Yield the origin, such as http://127.0.0.1:40123, at which the pages are."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(pages_app(warehouse), log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            # The socket listens already: who asks too early waits.
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
