"""A page of metrics of one's own, for Prometheus to scrape."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tailcast.errors import UsageError


class MetricsPage:
    """Serves the text it was given last, in a thread of its own; use as a context manager.

    Parameters
    ----------
    host : str
        Address to listen at.
    port : int
        Port, 0 for any that is free.

    Raises
    ------
    UsageError
        If the port cannot be had.
    """

    def __init__(self, host: str, port: int) -> None:
        self._text = b""
        page = self

        class Handler(BaseHTTPRequestHandler):
            """Answers GET /metrics."""

            def do_GET(self) -> None:
                if self.path.split("?")[0] not in {"/metrics", "/"}:
                    self.send_error(404)
                    return
                body = page._text
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                del format, args

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise UsageError(f"cannot listen at {host}:{port}: {error.strerror}") from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Port that it listens at."""
        return int(self._server.server_address[1])

    def show(self, text: str) -> None:
        """Serve this text from now on.

        Parameters
        ----------
        text : str
            In Prometheus' text format.
        """
        self._text = text.encode()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> "MetricsPage":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def parse_listen(text: str) -> tuple[str, int]:
    """Host and port of a text such as ``9108`` or ``0.0.0.0:9108``.

    Parameters
    ----------
    text : str
        Port alone means this machine only.

    Returns
    -------
    host, port
        Where to listen.

    Raises
    ------
    UsageError
        If there is no port.
    """
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 <= int(port) < 65536:
        raise UsageError(f"listen {text!r}: write a port or HOST:PORT, for example 9108")
    return host.strip("[]") or "127.0.0.1", int(port)
