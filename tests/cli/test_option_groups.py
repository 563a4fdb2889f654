"""Groups of options: a command gets one value, and its users see one option per field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from rankloop.cli.option_groups import expand_groups


@dataclass(frozen=True)
class Place:
    """Where something is."""

    city: Annotated[str, typer.Argument(help="The city.")]
    street: Annotated[str, typer.Option(help="The street.")] = "Main"


@dataclass(frozen=True)
class House(Place):
    """A place with a number."""

    number: Annotated[int, typer.Option("--no", help="The number.", min=1)] = 1


found: list[tuple[bool, House, int]] = []


def visit(
    knock: Annotated[bool, typer.Option("--knock", help="Knock first.")] = False,
    *,
    house: House,
    times: Annotated[int, typer.Option(help="How often.")] = 2,
) -> None:
    """Visit a house."""
    found.append((knock, house, times))


app = typer.Typer()
app.command()(expand_groups(visit))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["Paris"], (False, House("Paris"), 2)),
        (["Paris", "--no", "7", "--times", "3", "--knock"], (True, House("Paris", number=7), 3)),
        (["--street", "Rue", "Paris"], (False, House("Paris", "Rue"), 2)),
    ],
)
def test_a_command_gets_its_group(words: list[str], expected: tuple[bool, House, int]) -> None:
    found.clear()
    assert CliRunner().invoke(app, words).exit_code == 0
    assert found == [expected]


def test_users_see_the_options_of_a_group() -> None:
    runner = CliRunner()
    text = runner.invoke(app, ["--help"]).output
    assert "Visit a house." in text
    places = [text.index(option) for option in ("--knock", "--street", "--no", "--times")]
    assert places == sorted(places)
    assert "house" not in text.replace("Visit a house.", "")
    assert runner.invoke(app, []).exit_code == 2
    assert runner.invoke(app, ["Paris", "--no", "0"]).exit_code == 2
