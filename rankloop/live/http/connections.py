"""Connections: how long clients may take to send a request and to read the answer, and how many are open.

A client that sends half a request keeps a connection and a file of the server open. uvicorn waits for such
clients without end; here each has a time limit. Where too many are open, the one whose client has been silent
longest makes room, so that clients who say nothing cannot keep others out.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Bytes of the headers of a request; the service reads a few of them.
LARGEST_HEADERS = 32_768
# The answer to a body that does not come in time needs a moment to go out before its connection is closed.
GRACE_SECONDS = 1.0


@dataclass(eq=False)
class Connections:
    """The open connections of a server, and their limits.

    Attributes:
        header_seconds: how long the headers of a request may take.
        body_seconds: how long a body may take, and how long the client may take to read an answer.
        most: how many connections may be open.
        open: all of them.
        silent: those that wait for their client, the one that has waited longest first.
    """

    header_seconds: float
    body_seconds: float
    most: int
    open: set[BoundedConnection] = field(default_factory=set)
    silent: dict[BoundedConnection, None] = field(default_factory=dict)

    def protocol(self, **options: Any) -> BoundedConnection:
        """A new connection, as uvicorn asks for it."""
        return BoundedConnection(self, **options)

    def admit(self, connection: BoundedConnection) -> bool:
        """Add a connection, in the place of a silent one if too many are open; False if there is no room."""
        if len(self.open) >= self.most:
            oldest = next(iter(self.silent), None)
            if oldest is None:
                return False
            self.forget(oldest)
            oldest.transport.abort()
        self.open.add(connection)
        return True

    def forget(self, connection: BoundedConnection) -> None:
        """Remove a connection that is closed."""
        self.open.discard(connection)
        self.silent.pop(connection, None)


class BoundedConnection(HttpToolsProtocol):
    """A connection whose client has limited time.

    Args:
        connections: all connections of the server.
        options: what uvicorn passes.
    """

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._all = connections
        self._deadline: asyncio.TimerHandle | None = None
        self._in_headers, self._header_bytes, self._borders = True, 0, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        if self._all.admit(self):
            self._wait(self._all.header_seconds)
        else:
            self._refuse(503, "too many connections: try again")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._set_deadline(None)
        self._all.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self.transport.is_closing():
            return
        borders = self._borders
        super().data_received(data)
        if not self._in_headers or self.transport.is_closing():
            return
        self._header_bytes = self._header_bytes + len(data) if borders == self._borders else 0
        if self._header_bytes > LARGEST_HEADERS:
            self._refuse(431, f"the headers have more than {LARGEST_HEADERS} bytes")
        elif self._deadline is None and self._answered:
            # Empty lines before a request are not part of any, and would keep the connection open.
            self._wait(self._all.header_seconds)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._reach(in_headers=True)
        if self._answered:
            self._wait(self._all.header_seconds)

    def on_headers_complete(self) -> None:
        """A body may follow."""
        first = self._answered
        super().on_headers_complete()
        self._reach(in_headers=False)
        # A request that follows too early is not read until the one before has its answer.
        if first:
            self._wait(self._all.body_seconds + GRACE_SECONDS)

    def on_message_complete(self) -> None:
        """The request is there: now the client waits for the server, unless it was refused already."""
        super().on_message_complete()
        self._reach(in_headers=True)
        if self._answered:
            self._wait(self._all.header_seconds)
        else:
            self._all.silent.pop(self, None)
            self._set_deadline(None)

    def on_response_complete(self) -> None:
        """The client has its answer, as soon as it reads it."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._close_soon()
        elif self._answered and self._in_headers:
            self._silent()
        elif self._answered:
            # What is left of the body is read, and thrown away.
            self._wait(self._all.body_seconds)

    def timeout_keep_alive_handler(self) -> None:
        """Nothing followed."""
        super().timeout_keep_alive_handler()
        self._close_soon()

    @property
    def _answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _reach(self, *, in_headers: bool) -> None:
        """Note that headers or a body begin with the next byte."""
        self._in_headers, self._header_bytes = in_headers, 0
        self._borders += 1

    def _silent(self) -> None:
        """Note that it is the client's turn, if it was not."""
        if self in self._all.open:
            self._all.silent.setdefault(self)

    def _wait(self, seconds: float) -> None:
        """Wait for the client for so long."""
        self._silent()
        self._set_deadline(seconds)

    def _close_soon(self) -> None:
        """Close the connection, whether the client reads what is left or not."""
        self._set_deadline(self._all.body_seconds)

    def _set_deadline(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None
        if seconds is not None:
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _refuse(self, status: int, reason: str) -> None:
        """Answer what cannot be passed on, and close."""
        body = f'{{"error":"{reason}"}}'
        self.transport.write(
            f"HTTP/1.1 {status} Refused\r\nContent-Type: application/json\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        self.transport.close()
        self._close_soon()
