"""Without its extras, rankloop works, and what needs one says in one line what to install."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

import rankloop
from rankloop.clicks import gather_log, users
from rankloop.extras import EXTRAS, MissingExtraError, load, require
from rankloop.logs import PolicyTraffic, write_simulated
from rankloop.models import Linear
from tests.cli.commands import Outcome

ROOT = Path(__file__).parents[1]
# What a package is called where it is installed from, if not by its module.
DISTRIBUTIONS = {"ibis": "ibis-framework", "prometheus_client": "prometheus-client"}
# Makes packages look as if they were not installed.
BLOCK = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
"""
RUN_COMMANDS = """
import contextlib, io, json
import rankloop.cli
found = {}
for command in COMMANDS:
    sys.argv = ["rankloop", *command.split()]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            rankloop.cli.main()
        except SystemExit as left:
            code = left.code or 0
    found[command] = code, out.getvalue(), err.getvalue()
print(json.dumps(found))
"""
# Commands that need an extra, with the extras that they name if none is installed.
ON_LOGS = ("check log", "bias log", "relevance log", "rank policy log", "evaluate log --policy a --against b")
IMPORTS = ("import columns a.csv", "import ubi a b", "import metarank a")
NEEDED = {
    **dict.fromkeys((*ON_LOGS, *IMPORTS, "fit log --model mlp"), "logs"),
    **dict.fromkeys(("fit log", "pipeline log"), "logs,trees"),
    **dict.fromkeys(("serve store", "learn store", "key store web"), "live"),
    "reproduce": "logs,reports",
    "train synthetic(queries=20,features=3) --model lightgbm": "trees",
    "export linear.rankloop --to onnx": "export",
}
RUN = "run synthetic(queries=40,features=3) --horizon 400 --interventions 1 -o run"


def run_without(blocked: set[str], program: str, cwd: Path) -> str:
    """The standard output of a program that cannot import some packages."""
    code = f"BLOCKED = {sorted(blocked)!r}{BLOCK}{program}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def outcomes(blocked: set[str], commands: Iterable[str], cwd: Path) -> dict[str, Outcome]:
    """What each command of the command line leaves behind, all run in one process."""
    found = json.loads(run_without(blocked, f"COMMANDS = {[*commands]!r}{RUN_COMMANDS}", cwd))
    return {command: Outcome(*left) for command, left in found.items()}


def packages(*extras: str) -> set[str]:
    """The packages of some extras, or of all."""
    return {package for extra in extras or EXTRAS for package in EXTRAS[extra]}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    rankloop.save(Linear.initialise(3, np.random.default_rng(0)), tmp_path / "linear.rankloop")
    return tmp_path


def test_the_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    offered = project["optional-dependencies"]
    assert set(offered) == {*EXTRAS, "all"}
    assert Requirement(offered["all"][0]).extras == set(EXTRAS)
    for extra, modules in EXTRAS.items():
        installed = {Requirement(line).name for line in offered[extra]}
        # pyspark comes with the extra of ibis that is made for it.
        wanted = {DISTRIBUTIONS.get(name, name) for name in modules} - {"pyspark"}
        assert wanted <= installed
        assert wanted.isdisjoint(Requirement(line).name for line in project["dependencies"])


IMPORT_ALL = """
import importlib, pkgutil
import rankloop
from rankloop.extras import EXTRAS, MissingExtraError
known = {package for packages in EXTRAS.values() for package in packages}
for found in pkgutil.walk_packages(rankloop.__path__, "rankloop."):
    try:
        importlib.import_module(found.name)
    except ImportError as error:
        assert error.name.partition(".")[0] in known, error
        print("module", found.name)
for name in rankloop.__all__:
    try:
        getattr(rankloop, name)
    except MissingExtraError as error:
        print("name", name, error)
"""


def test_without_extras_every_module_loads_or_misses_an_extra(tmp_path: Path) -> None:
    lines = run_without(packages(), IMPORT_ALL, tmp_path).splitlines()
    modules = [line.removeprefix("module ") for line in lines if line.startswith("module ")]
    parts = ("rankloop.logs.", "rankloop.offline.", "rankloop.live.", "rankloop.experiments.reproduce.")
    assert {name for name in modules if not name.startswith((*parts, "rankloop.reports."))} == set()
    names = [line.split(" ", 2) for line in lines if line.startswith("name ")]
    assert {"open_log", "fit", "import_columns"} <= {name for _, name, _ in names}
    for _, _, message in names:
        assert re.fullmatch(r'the package \w+ is not installed: pip install "rankloop\[logs\]"', message)


