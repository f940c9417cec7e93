"""A web server on this machine that remembers what it was asked for."""

from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class Site:
    """Files by name, and the names that were asked for."""

    def __init__(self, files):
        self.files, self.asked, self.address = files, [], ""

    def url(self, name):
        return f"{self.address}/{name}"


@contextmanager
def serving(files):
    site = Site(dict(files))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.lstrip("/")
            site.asked.append(name)
            data = site.files.get(name)
            self.send_response(404 if data is None else 200)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
