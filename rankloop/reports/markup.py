"""HTML by small functions: text is escaped unless it is known to be markup."""

from __future__ import annotations

from html import escape


class Html(str):
    """Markup, as opposed to text that somebody wrote."""

    __slots__ = ()


def markup(value: object) -> Html:
    """Markup as it is; anything else escaped.

    >>> markup("a < b"), markup(Html("<b>a</b>"))
    ('a &lt; b', '<b>a</b>')
    """
    return value if isinstance(value, Html) else Html(escape(str(value)))


def joined(*parts: object) -> Html:
    """Join parts, each on its own line."""
    return Html("\n".join(markup(part) for part in parts))


def element(tag: str, *children: object, **attributes: str) -> Html:
    """Make an element; ``_`` means ``-`` in attribute names, and is appended to Python keywords.

    >>> element("p", "1 < 2, ", element("b", "so"), class_="note")
    '<p class="note">1 &lt; 2, <b>so</b></p>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items()
    )
    return Html(f"<{tag}{written}>{''.join(markup(child) for child in children)}</{tag}>")
