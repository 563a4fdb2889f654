"""The pictures of docs/gallery.md, drawn by the functions that draw reports.

    python -m experiments.gallery docs/figures

A small shop is simulated; its log is checked, its bias estimated, and a ranker fitted and compared with
production, in about half a minute.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import rankloop
from rankloop.clicks import gather_log, users
from rankloop.reports.bias import bias_document
from rankloop.reports.check import check_document
from rankloop.reports.document import Document, Figure, Figures, Section
from rankloop.reports.evaluation import evaluation_document

# A figure of a page has no colour of its own for ink, and no paper.
STYLE = "color: #1c2024; background: #ffffff; font-family: sans-serif"
OPENING = f'<svg xmlns="http://www.w3.org/2000/svg" style="{STYLE}" '


def figures(part: object) -> Iterator[Figure]:
    """All figures of a document, in its order."""
    if isinstance(part, Figure):
        yield part
    elif isinstance(part, Document | Section | Figures):
        for inner in part.figures if isinstance(part, Figures) else part.blocks:
            yield from figures(inner)


def documents(folder: Path) -> Iterator[tuple[str, Document, str]]:
    """The names of the pictures, their reports, and the beginnings of their captions there."""
    shop = rankloop.synthetic(queries=200, features=20, seed=1).train
    scores = 2.0 * shop.features[:, 0].astype(float)
    rng = np.random.default_rng(0)
    clicks = gather_log(scores, shop.offsets, shop.labels / 4, users("paper@5"), 10_000, rng)
    traffic = [rankloop.logs.PolicyTraffic("production", scores, clicks)]
    log = rankloop.open_log(rankloop.logs.write_simulated(folder / "log", shop, traffic))
    yield "clicks", check_document(log.check()), "Clicks per display"
    bias = log.estimate_bias()
    yield "bias", bias_document(bias), ""
    fit = log.fit("lightgbm", bias=bias)
    yield "decision", evaluation_document(log.evaluate(fit, against="production")), "The new policy"


def main(out: Path) -> None:
    """Draw one picture of each report."""
    with tempfile.TemporaryDirectory() as folder:
        for name, document, caption in documents(Path(folder)):
            found = list(figures(document))
            drawn = next((each for each in found if each.caption.startswith(caption)), found[0]).draw()
            path = out / f"gallery-{name}.svg"
            path.write_text(drawn.replace("<svg ", OPENING, 1) + "\n", encoding="utf-8")
            print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
