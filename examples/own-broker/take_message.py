"""Take one message on 127.0.0.1 and print it: python take_message.py PORT."""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Taken(BaseHTTPRequestHandler):
    """Prints what is sent by POST."""

    def do_POST(self) -> None:
        """Print the message and thank for it."""
        sys.stdout.write(self.rfile.read(int(self.headers["Content-Length"])).decode() + "\n")
        self.send_response(204)
        self.end_headers()


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Taken)
    server.timeout = 1800  # without a message it ends by itself
    server.handle_request()
