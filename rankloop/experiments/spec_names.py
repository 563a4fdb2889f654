"""Names in the spec of a run: each is checked, and stored as it is spelt canonically.

Every function imports what it needs, because the command line reads the spec before anything heavy is loaded.
"""

from __future__ import annotations

from typing import Any

from rankloop import names

# How rankers learn from labels: stopped early on other queries, or as in the programs of the paper's authors.
HELD_OUT, AUTHORS = "held-out", "authors"
SUPERVISIONS = (HELD_OUT, AUTHORS)


def check_users(text: str) -> str:
    """The canonical spelling of simulated users."""
    from rankloop.clicks import users

    return str(users(text))


def check_relevance(text: str) -> str:
    """The canonical spelling of a relevance function.

    >>> check_relevance("linear( max_label = 2 )")
    'linear(max_label=2)'
    """
    from rankloop.clicks import relevance

    return str(relevance(text))


def check_learning(text: str) -> str:
    """The name of a learning preset, if there is one of this name.

    >>> check_learning("paper")
    'paper'
    """
    from rankloop.training import LEARNING

    if text not in LEARNING:
        raise names.unknown("learning", text, LEARNING)
    return text


def check_supervision(text: str) -> str:
    """The name of a way to learn from labels, if there is one of this name.

    >>> check_supervision("authors")
    'authors'
    """
    if text not in SUPERVISIONS:
        raise names.unknown("supervision", text, SUPERVISIONS)
    return text


def check_estimator(text: str) -> str:
    """The canonical spelling of an estimator."""
    from rankloop.estimators import estimator

    return str(estimator(text))


def check_exploration(text: str) -> str:
    """The canonical spelling of an exploration, with all its options."""
    from rankloop.loop.exploration import exploration

    return spell_out_options(exploration(text))


def check_objective(text: str) -> str:
    """The canonical spelling of a training objective."""
    from rankloop.objectives import training_objective

    return str(training_objective(text))


def check_evidence(text: str) -> str:
    """The canonical spelling of a rule of evidence, with all its options."""
    from rankloop.evidence import evidence

    return spell_out_options(evidence(text))


def check_method(text: str) -> str:
    """The canonical spelling of an online method."""
    from rankloop.online import method

    return str(method(text))


def check_metric(text: str) -> str:
    """The canonical spelling of a metric."""
    from rankloop.evaluation import metric

    return str(metric(text))


def spell_out_options(value: Any) -> str:
    """A name with all its options: it keeps its meaning when defaults change."""
    from rankloop.registry import name_of

    return name_of(value, every_option=True)
