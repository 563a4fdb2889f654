"""The reference of the command line has every command and option."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer

from rankloop.cli import app
from rankloop.cli.configuration import update_table
from rankloop.cli.reference import _walk, commands, main, update_page
from rankloop.errors import RankloopError
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "cli.md"


def small_app() -> typer.Typer:
    """An app with a command and a group."""
    small, group = typer.Typer(add_completion=False), typer.Typer()

    @small.command()
    def first(
        seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
        size: Annotated[int, typer.Option("--size", "-s", help="How large.", rich_help_panel="Sizes")] = 3,
    ) -> None:
        """Do the first thing."""

    @group.command()
    def inner(seed: Annotated[int, typer.Option(help="Random seed.")] = 0) -> None:
        """Do the inner thing."""

    @group.command()
    def other(
        path: str,
        seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
        hide: Annotated[bool, typer.Option(hidden=True)] = False,
    ) -> None:
        """Do the other thing."""

    small.add_typer(group, name="group")
    return small


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert update_page(app, page) == page, "docs/cli.md is out of date: run make docs-cli"


def test_the_table_of_settings_is_up_to_date() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert update_table(app, page) == page, "docs/settings.md is out of date: run make docs-cli"


def test_all_commands_are_found() -> None:
    assert commands(small_app()) == [
        "rankloop",
        "rankloop first",
        "rankloop group",
        "rankloop group inner",
        "rankloop group other",
    ]
    assert {"rankloop run", "rankloop import", "rankloop import ubi"} <= set(commands(app))


def test_prose_is_kept_and_missing_commands_are_added() -> None:
    page = "# A title\n\n<!-- rankloop first --help -->\n\nold\n\n<!-- end of options -->\n\nProse.\n"
    updated = update_page(small_app(), page)
    assert updated.startswith(
        "# A title\n\n<!-- rankloop first --help -->\n\n`rankloop first`\n\nDo the first thing.\n"
    )
    assert "old" not in updated
    assert "Prose." in updated
    assert (
        "## rankloop group inner\n\n<!-- rankloop group inner --help -->\n\n`rankloop group inner`" in updated
    )
    assert update_page(small_app(), updated) == updated


def test_options_that_commands_share_are_described_once() -> None:
    updated = update_page(small_app(), "## Shared options\n\n<!-- rankloop shared options -->\n")
    assert updated.count("Random seed.") == 1
    assert updated.count("[Shared](#shared-options): `--seed`.") == 3
    assert "**Sizes**\n\n- `--size, -s`: How large. [default: 3]" in updated
    assert "`rankloop group other PATH`" in updated
    assert "hide" not in updated


def test_the_page_has_no_other_lists_of_options() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "Show this message and exit" not in page
    assert ">>>>>>>" not in page


def test_every_option_of_every_command_is_on_a_page() -> None:
    pages = PAGE.read_text(encoding="utf-8") + (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    for name, command in _walk(app).items():
        for parameter in command.params:
            if not getattr(parameter, "hidden", False):
                assert max(parameter.opts, key=len).upper() in pages.upper(), f"{name}: {parameter.opts}"


def test_a_command_that_is_gone_is_reported() -> None:
    with pytest.raises(RankloopError, match="there is no command 'rankloop gone'"):
        update_page(small_app(), "<!-- rankloop gone --help -->\n")


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("# Commands\n")
    main([str(path)])
    assert "## rankloop run\n" in path.read_text()
