"""What a running service tells its operator: one line per event on standard error, as text or JSON.

Each line has a time, a level and, while a request is answered, the id of the request. Clients may choose it,
and are told it, in the header ``X-Request-ID``.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from rankloop.live.settings import OutputSettings

LOGGER = logging.getLogger("rankloop.live")
REQUEST_HEADER = "X-Request-ID"
# The id of the request that is being answered; empty between requests.
REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
# Ids of clients that fit on a line and into a header.
SAFE_ID = re.compile(r"[\w.:/+=@-]{1,128}", re.ASCII)


def request_id(given: str | None) -> str:
    r"""The id of a request: what the client calls it, or a new one.

    >>> request_id("checkout-7"), len(request_id("two\nlines"))
    ('checkout-7', 16)
    """
    return given if given is not None and SAFE_ID.fullmatch(given) else secrets.token_hex(8)


def configure_logging(settings: OutputSettings) -> None:
    """Send what this process says to standard error, in the form and from the level that are set."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    LOGGER.setLevel(settings.log_level.upper())


class LineFormatter(logging.Formatter):
    """One line of text: time, level, the id of the request if there is one, and the message.

    Example:
        >>> record = logging.LogRecord("rankloop.live", logging.INFO, "", 0, "sealed part %d", (7,), None)
        >>> record.created = 0.25
        >>> LineFormatter().format(record)
        '1970-01-01T00:00:00.250Z INFO sealed part 7'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line; a traceback follows on lines of its own."""
        request = REQUEST_ID.get()
        name = f"[{request}] " if request else ""
        # A message with text of a client stays on its line.
        message = record.getMessage().replace("\r", "\\r").replace("\n", "\\n")
        trace = "" if record.exc_info is None else "\n" + self.formatException(record.exc_info)
        return f"{_time(record)} {record.levelname} {name}{message}{trace}"


class JsonFormatter(logging.Formatter):
    """One JSON object per line: ``time``, ``level``, ``logger``, ``request``, ``message``, ``exception``.

    Example:
        >>> record = logging.LogRecord("rankloop.live", logging.INFO, "", 0, "sealed", (), None)
        >>> record.created = 0.25
        >>> json.loads(JsonFormatter().format(record))["time"]
        '1970-01-01T00:00:00.250Z'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The object, without fields that are empty; more fields come with `extra={"fields": …}`."""
        content: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "request": REQUEST_ID.get(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
            "exception": "" if record.exc_info is None else self.formatException(record.exc_info),
        }
        return json.dumps({name: value for name, value in content.items() if value != ""})


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
