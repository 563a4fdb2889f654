"""The reference of the command line is what `--help` prints."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from rankloop.cli import app
from rankloop.cli.configuration import update_table
from rankloop.cli.reference import commands, main, update_page
from rankloop.errors import RankloopError
from tests.conftest import ROOT

PAGE = ROOT / "docs" / "cli.md"


def small_app() -> typer.Typer:
    """An app with a command and a group."""
    small, group = typer.Typer(add_completion=False), typer.Typer()

    @small.command()
    def first() -> None:
        """Do the first thing."""

    @group.command()
    def inner() -> None:
        """Do the inner thing."""

    small.add_typer(group, name="group")
    return small


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert update_page(app, page) == page, "docs/cli.md is out of date: run make docs-cli"


def test_the_table_of_settings_is_up_to_date() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert update_table(app, page) == page, "docs/settings.md is out of date: run make docs-cli"


def test_all_commands_are_found() -> None:
    assert commands(small_app()) == ["rankloop", "rankloop first", "rankloop group", "rankloop group inner"]
    assert {"rankloop run", "rankloop import", "rankloop import ubi"} <= set(commands(app))


def test_prose_is_kept_and_missing_commands_are_added() -> None:
    page = "# A title\n\n<!-- rankloop first --help -->\n\n```text\nold\n```\n\nProse.\n"
    updated = update_page(small_app(), page)
    assert updated.startswith(
        "# A title\n\n<!-- rankloop first --help -->\n\n```text\n Usage: rankloop first"
    )
    assert "old" not in updated
    assert "Prose." in updated
    assert "## rankloop group inner\n\n<!-- rankloop group inner --help -->\n\n```text\n Usage:" in updated
    assert update_page(small_app(), updated) == updated


def test_a_command_that_is_gone_is_reported() -> None:
    with pytest.raises(RankloopError, match="there is no command 'rankloop gone'"):
        update_page(small_app(), "<!-- rankloop gone --help -->\n")


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("# Commands\n")
    main([str(path)])
    assert "## rankloop run\n" in path.read_text()
