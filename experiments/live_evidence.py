"""Evidence between two live policies: how often it is wrong, and how many pages it takes to decide.

    python -m experiments.live_evidence rates STREAMS FILE      # resumes
    python -m experiments.live_evidence long STREAMS FILE       # resumes; 10⁶ pages per stream
    python -m experiments.live_evidence pages STREAMS FILE      # resumes
    python -m experiments.live_evidence show FILE
    python -m experiments.live_evidence merging                 # seconds; docs/design/no-interleaving.md

`rates`: two policies of equal worth that differ in every list, 90 % and 10 % of 20,000 pages, in the world of
`experiments.live_monitor` (six documents, three ranks, every list and click pattern enumerated). Looked at
after every page by bets, after every 100 by intervals. Heterogeneous users like the relevant documents or the
opposite, with the same chance; half of the returning users click a fifth as often as the others, and each of
400 comes 50 times on average.

`pages`: 24 documents, ten ranks, 20 queries, users of examination and trust, 90 % and 10 %: pages until each
rule calls the better policy better. The new policy is a step from noisy scores towards the true relevance.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from experiments.live_monitor import DOCUMENTS, LISTS, RANKS, RELEVANCE, list_chances
from experiments.rows import Row, append_row, read_rows
from rankloop.policies import expected_rank_weights, log_probability, sample_rankings
from rankloop.statistics import AsymptoticSequence, Bets
from rankloop.statistics.counts import ImpressionRows
from rankloop.types import ASSUMED, Bias, BiasEvidence, Float64, Int64
from rankloop.value import Contribution
from rankloop.value.lists import list_differences, list_ranges, log_ratio_range, prefix_differences

SHARES = {"new": 0.1, "old": 0.9}
PAGES, LONG, RETURNS = 20_000, 1_000_000, 50
LEVELS = (0.05, 0.01)
WORLDS = ("affine", "cascade", "substitution", "heterogeneous", "returning")
# How the service looks at intervals: not before 300 pages, and tightest at 5,000.
FIRST_LOOK, TIGHT_AT, LOOK = 300, 5_000, 100
ALPHA, BETA = np.array([0.9, 0.6, 0.45]), np.array([0.1, 0.05, 0.03])
PATTERNS = np.array(list(itertools.product([0.0, 1.0], repeat=RANKS)))
RULES = ("arms, interval", "arms, bets", "list, bets", "prefix, bets", "shadow, interval", "users, interval")
STEPS = {"near": 0.03, "middle": 0.09, "far": 0.18}
POWER_RULES = ("arms, interval", "arms, bets", "list, bets", "prefix, bets")


def arm_differences(
    amounts: Float64, by_new: Float64, by_old: Float64, share_new: Float64, share_old: Float64
) -> Float64:
    """What each impression says about the difference between two arms of the traffic.

        x_t = amount · (1[new] / share_new − 1[old] / share_old)

    Its mean is the value of the new policy minus that of the old one: the shares say how likely each was.

    Args:
        amounts: what users did on the page: clicks, or what they were worth.
        by_new: 1 for pages of the new policy, 0 for others.
        by_old: the same for the old policy.
        share_new: the share of the traffic that the new policy had.
        share_old: the share of the old policy.

    Example:
        >>> import numpy as np
        >>> arm_differences(*np.array([[2, 1, 0, 0.2, 0.5], [1, 0, 1, 0.2, 0.5], [3, 0, 0, 0.2, 0.5]]).T)
        array([10., -2.,  0.])
    """
    sign: Float64 = by_new / share_new - by_old / share_old
    return amounts * sign


def pattern_chances(users: str, relevance: Float64) -> Float64:
    """The probability of every click pattern on every list: lists × patterns."""
    result = np.ones((len(LISTS), len(PATTERNS)))
    for row, shown in enumerate(LISTS):
        for column, pattern in enumerate(PATTERNS):
            for rank, clicked in enumerate(pattern):
                chance = relevance[shown[rank]] * ALPHA[rank] + BETA[rank]
                if users == "cascade":
                    chance = 0.0 if pattern[:rank].any() else relevance[shown[rank]]
                elif users == "substitution":
                    twins = {*(shown[:rank] // 2)[pattern[:rank] > 0.0]}
                    chance = 0.05 if shown[rank] // 2 in twins else chance
                result[row, column] *= chance if clicked else 1.0 - chance
    return result


class EqualWorld:
    """Two queries, one of which each policy ranks well and the other one upside down.

    Args:
        users: how users click.
    """

    def __init__(self, users: str) -> None:
        kind = "affine" if users in ("heterogeneous", "returning") else users
        tastes = {
            "heterogeneous": [RELEVANCE, RELEVANCE[::-1]],
            "returning": [RELEVANCE, 0.2 * RELEVANCE],
        }.get(users, [RELEVANCE])
        good = 3.0 * RELEVANCE
        self.users = users
        self.scores = [{"new": good, "old": good[::-1]}, {"new": good[::-1], "old": good}]
        self.chances = [{name: list_chances(each) for name, each in pair.items()} for pair in self.scores]
        self.patterns = np.array([pattern_chances(kind, taste) for taste in tastes])
        self.tables = {name: self._table(name) for name in ("list", "prefix", "shadow")}

    @property
    def rates(self) -> Float64:
        """The mean clicks by rank of the old policy: a guess of what users do on a page."""
        return np.mean([own["old"] @ self.patterns.mean(axis=0) @ PATTERNS for own in self.chances], axis=0)

    def _table(self, kind: str) -> Float64:
        """X of every page: queries × lists × patterns."""
        return np.array([self._values(kind, query) for query in range(len(self.chances))])

    def _values(self, kind: str, query: int) -> Float64:
        own, scores = self.chances[query], self.scores[query]
        clicks = np.tile(PATTERNS, (len(LISTS), 1))
        if kind == "shadow":
            weight = {
                name: expected_rank_weights(each, np.array([0, DOCUMENTS]), ALPHA)
                for name, each in scores.items()
            }
            rows = ImpressionRows(
                np.arange(len(clicks) + 1) * RANKS,
                np.zeros(len(clicks), np.int64),
                np.repeat(LISTS, len(PATTERNS), axis=0).ravel(),
                np.tile(np.arange(RANKS), len(clicks)),
                clicks.ravel(),
            )
            bias = Bias(ALPHA, BETA, np.ones(RANKS), BiasEvidence(ASSUMED))
            guess = np.full(DOCUMENTS, RELEVANCE.mean())
            contribution = Contribution(
                np.array([0, DOCUMENTS]), np.array([1]), weight["old"], guess, np.zeros(DOCUMENTS)
            )
            values = contribution.by_impression((weight["new"] - weight["old"])[:, None], rows, bias)[0][:, 0]
            return values.reshape(len(LISTS), -1)
        live = sum(SHARES[name] * own[name] for name in SHARES)
        if kind == "list":
            logs = [np.repeat(np.log(each), len(PATTERNS)) for each in (own["new"], own["old"], live)]
            values = list_differences(clicks.sum(axis=1), *logs, guessed=self.rates.sum())
        else:
            logs = [
                np.repeat(np.log(prefix_chances(each)), len(PATTERNS), axis=0)
                for each in (own["new"], own["old"], live)
            ]
            values = prefix_differences(clicks, *logs, guessed=self.rates)
        return values.reshape(len(LISTS), -1)

    def pages(
        self, rng: np.random.Generator, count: int, tastes: Int64 | None = None
    ) -> Mapping[str, Float64]:
        """What each of as many pages says, by rule; also by arms that were assigned by user."""
        query = rng.integers(2, size=count)
        user = rng.integers(PAGES // RETURNS, size=count)
        taste = rng.integers(len(self.patterns), size=count) if tastes is None else tastes[user]
        coins = rng.random(count) < SHARES["new"]
        result: dict[str, Float64] = {}
        for name, new in (("coin", coins), ("user", user % 10 == 0)):
            if name == "user" and tastes is None:
                continue
            shown = np.zeros(count, np.int64)
            for number, own in enumerate(self.chances):
                for policy, drawn in (("new", new), ("old", ~new)):
                    rows = np.flatnonzero((query == number) & drawn)
                    edges = np.cumsum(own[policy])[:-1]
                    shown[rows] = np.searchsorted(edges, rng.random(len(rows)))
            edges = np.cumsum(self.patterns, axis=2)[:, :, :-1][taste, shown]
            pattern = (rng.random(count)[:, None] > edges).sum(axis=1)
            arms = arm_differences(
                PATTERNS.sum(axis=1)[pattern],
                new.astype(float),
                (~new).astype(float),
                SHARES["new"],
                SHARES["old"],
            )
            if name == "user":
                result["users"] = arms
            else:
                result |= {kind: table[query, shown, pattern] for kind, table in self.tables.items()}
                result["arms"] = arms
        return result


def prefix_chances(chances: Float64) -> Float64:
    """The probability of the first documents of each list, for every length: lists × ranks."""
    columns = []
    for rank in range(RANKS):
        key = LISTS[:, : rank + 1] @ DOCUMENTS ** np.arange(rank + 1)
        columns.append(np.bincount(key, chances)[key])
    return np.stack(columns, axis=1)


@cache
def world_of(users: str) -> EqualWorld:
    """The world of these users."""
    return EqualWorld(users)


def ranges_of(
    kind: str, rates: Float64, scores: Mapping[str, Float64] | None = None
) -> tuple[Float64 | float, Float64 | float]:
    """The largest loss and gain of a page, by kind of evidence; of each query, if its scores are given."""
    guessed = {"list": [rates.sum()], "prefix": rates, "arms": [0.0]}[kind]
    highest = 1.0 if kind == "prefix" else float(len(rates))
    losses: Float64 | float = 0.0
    gains: Float64 | float = 0.0
    for rank, guess in enumerate(guessed):
        ratios: tuple[Float64 | float, Float64 | float] = (-np.inf, np.inf)
        if scores is not None and kind != "arms":
            ranks = rank + 1 if kind == "prefix" else len(rates)
            pairs = zip(scores["new"], scores["old"], strict=True)
            low, high = np.array([log_ratio_range(*pair, ranks) for pair in pairs]).T
            ratios = low, high
        loss, gain = list_ranges(SHARES["new"], SHARES["old"], highest, guessed=guess, log_ratios=ratios)
        losses, gains = losses + loss, gains + gain
    return losses, gains


def bet(
    values: Float64, ranges: tuple[Float64 | float, Float64 | float], better: Bets, worse: Bets
) -> tuple[Bets, Bets]:
    """Both sides after more pages."""
    losses, gains = (np.broadcast_to(each, values.shape) for each in ranges)
    return better.add(values, losses), worse.add(-values, gains)


def interval_says(values: Float64, level: float) -> str:
    """What the interval that stood at any look said first: better, worse, or nothing."""
    sequence = AsymptoticSequence(level=level, first=FIRST_LOOK, tight_at=TIGHT_AT)
    for begun in range(0, len(values), LOOK):
        sequence = sequence.add(values[begun : begun + LOOK])
        if sequence.lower > 0.0 or sequence.upper < 0.0:
            return "better" if sequence.lower > 0.0 else "worse"
    return ""


def rates_of(users: str, seed: int) -> Row:
    """One stream of two policies of equal worth: by rule, the smallest level at which each side was wrong."""
    world, rng = world_of(users), np.random.default_rng([seed, WORLDS.index(users)])
    tastes = rng.integers(2, size=PAGES // RETURNS) if users == "returning" else None
    pages = world.pages(rng, PAGES, tastes)
    row: Row = {"kind": "rates", "users": users, "seed": seed}
    for kind in ("arms", "list", "prefix"):
        sides = bet(pages[kind], ranges_of(kind, world.rates), Bets(), Bets())
        row[f"{kind}, bets"] = [each.highest for each in sides]
    for kind in ("arms", "shadow", "users"):
        if kind in pages:
            row[f"{kind}, interval"] = [interval_says(pages[kind], level) for level in LEVELS]
    return row


def long_rates(users: str, seed: int) -> Row:
    """The same for a million pages, by list with bets."""
    world, rng = world_of(users), np.random.default_rng([seed, WORLDS.index(users), 1])
    # As many new users come in every 20,000 pages.
    sides = Bets(), Bets()
    for _ in range(LONG // PAGES):
        tastes = rng.integers(2, size=PAGES // RETURNS) if users == "returning" else None
        values = world.pages(rng, PAGES, tastes)["list"]
        sides = bet(values, ranges_of("list", world.rates), *sides)
    return {"kind": "long", "users": users, "seed": seed, "list, bets": [each.highest for each in sides]}


class Shop:
    """Twenty queries of 24 documents, and a policy that is better than the one in production by a share.

    Args:
        gain: by how much the clicks of the new policy are more.
    """

    documents, ranks, queries = 24, 10, 20

    def __init__(self, gain: float) -> None:
        rng = np.random.default_rng(7)
        relevance = rng.beta(0.6, 1.8, self.queries * self.documents)
        self.alpha = 0.6 / np.arange(1.0, self.ranks + 1.0) ** 0.8
        self.beta = 0.12 / np.arange(1.0, self.ranks + 1.0)
        self.offsets = np.arange(self.queries + 1) * self.documents
        start = 2.0 * relevance + rng.normal(0.0, 1.0, len(relevance))
        ideal = 6.0 * relevance
        self.relevance = relevance.reshape(self.queries, -1)

        def value(step: float) -> float:
            weights = expected_rank_weights(start + step * (ideal - start), self.offsets, self.alpha)
            return float(weights @ relevance / self.queries + self.beta.sum())

        step = brentq(lambda each: value(each) - (1.0 + gain) * value(0.0), 0.0, 1.0)
        self.scores = {
            "old": start.reshape(self.queries, -1),
            "new": (start + step * (ideal - start)).reshape(self.queries, -1),
        }
        # A guess of the clicks by rank, as they were before.
        shown = sample_rankings(start, self.offsets, self.ranks, rng, samples=2_000)
        gathered = np.take_along_axis(self.relevance[None], shown, axis=2)
        self.rates = (self.alpha * gathered + self.beta).mean(axis=(0, 1))

    def pages(self, rng: np.random.Generator, count: int) -> Mapping[str, Float64]:
        """What each page says, by kind of evidence."""
        query, new = rng.integers(self.queries, size=count), rng.random(count) < SHARES["new"]
        scores = np.where(new[:, None], self.scores["new"][query], self.scores["old"][query])
        offsets = np.arange(count + 1) * self.documents
        shown = sample_rankings(scores.ravel(), offsets, self.ranks, rng)[0]
        chance = self.alpha * np.take_along_axis(self.relevance[query], shown, axis=1) + self.beta
        clicks = (rng.random(shown.shape) < chance).astype(np.float64)
        # The probability of the first documents, for every length.
        logs = {
            name: np.stack(
                [
                    log_probability(each[query].ravel(), offsets, shown[:, : rank + 1])
                    for rank in range(self.ranks)
                ],
                axis=1,
            )
            for name, each in self.scores.items()
        }
        logs["live"] = np.logaddexp(*(np.log(SHARES[name]) + logs[name] for name in SHARES))
        by_rank = [logs[name] for name in ("new", "old", "live")]
        whole = [each[:, -1] for each in by_rank]
        return {
            "query": query,
            "list": list_differences(clicks.sum(axis=1), *whole, guessed=self.rates.sum()),
            "prefix": prefix_differences(clicks, *by_rank, guessed=self.rates),
            "arms": arm_differences(
                clicks.sum(axis=1), new.astype(float), (~new).astype(float), SHARES["new"], SHARES["old"]
            ),
        }


@cache
def shop_of(step: str) -> Shop:
    """The shop with a candidate of this gain."""
    return Shop(STEPS[step])


def pages_of(step: str, seed: int) -> Row:
    """Pages until each rule calls the better policy better; None after a million."""
    shop, rng = shop_of(step), np.random.default_rng([seed, list(STEPS).index(step), 2])
    row: Row = {"kind": "pages", "step": step, "seed": seed}
    interval = AsymptoticSequence(first=FIRST_LOOK, tight_at=TIGHT_AT)
    sides = {kind: (Bets(), Bets()) for kind in ("list", "prefix", "arms")}
    ranges = {kind: ranges_of(kind, shop.rates, shop.scores) for kind in sides}
    batch, count = 1_000, 0
    while len(row) < 3 + len(POWER_RULES) and count < LONG:
        pages = shop.pages(rng, batch)
        for begun in range(0, batch, LOOK):
            count += LOOK
            part = {kind: values[begun : begun + LOOK] for kind, values in pages.items()}
            interval = interval.add(part["arms"])
            if interval.lower > 0.0 or interval.upper < 0.0:
                row.setdefault("arms, interval", count if interval.lower > 0.0 else -count)
            for kind in sides:
                if f"{kind}, bets" in row:
                    continue
                own = [np.broadcast_to(each, shop.queries)[part["query"]] for each in ranges[kind]]
                sides[kind] = bet(part[kind], (own[0], own[1]), *sides[kind])
                better, worse = sides[kind]
                if worse.decides(0.05) or better.decides(0.05):
                    row[f"{kind}, bets"] = -count if worse.decides(0.05) else count
    return row


def merged_chances(first: Float64, second: Float64) -> Float64:
    """The probability of every list if a coin per rank says which of two policies draws the next document."""
    by_length = [prefix_chances(each) for each in (first, second)]
    result = np.ones(len(LISTS))
    for rank in range(RANKS):
        before = [each[:, rank - 1] if rank else np.ones(len(LISTS)) for each in by_length]
        result *= sum(0.5 * each[:, rank] / own for each, own in zip(by_length, before, strict=True))
    return result


def merging() -> None:
    """Print the noise of a page if a coin per page chooses the policy, and if a coin per rank does."""
    print("| users | candidate | evidence | coin per page | coin per rank | largest weight, page | rank |")
    print("|---|---|---|---|---|---|---|")
    for users, step in itertools.product(("affine", "cascade"), (0.1, 0.5, 1.0)):
        scores = 3.0 * RELEVANCE
        other = scores + step * (scores[::-1] - scores)
        own = [list_chances(each) for each in (scores, other)]
        patterns = pattern_chances(users, RELEVANCE)
        truth = float((own[0] - own[1]) @ patterns @ PATTERNS.sum(axis=1))
        live = {"page": 0.5 * own[0] + 0.5 * own[1], "rank": merged_chances(*own)}
        for kind in ("list", "affine") if users == "affine" else ("list",):
            noise, weight = {}, {}
            for name, chances in live.items():
                values = _merged_values(kind, own, chances)
                joint = chances[:, None] * patterns
                mean = float((joint * values).sum())
                assert abs(mean - truth) < 1e-9, "both are unbiased"
                noise[name] = float((joint * values**2).sum()) - mean**2
                weight[name] = float(np.abs((own[0] - own[1]) / chances).max())
            more = noise["rank"] / noise["page"] - 1.0
            print(
                f"| {users} | {step:.0%} of the way | {kind} | {noise['page']:.4f} | {noise['rank']:.4f} "
                f"({more:+.0%}) | {weight['page']:.1f} | {weight['rank']:.1f} |"
            )


def _merged_values(kind: str, own: list[Float64], live: Float64) -> Float64:
    """X of every page, lists × patterns, if lists come with these chances."""
    clicks = PATTERNS.sum(axis=1)
    if kind == "list":
        usual = 1.0
        logs = [np.log(each)[:, None] for each in (*own, live)]
        return list_differences(clicks[None, :], *logs, guessed=usual)
    places = np.zeros((len(LISTS), DOCUMENTS))
    np.put_along_axis(places, LISTS, np.tile(ALPHA, (len(LISTS), 1)), axis=1)
    difference, exposure = (own[0] - own[1]) @ places, live @ places
    rows = ImpressionRows(
        np.arange(len(LISTS) * len(PATTERNS) + 1) * RANKS,
        np.zeros(len(LISTS) * len(PATTERNS), np.int64),
        np.repeat(LISTS, len(PATTERNS), axis=0).ravel(),
        np.tile(np.arange(RANKS), len(LISTS) * len(PATTERNS)),
        np.tile(PATTERNS, (len(LISTS), 1)).ravel(),
    )
    guess = np.full(DOCUMENTS, RELEVANCE.mean())
    contribution = Contribution(np.array([0, DOCUMENTS]), np.array([1]), exposure, guess, np.zeros(DOCUMENTS))
    bias = Bias(ALPHA, BETA, np.ones(RANKS), BiasEvidence(ASSUMED))
    return contribution.by_impression(difference[:, None], rows, bias)[0][:, 0].reshape(len(LISTS), -1)


def main(action: str, *arguments: str) -> None:
    """Run streams, or show what they gave."""
    if action == "merging":
        merging()
        return
    path = Path(arguments[-1])
    rows = read_rows(path)
    if action == "show":
        show(rows)
        return
    streams: Mapping[str, tuple[Callable[[str, int], Row], str, tuple[str, ...]]] = {
        "rates": (rates_of, "users", WORLDS),
        "long": (long_rates, "users", WORLDS),
        "pages": (pages_of, "step", tuple(STEPS)),
    }
    make, key, values = streams[action]
    done = {(row[key], row["seed"]) for row in rows if row["kind"] == action}
    for seed, value in itertools.product(range(int(arguments[0])), values):
        if (value, seed) not in done:
            append_row(path, make(value, seed))


def show(rows: list[Row]) -> None:
    """Print the tables, in Markdown."""
    for kind in ("rates", "long"):
        own = [row for row in rows if row["kind"] == kind]
        rules = [rule for rule in RULES if any(rule in row for row in own)]
        for level in LEVELS if own else ():
            print(f"\n| {kind}, level {level:.0%} | streams | {' | '.join(rules)} |")
            print("|---|---" + "|---" * len(rules) + "|")
            for users in WORLDS:
                streams = [row for row in own if row["users"] == users]
                cells = [
                    "{} / {}".format(*wrong_counts(streams, rule, level))
                    if streams and rule in streams[0]
                    else "–"
                    for rule in rules
                ]
                print(f"| {users} | {len(streams)} | {' | '.join(cells)} |")
    paged = [row for row in rows if row["kind"] == "pages"]
    if paged:
        print("\n| candidate | rule | pages | wrong | undecided | streams |\n|---|---|---|---|---|---|")
    for step, rule in itertools.product(STEPS, POWER_RULES) if paged else ():
        own = [row for row in paged if row["step"] == step]
        waits = np.sort([abs(row[rule]) if rule in row else np.inf for row in own])
        low, middle, high = (waits[int(q * (len(waits) - 1))] for q in (0.1, 0.5, 0.9))
        print(
            f"| {step}, +{STEPS[step]:.0%} | {rule} | {middle:,.0f} [{low:,.0f}, {high:,.0f}] | "
            f"{sum(row.get(rule, 1) < 0 for row in own)} | {sum(rule not in row for row in own)} | "
            f"{len(own)} |"
        )


def wrong_counts(rows: list[Row], rule: str, level: float) -> tuple[int, int]:
    """How many streams called an equal policy better, and worse."""
    if rule.endswith("bets"):
        needed = -np.log(level)
        return sum(row[rule][0] >= needed for row in rows), sum(row[rule][1] >= needed for row in rows)
    words = [row[rule][LEVELS.index(level)] for row in rows]
    return words.count("better"), words.count("worse")


if __name__ == "__main__":
    main(*sys.argv[1:])