CORE = """
import numpy as np
import rankloop
from rankloop.clicks import users
from rankloop.cli import app
from rankloop.cli.reference import commands
from typer.testing import CliRunner
data = rankloop.synthetic(queries=40, features=3)
trained = rankloop.train(data, "mlp", settings=rankloop.Settings(epochs=1)).model
start = rankloop.models.Linear.initialise(data.n_features, np.random.default_rng(0))
people = rankloop.SimulatedUsers.of(data, "paper@5")
loop = rankloop.Loop(data, people, start, horizon=400, interventions=(200,))
assert [type(event).__name__ for event in loop.run()].count("Deployed") == 1
for name in commands(app)[::5]:
    assert "Usage" in CliRunner().invoke(app, [*name.split()[1:], "--help"]).output
"""


def test_without_extras_training_the_loop_and_all_help_texts_work(tmp_path: Path) -> None:
    assert run_without(packages(), CORE, tmp_path) == ""


def test_without_extras_a_run_writes_its_page_without_figures(tmp_path: Path) -> None:
    (left,) = outcomes(packages(), [RUN], tmp_path).values()
    assert left.code == 0, left.err
    assert "wrote run/report.html" in left.out
    assert left.err.splitlines()[-1].endswith('pip install "rankloop[reports]"')
    assert "This figure is left out" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_a_command_names_all_missing_extras_in_one_line(model: Path) -> None:
    for command, left in outcomes(packages(), NEEDED, model).items():
        assert_one_line(command, left, NEEDED[command])


@pytest.mark.parametrize("extra", ["logs", "trees", "reports", "live", "export"])
def test_one_missing_extra_is_named_alone(extra: str, model: Path) -> None:
    commands = [command for command, extras in NEEDED.items() if extra in extras.split(",")]
    for command, left in outcomes(packages(extra), commands[:2], model).items():
        assert_one_line(command, left, extra)


def test_spark_and_ray_are_asked_for_before_any_work(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    split = rankloop.synthetic(queries=40, features=3).train
    scores = np.zeros(split.n_documents)
    clicks = gather_log(scores, split.offsets, split.labels / 4, users("paper@5"), 20, rng)
    write_simulated(tmp_path / "log", split, [PolicyTraffic("old", scores, clicks)])
    commands = {"check log --engine spark": "spark", "reproduce --engine ray": "ray"}
    for command, left in outcomes(packages("spark", "ray"), commands, tmp_path).items():
        assert_one_line(command, left, commands[command])
    assert not (tmp_path / "rankloop-paper").exists()


def assert_one_line(command: str, left: Outcome, extras: str) -> None:
    assert (left.code, left.out) == (2, ""), (command, left)
    install = re.escape(f'pip install "rankloop[{extras}]"')
    line = rf"rankloop: the packages? [\w, ]+ (is|are) not installed: {install}\n"
    assert re.fullmatch(line, left.err), (command, left)


def test_a_missing_package_of_no_extra_is_not_explained() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        load("no_such_package")


def test_errors_of_extras_are_import_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"rankloop\[torch\]") as caught:
        load("torch")
    assert isinstance(caught.value, ImportError)
    assert isinstance(caught.value, rankloop.RankloopError)
    with pytest.raises(MissingExtraError, match=r"rankloop\[torch\]"):
        require("torch")


def test_threads_of_lightgbm_wait_without_spinning_from_python_too():
    """What the user has set stays."""
    command = "import os, rankloop.extras as e; e.load('lightgbm'); print(os.environ['OMP_WAIT_POLICY'])"
    outside = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    for given, expected in (({}, "passive"), ({"OMP_WAIT_POLICY": "active"}, "active")):
        done = subprocess.run(
            [sys.executable, "-c", command], env=outside | given, check=True, capture_output=True, text=True
        )
        assert done.stdout.strip() == expected
