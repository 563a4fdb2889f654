"""Options of commands: fields of dataclasses and of specs, declared once, with the names that exist."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Annotated, ClassVar

import pytest
import typer
from pydantic import BaseModel, Field
from typer.testing import CliRunner

from rankloop import register
from rankloop.cli import app as rankloop_app
from rankloop.cli import experiments
from rankloop.cli.options import (
    NAMES,
    FieldsOf,
    Given,
    argument,
    expand_options,
    list_names,
    option,
    read_spec,
)
from rankloop.errors import RankloopError
from rankloop.experiments.reproduce.presets import Preset
from rankloop.experiments.spec import RunSpec
from rankloop.loop import EXPLORATIONS, Exploration
from rankloop.option_field import option_field


@dataclass(frozen=True)
class Place:
    """Where something is."""

    city: Annotated[str, argument("CITY", "The city.")]
    street: Annotated[str, option("The street.")] = "Main"


@dataclass(frozen=True)
class House(Place):
    """A place with a number."""

    number: Annotated[int, option("The number.", "--no", min=1)] = 1


found: list[tuple[bool, House, int]] = []


def visit(
    knock: Annotated[bool, option("Knock first.", "--knock")] = False,
    *,
    house: House,
    times: Annotated[int, option("How often.")] = 2,
) -> None:
    """Visit a house."""
    found.append((knock, house, times))


visits = typer.Typer()
visits.command()(expand_options(visit))


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
    assert CliRunner().invoke(visits, words).exit_code == 0
    assert found == [expected]


def test_users_see_the_options_of_a_group() -> None:
    runner = CliRunner()
    text = runner.invoke(visits, ["--help"]).output
    assert "Visit a house." in text
    places = [text.index(option) for option in ("--knock", "--street", "--no", "--times")]
    assert places == sorted(places)
    assert "house" not in text.replace("Visit a house.", "")
    assert runner.invoke(visits, []).exit_code == 2
    assert runner.invoke(visits, ["Paris", "--no", "0"]).exit_code == 2


class Small(BaseModel):
    data: str = option_field("some data", "The data.")
    size: int = option_field(3, "How large.", panel="Sizes", ge=2)
    times: int | tuple[int, ...] = option_field(0, "When.", shown_default="it depends")
    flag: bool = option_field(True, "Whether.")
    needed: str = option_field(..., "What is needed.")
    internal: int = Field(default=7, description="Not an option.")


def app() -> tuple[typer.Typer, list[Given]]:
    seen: list[Given] = []
    small = typer.Typer(add_completion=False, rich_markup_mode="rich")

    @small.command()
    @expand_options
    def command(
        given: Annotated[Given, FieldsOf(Small, defaults={"size": 5})],
        out: Annotated[str, option("Where.")] = "here",
    ) -> None:
        """Do it."""
        seen.append({**given, "out": out})

    return small, seen


def test_fields_become_options_and_their_values_are_given() -> None:
    small, seen = app()
    arguments = ["mine", "--size", "9", "--times", "1,2", "--no-flag", "--needed", "x", "--out", "there"]
    assert CliRunner().invoke(small, arguments).exit_code == 0
    assert seen == [{"data": "mine", "size": 9, "times": "1,2", "flag": False, "needed": "x", "out": "there"}]


def test_what_is_not_given_is_left_to_the_spec_unless_the_command_has_a_default() -> None:
    small, seen = app()
    assert CliRunner().invoke(small, []).exit_code == 0
    assert seen == [{"data": "some data", "size": 5, "flag": True, "out": "here"}]


def test_help_has_descriptions_defaults_limits_and_panels() -> None:
    small, _ = app()
    text = CliRunner().invoke(small, ["--help"], env={"COLUMNS": "100", "NO_COLOR": "1"}).output
    for part in ("How large.", "[default: 5]", "x>=2", "Sizes", "[default: it depends]", "--no-flag"):
        assert part in text
    assert "Not an option" not in text
    assert CliRunner().invoke(small, ["--size", "1"]).exit_code == 2


def test_a_wrong_value_names_its_option() -> None:
    with pytest.raises(RankloopError, match="--size: Input should be greater than or equal to 2, got 1"):
        read_spec(Small, {"size": 1, "needed": "x"})
    with pytest.raises(RankloopError, match="--production-queries: "):
        read_spec(RunSpec, {"production_queries": 0})


def test_every_field_of_a_run_is_an_option_of_run() -> None:
    assert set(RunSpec.model_fields) <= set(signature(experiments.run).parameters)
    chosen = {"data", "runs", "horizon", "times", "relevance"}
    chosen |= {"learning", "supervision", "temperature", "fold"}
    assert chosen == set(Preset.model_fields) & set(signature(experiments.reproduce).parameters)
    for name in ("data", "horizon", "fold", "seed"):
        default = signature(experiments.demo).parameters[name].default
        assert (
            default
            == signature(experiments.run).parameters[name].default
            == RunSpec.model_fields[name].default
        )


def test_a_command_gets_the_model_itself_if_it_asks_for_it() -> None:
    seen: list[Small] = []
    small = typer.Typer()

    @small.command()
    @expand_options
    def command(spec: Annotated[Small, FieldsOf(Small, without=("flag",))]) -> None:
        seen.append(spec)

    assert CliRunner().invoke(small, ["--needed", "x"]).exit_code == 0
    assert seen == [Small(needed="x")]
    assert CliRunner().invoke(small, ["--needed", "x", "--flag"]).exit_code == 2


@pytest.mark.parametrize("name", NAMES)
def test_help_can_list_every_kind_of_name(name: str) -> None:
    listed = list_names(f"There are {{{name}}}.")
    assert " or " in listed
    assert "{" not in listed


def run_help() -> str:
    return CliRunner().invoke(rankloop_app, ["run", "--help"], env={"COLUMNS": "100"}).output


def test_a_new_name_is_in_the_help() -> None:
    name = "never-explores"
    assert name not in run_help()

    @register
    @dataclass(frozen=True)
    class Never(Exploration):
        """No exploration."""

        name: ClassVar[str] = "never-explores"

    try:
        assert name in run_help()
    finally:
        del EXPLORATIONS._classes[name]
