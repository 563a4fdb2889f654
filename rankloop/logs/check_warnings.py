"""Warnings about a log: sentences with a code that stays the same from version to version."""

from __future__ import annotations

from typing import Self


class CheckWarning(str):
    """A sentence about a log, and the code of what it warns of.

    Attributes:
        code: what it warns of, for programs; docs/logs.md lists all codes.

    Example:
        >>> warning = CheckWarning.of("no_clicks", "The log has no clicks.")
        >>> warning.code, str(warning)
        ('no_clicks', 'The log has no clicks.')
    """

    __slots__ = ("code",)
    code: str

    @classmethod
    def of(cls, code: str, text: str) -> Self:
        """A warning of a kind."""
        warning = cls(text)
        warning.code = code
        return warning

    def to_dict(self) -> dict[str, str]:
        """The same as a dictionary for JSON."""
        return {"code": self.code, "text": str(self)}
