"""Take what a webhook sends, and add it to a file, one message a line.

python -m support.hook FILE
"""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Hook(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with Path(sys.argv[1]).open("ab") as file:
            file.write(body.replace(b"\n", b" ") + b"\n")
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        print(server.server_port, flush=True)
        server.serve_forever()
