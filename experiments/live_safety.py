"""How often the live learner deploys a policy that is no better: A/A loops, looked at after every batch.

    python -m experiments.live_safety run 1000 RESULTS.jsonl     # resumes
    python -m experiments.live_safety show RESULTS.jsonl
    python -m experiments.live_safety amounts                    # about a minute

Each loop has one query with six documents of equal relevance, so that every policy is worth the same. A new
candidate with random scores goes on trial whenever the log has doubled. After every hundred pages the trial
is updated and asked for its next step, as the learner does it; a loop fails if any candidate is ever
deployed.

`amounts` is about rare large amounts: how often a canary is ever called better, by its arms, that gains
clicks worth 1 and loses as much in purchases of about 30, by how many equal amounts the first look waits for.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from rankloop.clicks import bias_of, users
from rankloop.evidence import Evidence, decide
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.learner.trial import FIRST_LOOK, TIGHT_AT, LiveTrial
from rankloop.live.ranking.live_policy import LivePolicy, policy_of
from rankloop.live.ranking.problem import RankingProblem
from rankloop.models import Linear
from rankloop.policies import expected_rank_weights
from rankloop.statistics import AsymptoticSequence
from rankloop.types import Float64

DOCUMENTS, RELEVANCE, PAGES, BATCH, FIRST = 6, 0.5, 12_800, 100, 400
PEOPLE = users("paper@3")
BIAS = bias_of(PEOPLE)
RANKS, MEAN = BIAS.positions, 0.3
LEARNED_AT = {FIRST * 2**power for power in range(6)}
SETTINGS = LearnerSettings(deploy="auto", least=FIRST)
# The identity: a linear policy then has any scores it likes.
PROBLEM = RankingProblem("q", tuple("abcdef"), tuple("123456"), np.eye(DOCUMENTS, dtype=np.float32))


def policy(name: str, rng: np.random.Generator) -> LivePolicy:
    """A policy with random scores, as one that learned from noise has them."""
    weights = np.append(rng.normal(size=DOCUMENTS), 0.0)
    return policy_of(Linear(DOCUMENTS, weights, feature_names=PROBLEM.feature_names), name)


def deployed(seed: int) -> int:
    """How many candidates of one loop are ever deployed."""
    rng = np.random.default_rng(seed)
    live = policy("live", rng)
    chances = BIAS.alpha * RELEVANCE + BIAS.beta
    trial, ratios, gain, count, wrong, trials = None, np.zeros(0), 0.0, 0, 0, 0
    while count < PAGES:
        drawn = np.argsort(-(live.scores(PROBLEM) + rng.gumbel(size=(BATCH, DOCUMENTS))), axis=1)[:, :RANKS]
        clicked = rng.random(drawn.shape) < chances
        if trial is not None:
            noise = clicked - BIAS.alpha * MEAN - BIAS.beta
            gains = MEAN * gain + (ratios[drawn] * noise).sum(axis=1)
            trial = trial.after(count + BATCH, gains, 0)
            if trial.next_step(SETTINGS) != "wait":
                wrong += 1
                trial = None
        count += BATCH
        if count in LEARNED_AT:
            trials += 1
            candidate = policy(f"learned-{trials}", rng)
            ratios, gain = weights(candidate, live)
            trial = LiveTrial.begin(
                trials, candidate.name, "live", bias=BIAS, mean=MEAN, part=count, settings=SETTINGS
            )
    return wrong


def weights(new: LivePolicy, old: LivePolicy) -> tuple[Float64, float]:
    """(λ_new − λ_old) / ᾱ of every document, and the sum of the differences."""
    offsets = np.array([0, DOCUMENTS])
    first, second = (expected_rank_weights(one.scores(PROBLEM), offsets, BIAS.alpha) for one in (new, old))
    return (first - second) / second, float((first - second).sum())


def called_better(purchases: float, spread: float, shift: float, few: int, loops: int = 400) -> float:
    """The share of loops in which a policy of equal value is ever called better.

    Args:
        purchases: how likely one is on a page of the old policy.
        spread: the standard deviation of the logarithm of what it is worth.
        shift: how many more clicks a page of the new policy gets.
        few: how many equal amounts the first look waits for; 0 for what clicks wait for.
        loops: how many loops.
    """
    rng, pages, wrong = np.random.default_rng(0), 40_000, 0
    lost = shift / (30.0 * np.exp(0.5 * spread**2))
    for _ in range(loops):
        new = rng.random(pages) < 0.5
        clicked = rng.random(pages) < np.where(new, 0.3 + shift, 0.3)
        bought = rng.random(pages) < np.where(new, purchases - lost, purchases)
        amounts = np.where(bought, 30.0 * np.exp(spread * rng.normal(size=pages)), clicked)
        known = amounts[:5_000]
        rarity = len(known) * (known**2).sum() / known.sum() ** 2
        first = max(FIRST_LOOK, int(np.ceil(few * rarity)))
        sequence = AsymptoticSequence(first=first, tight_at=TIGHT_AT)
        parts = np.split(amounts * np.where(new, 2.0, -2.0), np.geomspace(first, pages - 1, 40).astype(int))
        for part in parts:
            sequence = sequence.add(part)
            if decide(Evidence.of_sequence(sequence)).deploy:
                wrong += 1
                break
    return wrong / loops


def main(action: str, *arguments: str) -> None:
    """Run loops, or show what they gave."""
    if action == "amounts":
        for world in ((0.005, 0.5, 0.0), (0.005, 0.5, 0.12), (0.002, 1.0, 0.05), (0.001, 0.5, 0.025)):
            print(*world, *(f"{few}: {called_better(*world, few):.1%}" for few in (0, 100, 200)), flush=True)
        return
    path = Path(arguments[-1])
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if action == "run":
        done = {one["seed"] for one in known}
        with path.open("a") as file:
            for seed in range(int(arguments[0])):
                if seed not in done:
                    file.write(json.dumps({"seed": seed, "deployed": deployed(seed)}) + "\n")
                    file.flush()
        return
    failed = sum(one["deployed"] > 0 for one in known)
    print(f"{failed} of {len(known)} loops ever deployed on noise: {failed / max(len(known), 1):.1%}")


if __name__ == "__main__":
    main(*sys.argv[1:])
