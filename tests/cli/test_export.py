"""`rankloop export`: what it writes, prints and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rankloop
from rankloop.models import MLP, Linear
from tests.cli.commands import Run


@pytest.fixture
def linear(tmp_path: Path) -> Path:
    model = Linear(2, np.array([1.0, 2.0, 3.0], np.float32), feature_names=("price", "age"))
    return rankloop.save(model, tmp_path / "my shop.rankloop")


def test_export_writes_the_model_and_its_features(run: Run, linear: Path) -> None:
    code, out, err = run(
        "export", str(linear), "--to", "opensearch", "-o", "out/model.json", "--name", "shop"
    )
    assert code == 0
    assert out.splitlines() == ["wrote out/model.json", "wrote out/model.features.json"]
    assert "note: The intercept is left out" in err
    assert json.loads(Path("out/model.json").read_text())["model"]["name"] == "shop"
    assert json.loads(Path("out/model.features.json").read_text())["featureset"]["name"] == "shop"
    # The file that was written is a policy again.
    code, _, _ = run("export", "out/model.json", "--to", "solr", "-o", "solr.json")
    assert code == 0


def test_names_are_taken_from_the_policy(run: Run, linear: Path) -> None:
    code, out, _ = run("export", str(linear), "--to", "solr", "--json")
    assert code == 0
    result = json.loads(out)
    assert (result["format"], result["files"]) == ("solr", ["my_shop.json", "my_shop.features.json"])
    assert json.loads(Path("my_shop.json").read_text())["name"] == "my_shop"


def test_what_cannot_be_exported_is_refused_in_one_line(run: Run, linear: Path, tmp_path: Path) -> None:
    network = rankloop.save(MLP.initialise(2, np.random.default_rng(0)), tmp_path / "network")
    before = sorted(path.name for path in tmp_path.iterdir())
    for policy, to, message in (
        (network, "opensearch", "opensearch cannot express this policy (mlp): the plug-in supports only"),
        (network, "lucene", "unknown export format 'lucene'"),
        (linear, "opensearch(format=xml)", "xml"),
        (tmp_path / "nowhere", "solr", "cannot read the model"),
    ):
        code, _, err = run("export", str(policy), "--to", to)
        assert code == 2
        assert err.startswith("rankloop: ")
        assert message in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_model_for_an_engine_is_trained_on_features_as_they_are(run: Run, tmp_path: Path) -> None:
    """Before: every file was scaled query by query, and a model did not know it."""
    lines = [
        f"{document % 3} qid:{query} 1:{document} 2:{query * document}"
        for query in range(9)
        for document in range(1, 5)
    ]
    (tmp_path / "data.txt").write_text("\n".join(lines) + "\n")
    common = ("train", "data.txt", "--model", "linear", "--epochs", "1")
    assert run(*common, "-o", "scaled")[0] == 0
    assert run(*common, "-o", "raw", "--normalise", "none")[0] == 0
    code, _, err = run("export", "scaled", "--to", "solr")
    assert code == 2
    assert "train it on the features as they are, with --normalise none" in " ".join(err.split())
    assert run("export", "raw", "--to", "solr")[0] == 0
    # `measure` scales the data as the model's training did.
    raw = rankloop.dataset("data.txt", normalise=None).test
    expected = rankloop.ranking_metrics(rankloop.load("raw").scores(raw.features), raw, ["ndcg@5"])
    assert json.loads(run("measure", "raw", "data.txt", "--json").out)["ranking"] == expected
    assert run(*common, "--normalise", "all")[0] == 2
