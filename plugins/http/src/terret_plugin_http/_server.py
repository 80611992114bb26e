"""The port, and the uvicorn server behind it."""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio
import uvicorn
from starlette.types import ASGIApp

from ._errors import BindError, PortInUseError


def bind(host: str, port: int) -> socket.socket:
    """Returns a socket bound to an address. Raises `PortInUseError` or `BindError`."""
    try:
        family, kind, proto, _, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, proto)
    except OSError as error:
        raise BindError(host, port, error.strerror or str(error)) from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(place)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUseError(host, port) from None
        raise BindError(host, port, error.strerror or str(error)) from None
    return sock


def address_of(sock: socket.socket) -> str:
    """Returns the address of a bound socket as a URL."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


_GRACE: Final = 5
"""Seconds for answers that are being written when the service has ended."""


class _Server(uvicorn.Server):
    """A server that tells when it has started, and leaves the signals to the program."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answering = anyio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.answering.set()


class PortServer:
    """Answers requests on a bound socket, until `stop`."""

    def __init__(self, app: ASGIApp, sock: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=_GRACE,
        )
        self._sock = sock
        self._server = _Server(config)

    async def run(self) -> None:
        """Runs the server; a cancelled one closes the port at once."""
        try:
            await self._server.serve([self._sock])
        finally:
            if self._server.started and not self._server.should_exit:
                with anyio.CancelScope(shield=True):
                    self._server.should_exit = self._server.force_exit = True
                    await self._server.shutdown([self._sock])

    async def started(self) -> None:
        """Returns when requests are answered."""
        await self._server.answering.wait()

    def stop(self) -> None:
        """Closes the port; requests that are being answered get the grace."""
        self._server.should_exit = True
