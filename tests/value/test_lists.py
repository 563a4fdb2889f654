"""Evidence by whole lists: its mean by enumeration of all lists and clicks, with users of any kind."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from experiments.live_evidence import arm_differences
from rankloop.policies import expected_rank_weights, log_probability
from rankloop.statistics.bets import Bets
from rankloop.statistics.counts import ImpressionRows
from rankloop.types import ASSUMED, Bias, BiasEvidence
from rankloop.value import Contribution
from rankloop.value.lists import list_differences, list_ranges, log_ratio_range, prefix_differences

OFFSETS = np.array([0, 4])
SCORES = {"new": [1.0, -1.0, 0.5, 0.0], "old": [0.0, 0.5, 0.0, -2.0], "other": [0.0, 0.0, 0.0, 0.0]}
SHARES = {"new": 0.3, "old": 0.1, "other": 0.6}


def clicks_of(shown: tuple[int, ...]) -> float:
    """The expected clicks on a list: these users click less below a good document, and know duplicates."""
    liked = np.array([0.9, 0.1, 0.5, 0.4])[list(shown)]
    first, second = liked
    return float(first + (1.0 - 0.7 * first) * second * (0.2 if {*shown} == {0, 2} else 1.0))


def probabilities(shown: tuple[int, ...]) -> dict[str, float]:
    return {
        name: float(np.exp(log_probability(np.array(scores), OFFSETS, [list(shown)])[0]))
        for name, scores in SCORES.items()
    }


def test_the_mean_is_the_difference_of_the_values_and_the_noise_is_no_more_than_that_of_arms() -> None:
    mean = truth = squares = arm_squares = 0.0
    for shown in itertools.permutations(range(4), 2):
        chance, amount = probabilities(shown), np.array([clicks_of(shown)])
        live = sum(SHARES[name] * chance[name] for name in SHARES)
        (value,) = list_differences(amount, *np.log([[chance["new"]], [chance["old"]], [live]]))
        assert -1.0 / SHARES["old"] <= value / amount[0] <= 1.0 / SHARES["new"]
        mean += live * value
        squares += live * value**2
        truth += (chance["new"] - chance["old"]) * amount[0]
        for name, share in SHARES.items():
            arms = arm_differences(
                amount,
                np.array([name == "new"], float),
                np.array([name == "old"], float),
                np.array([SHARES["new"]]),
                np.array([SHARES["old"]]),
            )
            arm_squares += share * chance[name] * float(arms[0]) ** 2
    assert mean == pytest.approx(truth, abs=1e-10)
    assert squares < arm_squares


RELEVANCE = np.array([0.9, 0.1, 0.5, 0.4])
Users = Callable[[tuple[int, ...]], list[float]]
GUESS = np.array([0.6, 0.3, 0.1, 0.5])
ALPHA, BETA = np.array([0.7, 0.4]), np.array([0.2, 0.1])
LISTS = list(itertools.permutations(range(4), 2))


def affine(shown: tuple[int, ...]) -> list[float]:
    """The chance of a click at each rank: the clicks of the model, whatever else is shown."""
    return [float(ALPHA[k] * RELEVANCE[d] + BETA[k]) for k, d in enumerate(shown)]


def cascade(shown: tuple[int, ...]) -> list[float]:
    """Users who stop after a click: the chance at a rank depends on what is shown above it."""
    first = float(RELEVANCE[shown[0]])
    return [first, (1.0 - first) * float(RELEVANCE[shown[1]])]


def substitution(shown: tuple[int, ...]) -> list[float]:
    """Users who see the whole list before they click: a twin below matters, too."""
    twins = {*shown} in ({0, 1}, {2, 3})
    return [float(RELEVANCE[d]) * (0.3 if twins and d in (0, 2) else 1.0) for d in shown]


def moments(shown: tuple[int, ...]) -> tuple[float, float, float]:
    """The probabilities of a list under the new, the old and the live policy."""
    chance = probabilities(shown)
    return chance["new"], chance["old"], sum(SHARES[name] * chance[name] for name in SHARES)


def first_ranks(shown: tuple[int, ...]) -> np.ndarray:
    """The same of the first document and of both: 3 × 1 × ranks."""
    alone = [sum(moments(each)[i] for each in LISTS if each[0] == shown[0]) for i in range(3)]
    return np.array([[[alone[i], moments(shown)[i]]] for i in range(3)])


def values_of(kind: str, shown: tuple[int, ...], clicks: np.ndarray) -> float:
    """x_t of a page, by each kind of evidence."""
    exposure = {
        name: expected_rank_weights(np.array(scores), OFFSETS, ALPHA) for name, scores in SCORES.items()
    }
    difference = exposure["new"] - exposure["old"]
    guessed = np.array([[ALPHA[k] * GUESS[d] + BETA[k] for k, d in enumerate(shown)]])
    amount = np.array([clicks.sum()])
    logs = np.log([[each] for each in moments(shown)])
    match kind:
        case "list":
            return float(list_differences(amount, *logs)[0])
        case "centred":
            return float(list_differences(amount, *logs, guessed=1.3)[0])
        case "guessed":
            expected = float(difference @ GUESS)
            return float(list_differences(amount, *logs, guessed=guessed.sum(), expected=expected)[0])
        case "prefix":
            return float(prefix_differences(clicks[None], *np.log(first_ranks(shown)))[0])
        case "guessed prefix":
            expected = float(difference @ GUESS)
            logs = np.log(first_ranks(shown))
            return float(prefix_differences(clicks[None], *logs, guessed=guessed, expected=expected)[0])
        case _:
            live = np.sum([SHARES[name] * exposure[name] for name in SHARES], axis=0)
            rows = ImpressionRows(np.array([0, 2]), np.array([0]), np.array(shown), np.arange(2), clicks)
            bias = Bias(ALPHA, BETA, np.ones(2), BiasEvidence(ASSUMED))
            contribution = Contribution(OFFSETS, np.array([1]), live, GUESS, np.zeros(4))
            return float(contribution.by_impression(difference[:, None], rows, bias)[0][0, 0])


@pytest.mark.parametrize(
    ("kind", "unbiased", "biased"),
    [
        ("list", (affine, cascade, substitution), ()),
        ("centred", (affine, cascade, substitution), ()),
        ("guessed", (affine, cascade, substitution), ()),
        ("prefix", (affine, cascade), (substitution,)),
        ("guessed prefix", (affine, cascade), (substitution,)),
        ("affine", (affine,), (cascade, substitution)),
    ],
)
def test_the_mean_over_all_lists_and_clicks(
    kind: str, unbiased: tuple[Users, ...], biased: tuple[Users, ...]
) -> None:
    """The sum over all lists and click patterns is the difference of the values, where theory says so."""
    for users in (*unbiased, *biased):
        mean = truth = 0.0
        for shown in LISTS:
            new, old, live = moments(shown)
            chances = users(shown)
            truth += (new - old) * sum(chances)
            for pattern in itertools.product([0.0, 1.0], [0.0, 1.0]):
                chance = pattern_chance(users, chances, pattern)
                if chance > 0.0:
                    mean += live * chance * values_of(kind, shown, np.array(pattern))
        assert (abs(mean - truth) < 1e-10) == (users in unbiased), users.__name__


def pattern_chance(users: Users, chances: list[float], pattern: tuple[float, float]) -> float:
    """The probability of a click pattern; after a click, cascade users see nothing more."""
    if users is cascade:
        return {(1.0, 0.0): chances[0], (0.0, 1.0): chances[1], (0.0, 0.0): 1.0 - sum(chances)}.get(
            pattern, 0.0
        )
    return float(
        np.prod([chance if click else 1.0 - chance for chance, click in zip(chances, pattern, strict=True)])
    )


@pytest.mark.parametrize("tolerated", [0.0, 0.05])
@pytest.mark.parametrize("guess", [0.0, 1.3])
def test_weights_are_bounded_by_the_shares_and_guards_have_their_mean(guess: float, tolerated: float) -> None:
    losses, gains = list_ranges(SHARES["new"], SHARES["old"], 2.0, guessed=guess, tolerated=tolerated)
    near = (np.array(SCORES["new"]), np.array(SCORES["new"]) + np.array([0.0, 0.2, -0.1, 0.0]))
    ratios = log_ratio_range(*near, 2)
    known = list_ranges(
        SHARES["new"], SHARES["old"], 2.0, guessed=guess, tolerated=tolerated, log_ratios=ratios
    )
    assert known[0] < losses
    assert known[1] < gains
    mean = truth = 0.0
    for shown in LISTS:
        new, old, live = moments(shown)
        for amount in (0.0, 1.0, 2.0):
            logs = np.log([[new], [old], [live]])
            (value,) = list_differences(np.array([amount]), *logs, guessed=guess, tolerated=tolerated)
            assert -losses <= value <= gains
            first, second = (log_probability(each, OFFSETS, [list(shown)]) for each in near)
            assert ratios[0] <= first[0] - second[0] <= ratios[1]
            live_two = np.log(SHARES["new"] * np.exp(first) + SHARES["old"] * np.exp(second))
            (value,) = list_differences(
                np.array([amount]), first, second, live_two, guessed=guess, tolerated=tolerated
            )
            assert -known[0] <= value <= known[1]
        clicks = np.array([sum(cascade(shown))])
        mean += live * float(list_differences(clicks, *logs, guessed=guess, tolerated=tolerated)[0])
        truth += (new - (1.0 - tolerated) * old) * float(clicks[0])
    assert mean == pytest.approx(truth, abs=1e-12)


def test_bets_on_lists_are_a_martingale_at_equal_worth() -> None:
    """Two pages of documents that are all alike: over all lists and clicks, E has the mean 1."""
    outcomes = []
    for shown in LISTS:
        new, old, live = moments(shown)
        for clicks, chance in enumerate((0.5, 0.3, 0.2)):
            (value,) = list_differences(
                np.array([float(clicks)]), *np.log([[new], [old], [live]]), guessed=0.7
            )
            outcomes.append((live * chance, value))
    loss, _ = list_ranges(SHARES["new"], SHARES["old"], 2.0, guessed=0.7)
    total = 0.0
    for pages in itertools.product(outcomes, repeat=2):
        evidence = Bets().add(np.array([value for _, value in pages]), np.full(2, loss)).log_evidence
        total += float(np.prod([chance for chance, _ in pages])) * np.exp(evidence)
    assert total == pytest.approx(1.0, abs=1e-10)
