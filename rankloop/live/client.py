"""A client of the service, in one file that needs nothing but Python: copy it into your own program.

    client = Client("http://127.0.0.1:8017", key="…")
    shown = client.rank("cat", {"a": {"price": 1.0}, "b": {"price": 2.0}})
    client.send_events([{"impression": shown["impression"], "document": "a"}])

A request that gets no answer is sent again with the same id, so that nothing is counted twice.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.parse
import uuid
from collections.abc import Mapping, Sequence
from typing import Any


class ServiceError(Exception):
    """The service refused a request; the message says why.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Client:
    """Sends requests over one connection; use one client per thread.

    Args:
        url: where the service is, such as ``http://127.0.0.1:8017``.
        key: the key to authenticate with, if the service has keys.
        timeout: how long to wait for an answer, in seconds.
        retries: how often a request is sent again if there is no answer or the service is busy.
    """

    def __init__(self, url: str, *, key: str | None = None, timeout: float = 15.0, retries: int = 3) -> None:
        parts = urllib.parse.urlsplit(url if "://" in url else f"http://{url}")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "127.0.0.1", parts.port, timeout=timeout)
        self._base, self._retries = parts.path.rstrip("/"), retries
        self._headers = {"Content-Type": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"

    def rank(
        self, query: str, candidates: Mapping[str, Any] | Sequence[str], **options: Any
    ) -> dict[str, Any]:
        """Ask for a ranking.

        Args:
            query: the query.
            candidates: ids of documents; or a mapping from ids to features, by name or as a list.
            options: ``top``, ``pins``, ``exclude``, ``filters``, ``context``.

        Returns:
            ``impression``, ``ranking``, ``policy`` and ``deployment``.
        """
        given = candidates.items() if isinstance(candidates, Mapping) else ((one, None) for one in candidates)
        listed = [{"id": one, "features": features} for one, features in given]
        # With an id of its own, a request that is sent twice has one answer.
        message = {"id": uuid.uuid4().hex, "query": query, "candidates": listed, **options}
        return self.send("POST", "/rank", message)

    def send_events(self, events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Report events: ``impression``, ``document``, and optionally ``kind``, ``value``, ``time``."""
        known = [{"id": uuid.uuid4().hex, **event} for event in events]
        return self.send("POST", "/events", {"events": known})

    def send(self, method: str, path: str, message: Any = None) -> dict[str, Any]:
        """Send one request and return the answer; bytes are sent as they are, anything else as JSON.

        Raises:
            ServiceError: the service refused it.
            OSError: there was no answer.
        """
        body = (
            message
            if isinstance(message, bytes)
            else b""
            if message is None
            else json.dumps(message).encode()
        )
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                self._connection.request(method, self._base + path, body, self._headers)
                response = self._connection.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if last:
                    raise OSError(f"no answer from the service: {error}") from error
            else:
                if response.status < 400:
                    return json.loads(answer)  # type: ignore[no-any-return]
                if last or response.status not in (429, 503):
                    raise ServiceError(response.status, _reason(answer))
            time.sleep(0.1 * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _reason(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["error"])
    except (ValueError, KeyError, TypeError):
        return answer[:200].decode(errors="replace")
