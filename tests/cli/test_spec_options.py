"""Options of a command are the fields of its spec."""

from __future__ import annotations

from inspect import signature
from typing import Annotated

import pytest
import typer
from pydantic import BaseModel, Field
from typer.testing import CliRunner

from rankloop.cli import loops, reproduction
from rankloop.cli.spec_options import Given, read_spec, spec_options
from rankloop.errors import RankloopError
from rankloop.experiments.reproduce.presets import Preset
from rankloop.experiments.spec import RunSpec, option_field


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
    @spec_options(Small, defaults={"size": 5})
    def command(given: Given, out: Annotated[str, typer.Option(help="Where.")] = "here") -> None:
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
    assert set(RunSpec.model_fields) <= set(signature(loops.run).parameters)
    chosen = {"data", "runs", "horizon", "relevance", "learning", "supervision", "temperature", "fold"}
    assert chosen == set(Preset.model_fields) & set(signature(reproduction.reproduce).parameters)
    for name in ("data", "horizon", "fold", "seed"):
        default = signature(loops.demo).parameters[name].default
        assert default == signature(loops.run).parameters[name].default == RunSpec.model_fields[name].default
