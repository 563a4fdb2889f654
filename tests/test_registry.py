"""A class becomes available by its name, and everything else is refused with a reason."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest

import rankloop
from rankloop import registry
from rankloop.clicks import RELEVANCES, USERS
from rankloop.data.by_name import GENERATED_DATA
from rankloop.errors import RankloopError
from rankloop.estimators import ESTIMATORS, Naive
from rankloop.evaluation import METRICS
from rankloop.evidence import EVIDENCE
from rankloop.loop import EXPLORATIONS
from rankloop.models.optimisers import OPTIMISERS
from rankloop.models.specs import MODELS
from rankloop.names import REQUIRED, BadNameError, options_of
from rankloop.online import METHODS
from rankloop.registry import Named, Registry, name_of, register

ROOT = Path(__file__).parents[1]
ALL = [
    ESTIMATORS,
    EVIDENCE,
    EXPLORATIONS,
    GENERATED_DATA,
    METHODS,
    METRICS,
    MODELS,
    OPTIMISERS,
    RELEVANCES,
    USERS,
]


class Shape(Named):
    """What is registered here."""


@dataclass(frozen=True)
class Circle(Shape):
    """Round."""

    name: ClassVar[str] = "circle"
    radius: float = 1.0


@dataclass(frozen=True)
class Polygon(Shape):
    """Has corners.

    Any number of them.
    """

    name: ClassVar[str] = "polygon"
    cutoff: int
    sides: tuple[float, ...]
    filled: bool = False


@dataclass(frozen=True)
class Grid(Shape):
    name: ClassVar[str] = "grid"
    cutoff: int | None = None


@pytest.fixture
def shapes() -> Iterator[Registry[Shape]]:
    made = Registry[Shape]("shape", Shape)
    for cls in (Circle, Polygon, Grid):
        register(cls)
    yield made
    registry._registries.remove(made)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("circle", Circle()),
        ("circle(radius=2.5)", Circle(2.5)),
        ("polygon@3(sides=3:4:5)", Polygon(3, (3.0, 4.0, 5.0))),
        ("polygon@4(filled=on, sides=1)", Polygon(4, (1.0,), filled=True)),
        ("grid", Grid()),
        ("grid@7", Grid(7)),
    ],
)
def test_names_are_values(shapes: Registry[Shape], text: str, value: Shape) -> None:
    assert shapes.parse(text) == value
    assert str(value) == text


def test_every_option_can_be_written(shapes: Registry[Shape]) -> None:
    assert name_of(Circle(), every_option=True) == "circle(radius=1)"
    whole = name_of(Polygon(3, (1.0, 2.0)), every_option=True)
    assert whole == "polygon@3(filled=off, sides=1:2)"
    assert shapes.parse(whole) == Polygon(3, (1.0, 2.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cirle", r"unknown shape 'cirle', did you mean 'circle'\? There are: circle, grid, polygon"),
        ("circle(radios=2)", r"unknown option of 'circle' 'radios', did you mean 'radius'\?"),
        ("circle(cutoff=2)", "unknown option of 'circle' 'cutoff'"),
        ("circle(name=x)", "unknown option of 'circle' 'name'"),
        ("circle(radius=x)", r"option 'radius' of 'circle\(radius=x\)': expected a number, got 'x'"),
        ("circle@3", "'circle' takes no cut-off, got 'circle@3'"),
        ("polygon(sides=1)", "'polygon' needs a cut-off: polygon@5, for instance"),
        ("polygon@3", r"'polygon@3' needs a value for sides: polygon\(sides=…\)"),
        ("circle(", "cannot read 'circle\\('"),
    ],
)
def test_names_that_do_not_fit_are_refused(shapes: Registry[Shape], text: str, message: str) -> None:
    with pytest.raises(BadNameError, match=f"^{message}"):
        shapes.parse(text)


def test_a_registry_is_a_mapping_and_a_table(shapes: Registry[Shape]) -> None:
    assert shapes.names == ("circle", "grid", "polygon")
    assert dict(shapes) == {"circle": Circle, "grid": Grid, "polygon": Polygon}
    assert len(shapes) == 3
    with pytest.raises(KeyError):
        shapes["square"]
    assert [tuple(entry)[:2] for entry in shapes.table()] == [
        ("circle", ("radius",)),
        ("grid[@K]", ()),
        ("polygon@K", ("sides", "filled")),
    ]
    assert shapes.table()[2].summary == "Has corners."


def _class(decorate: Any, bases: tuple[type, ...], **body: Any) -> type:
    return decorate(type("Made", bases, body))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("decorate", "bases", "body", "message"),
    [
        (
            dataclass(frozen=True),
            (),
            {"name": "made"},
            "has no base class that says what it is",
        ),
        (dataclass, (Shape,), {"name": "made"}, "shape Made: it must be a frozen dataclass"),
        (lambda cls: cls, (Shape,), {"name": "made"}, "it must be a frozen dataclass"),
        (lambda cls: cls, (Circle,), {"name": "made"}, "it must be a frozen dataclass"),
        (dataclass(frozen=True), (Shape,), {}, "shape Made: it needs a name"),
        (dataclass(frozen=True), (Shape,), {"name": "two words"}, "cannot be written as a name"),
        (dataclass(frozen=True), (Shape,), {"name": "circle"}, "the name 'circle' is taken by .*Circle"),
        (
            dataclass(frozen=True),
            (Shape,),
            {"name": "made", "__annotations__": {"sizes": dict}},
            "field 'sizes' of Made: .* cannot be read from a name",
        ),
    ],
)
def test_classes_that_cannot_have_a_name_are_refused(
    shapes: Registry[Shape], decorate: Any, bases: tuple[type, ...], body: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadNameError, match=message):
        register(_class(decorate, bases, **body))
    assert shapes.names == ("circle", "grid", "polygon")


def test_a_class_of_another_kind_is_refused(shapes: Registry[Shape]) -> None:
    with pytest.raises(BadNameError, match="shape Naive: it must derive from Shape"):
        shapes.register(Naive)


def test_the_same_class_may_be_registered_again(shapes: Registry[Shape]) -> None:
    again = _class(dataclass(frozen=True), (Shape,), name="again")
    other = _class(dataclass(frozen=True), (Shape,), name="again")  # as a cell that runs twice makes it
    register(again)
    assert register(other) is other
    assert shapes["again"] is other


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.kind)
def test_everything_has_a_summary_and_names_that_read_back(kind: Registry[Any]) -> None:
    for entry, cls in zip(kind.table(), [kind[name] for name in kind.names], strict=True):
        assert entry.summary.endswith((".", ":")), entry
        assert all(option != "cutoff" for option in entry.options)
        if all(option.default is not REQUIRED for option in options_of(cls).values()):
            assert kind.parse(cls.name) == cls()
            assert kind.parse(name_of(cls(), every_option=True)) == cls()


PAGES = {
    "estimators/index.md": ESTIMATORS,
    "evaluation.md": METRICS,
    "clicks.md": USERS,
    "online.md": METHODS,
    "loop.md": EXPLORATIONS,
    "evidence.md": EVIDENCE,
}


@pytest.mark.parametrize("page", PAGES)
def test_the_documentation_lists_every_name(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("|")]
    for name, cls in PAGES[page].items():
        if cls.__module__.startswith("rankloop."):
            assert any(f"`{name}" in row for row in rows), f"{page} has no table row for {name}"


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EntryPoint]:
    """An installed package that registers a shape."""
    (tmp_path / "plugged.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from rankloop.registry import register\n"
        "from tests.test_registry import Shape\n\n"
        "@register\n"
        "@dataclass(frozen=True)\n"
        "class Star(Shape):\n"
        '    name: ClassVar[str] = "star"\n'
        "    rays: int = 5\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    installed = EntryPoint("plugged", "plugged", registry.PLUGINS)
    monkeypatch.setattr(registry, "_installed_plugins", lambda: (installed,))
    yield installed
    sys.modules.pop("plugged", None)
    registry._loaded.discard(installed)


@pytest.mark.usefixtures("plugin")
def test_plugins_are_loaded_when_a_name_is_unknown(shapes: Registry[Shape]) -> None:
    assert shapes.parse("circle") == Circle()
    assert "plugged" not in sys.modules
    assert str(shapes.parse("star(rays=7)")) == "star(rays=7)"
    assert "plugged" in sys.modules


@pytest.mark.usefixtures("plugin")
def test_plugins_are_loaded_when_names_are_listed(shapes: Registry[Shape]) -> None:
    assert "star" in shapes.names


@pytest.mark.usefixtures("plugin")
def test_a_broken_plugin_is_named(shapes: Registry[Shape], tmp_path: Path) -> None:
    (tmp_path / "plugged.py").write_text("import no_such_package\n")
    for _ in range(2):
        with pytest.raises(RankloopError, match=r"plug-in 'plugged' \(plugged\) cannot be imported: Module"):
            shapes.parse("star")
    assert shapes.parse("circle") == Circle()


def test_the_command_line_finds_the_names_of_installed_packages(tmp_path: Path) -> None:
    """A distribution in a folder on the path, as an installed one is: no name of it is known before."""
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "import rankloop\n\n"
        "@rankloop.register\n"
        "@dataclass(frozen=True)\n"
        "class Clicks(rankloop.estimators.Estimator):\n"
        '    name: ClassVar[str] = "just-clicks"\n\n'
        "    def _total(self, statistics, bias):\n"
        "        return statistics.clicks * 1.0\n"
    )
    metadata = tmp_path / "mine-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{registry.PLUGINS}]\nmine = mine\n")
    code = (
        "import sys; from rankloop.experiments.spec import RunSpec; assert 'mine' not in sys.modules; "
        "print(RunSpec(data='synthetic', estimator='just-clicks').estimator)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)},
        cwd=ROOT,
    )
    assert done.stdout.strip() == "just-clicks", done.stderr


def test_register_is_public() -> None:
    assert rankloop.register is register
