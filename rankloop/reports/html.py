"""HTML by small functions: text is escaped unless it is known to be markup."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Parts one after the other, each on a line of its own."""
    return Html("\n".join(markup(part) for part in parts))


def element(tag: str, *children: object, **attributes: str) -> Html:
    """An element; a name that Python keeps for itself is written with ``_``, as is ``-`` within names.

    >>> element("p", "1 < 2, ", element("b", "so"), class_="note")
    '<p class="note">1 &lt; 2, <b>so</b></p>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items()
    )
    return Html(f"<{tag}{written}>{''.join(markup(child) for child in children)}</{tag}>")


def table(caption: object, head: Sequence[object], rows: Sequence[Sequence[object]]) -> Html:
    """A table whose first column names its rows; it scrolls by itself where the page is narrow."""
    columns = element("tr", *(element("th", element("span", name), scope="col") for name in head))
    body = joined(
        *(
            element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:]))
            for row in rows
        )
    )
    content = joined(element("caption", caption), element("thead", columns), element("tbody", body))
    return element("div", element("table", content), class_="scroll", tabindex="0", role="group")


def listing(names: Sequence[tuple[object, object]]) -> Html:
    """Names and what they are, as a description list."""
    pairs = [element("div", element("dt", name), element("dd", value)) for name, value in names]
    return element("dl", joined(*pairs))
