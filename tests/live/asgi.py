"""Requests to the application without a network: thousands in seconds."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette

Headers = tuple[tuple[bytes, bytes], ...]
HEADERS = ((b"host", b"localhost:80"), (b"content-type", b"application/json"))


async def send(
    app: Starlette,
    method: str,
    path: str,
    body: bytes = b"",
    headers: tuple[tuple[bytes, bytes], ...] = HEADERS,
    peer: str = "127.0.0.1",
) -> tuple[int, bytes]:
    """Send one request and return the status and the body of the answer."""
    parts: list[dict[str, Any]] = []
    where, _, query = path.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": where,
        "raw_path": where.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": list(headers),
        "client": (peer, 1),
        "server": ("127.0.0.1", 80),
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def collect(message: Any) -> None:
        parts.append(message)

    await app(scope, receive, collect)
    return parts[0]["status"], b"".join(part.get("body", b"") for part in parts[1:])
