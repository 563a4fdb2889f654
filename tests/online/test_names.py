from __future__ import annotations

import pytest

from rankloop.errors import RankloopError
from rankloop.names import BadNameError
from rankloop.online import COLTR, METHODS, PDGD, BiasedPDGD, method
from tests.checks.registered import built_in


@pytest.mark.parametrize(
    ("text", "value", "canonical"),
    [
        ("pdgd", PDGD(rate=0.01), "pdgd"),
        ("pdgd(rate=0.01)", PDGD(), "pdgd"),
        ("pdgd( rate = 0.1 )", PDGD(rate=0.1), "pdgd(rate=0.1)"),
        ("biased-pdgd", BiasedPDGD(), "biased-pdgd"),
        ("biased-pdgd(rate=1)", BiasedPDGD(rate=1.0), "biased-pdgd(rate=1)"),
        ("coltr", COLTR(candidates=50, rate=0.05, reach=1.0, variance=1.0), "coltr"),
        ("coltr(candidates=50)", COLTR(), "coltr"),
        ("coltr(variance=0, candidates=499)", COLTR(499, variance=0.0), "coltr(candidates=499, variance=0)"),
    ],
)
def test_names_are_parsed(text, value, canonical):
    assert method(text) == value
    assert str(method(text)) == canonical
    assert type(method(canonical)) is type(value)


def test_the_defaults_are_the_papers():
    assert {str(method(name)) for name in built_in(METHODS)} == {"pdgd", "biased-pdgd", "coltr"}
    assert (PDGD().rate, BiasedPDGD().rate) == (0.01, 0.01)
    assert (COLTR().candidates, COLTR().rate, COLTR().reach, COLTR().variance) == (50, 0.05, 1.0, 1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pgdg", "unknown online method 'pgdg', did you mean 'pdgd'"),
        ("pdgd@5", "takes no cut-off"),
        ("pdgd(candidates=5)", "unknown option of 'pdgd' 'candidates'"),
        ("pdgd(rate=fast)", "expected a number"),
        ("pdgd(rate=0)", "pdgd: rate must be positive and finite"),
        ("biased-pdgd(rate=-1)", "biased-pdgd: rate must be positive"),
        ("coltr(candidates=2.5)", "expected a whole number"),
        ("coltr(candidates=0)", "coltr: candidates must be an integer of at least 1"),
        ("coltr(rate", "expected '='"),
        ("", "expected a name"),
    ],
)
def test_invalid_names(text, message):
    with pytest.raises(RankloopError, match=message):
        method(text)
    if "must be" not in message:
        with pytest.raises(BadNameError):
            method(text)
