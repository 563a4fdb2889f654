"""The page for people: what is live, what users do, what was learned, and how sure that is."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rankloop.evidence import DecisionKind
from rankloop.live.learner.metric import AMOUNT, CLICKS
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.learner.trial import GainPoint, LiveTrial
from rankloop.live.learner.trust import Trust
from rankloop.live.learner_sections import WHY, draw_figure, learner_blocks, moment, watch_blocks
from rankloop.live.overview import Overview
from rankloop.live.ranking.deployment import LiveDeployment
from rankloop.live.store.events import ACCEPTED, KINDS
from rankloop.reports.document import (
    NONE,
    Block,
    Button,
    Cell,
    Column,
    Document,
    Facts,
    Figure,
    Figures,
    InputField,
    Section,
    Table,
    Text,
    warnings,
)
from rankloop.statistics.intervals import normal_quantile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rankloop.statistics import AsymptoticSequence

# What policies are learned, compared and watched by.
METRICS = {
    CLICKS: "Policies are learned, compared and watched by clicks per page: no action carries an amount.",
    AMOUNT: "Policies are learned, compared and watched by the amount per page: on each document the best "
    "action counts, with the value that it carries, or 1 for a click without one.",
}
# Relative to the page, which may be that of a surface, or behind a proxy that adds a prefix.
PAGE, ROLL_BACK, DEPLOY = "./", "page/rollback", "page/deploy"
# The parameter of the page for a person who acts.
ACT = "act"
ACT_LABEL = "Deploy, roll back, pause …"
RELOADS = "This page reloads every few seconds."
STILL = "This page does not reload by itself, so that what you type is kept."


def page_document(
    found: Overview,
    *,
    keys: bool,
    acting: bool = False,
    now: float | None = None,
    name: str = "",
    surfaces: Iterable[str] = (),
) -> Document:
    """The page as a document.

    Args:
        found: the state of the service.
        keys: whether buttons need a key.
        acting: whether it is for a person who acts: with buttons, and without reloading, by which what is
            typed beside them would be lost.
        now: the time, in seconds since 1970.
        name: the surface that it is about, if the service has several.
        surfaces: the other ones, which have pages of their own.
    """
    as_of = moment(time.time() if now is None else now)
    blocks: list[Block] = [
        Text(_summary(found), "strong"),
        Text(f"As of {as_of}. {STILL if acting else RELOADS}", "quiet"),
        Button("Watch", PAGE, method="get")
        if acting
        else Button(ACT_LABEL, PAGE, ((ACT, "1"),), method="get"),
        *(Button(f"Surface: {each}", f"{each}/", method="get") for each in surfaces),
        *warnings(found.warnings),
        Text(METRICS[found.metric]),
        Section("What is live", _live(found)),
        Section("Whether it does harm", watch_blocks(found)),
        Section("The learner", learner_blocks(found, keys)),
        Section("What users do", _users(found)),
        Section("Learned against deployed", _learned(found, keys)),
        Section("How users click", _bias(found)),
        Section("What exploring costs", _exploring(found)),
        Section("History", _history(found, keys)),
        Section("Events", _events(found)),
    ]
    title = f"rankloop live: {name}" if name else "rankloop live"
    return Document("live", title, tuple(blocks) if acting else without_forms(blocks))


def without_forms(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Blocks without the buttons that do something, for a page that reloads."""
    return tuple(
        replace(block, blocks=without_forms(block.blocks)) if isinstance(block, Section) else block
        for block in blocks
        if not isinstance(block, Button) or block.method == "get"
    )


def _summary(found: Overview) -> str:
    if found.deployment is None:
        return "Nothing is deployed yet."
    main = max(found.deployment.shares, key=lambda share: share.share)
    return (
        f"{main.policy} serves {main.share:.0%} of the traffic since {moment(found.deployment.created_at)}; "
        f"{found.sealed + found.unsealed:,} impressions so far."
    )


def _live(found: Overview) -> tuple[Block, ...]:
    if found.deployment is None:
        return (Text("Register a policy and deploy it: `POST /policies`, `POST /deployments`."),)
    rates = {rate.policy: rate for rate in found.rates}
    rows = []
    for share in found.deployment.shares:
        rate = rates.get(share.policy)
        rows.append(
            [
                share.policy,
                share.role,
                f"{share.share:.1%}",
                f"{rate.impressions:,}" if rate else "0",
                f"{rate.rate:.3f} ± {normal_quantile() * rate.error:.3f}" if rate else NONE,
            ]
        )
    for rate in found.rates:
        if rate.policy not in {share.policy for share in found.deployment.shares}:
            mean = f"{rate.rate:.3f} ± {normal_quantile() * rate.error:.3f}"
            rows.append([rate.policy, "not live", "0 %", f"{rate.impressions:,}", mean])
    columns: list[str | Column] = [
        "policy",
        "role",
        "share",
        "recent pages",
        f"{found.metric} per page",
    ]
    caption = f"Policies, with their {found.metric} per page among the last 20,000 pages (90 % intervals)."
    return (Table.build(caption, columns, rows),)


def _users(found: Overview) -> tuple[Block, ...]:
    figures = []
    if found.by_rank:
        figures.append(
            Figure(
                partial(draw_figure, "by-rank", partial(_draw_ranks, found.by_rank)),
                "Click rate by position, among the last 20,000 pages.",
                "; ".join(f"position {k}: {clicks / max(n, 1):.3f}" for k, n, clicks in found.by_rank[:10]),
            )
        )
    if len(found.over_time) > 1:
        figures.append(
            Figure(
                partial(draw_figure, "over-time", partial(_draw_times, found.over_time)),
                "Clicks per page over time, as far as it is sealed.",
                f"from {_rate(found.over_time[0]):.3f} to {_rate(found.over_time[-1]):.3f}",
            )
        )
    if not figures:
        return (Text("Nobody has seen anything yet."),)
    return (Figures(tuple(figures)),)


def _learned(found: Overview, keys: bool) -> tuple[Block, ...]:
    trial = found.trial
    if found.learner is None:
        return (Text("No learner is running: start one with `rankloop serve --learn` or `rankloop learn`."),)
    if trial is None:
        least = int(found.learner["least"])
        return (Text(f"Nothing is on trial. {_next_policy(found, least)}"),)
    watch = found.monitor.watch_of(trial.candidate, trial.baseline)
    blocks: list[Block] = [
        Text(_conclusion(trial, found.learner["deploy"], proven=trial.proven(watch))),
        Table.build(
            f"What the learned policy gains, in {trial.metric} per page, by all pages and the model of "
            f"users. It may open a canary; more traffic needs the lists of both policies, live. The "
            f"interval holds at all looks.",
            ["gain", "interval", "level", "pages"],
            [_cells(trial.gain)],
        ),
        Text(f"Stage: {trial.stage}. {trial.candidate} was shown on {trial.served:,} pages."),
    ]
    if len(trial.trail) > 1:
        caption = f"The gain of {trial.candidate} over {trial.baseline}, with its interval."
        last = trial.trail[-1]
        alt = f"from {last.lower:+.4f} to {last.upper:+.4f} after {last.pages:,} pages"
        figure = Figure(partial(draw_figure, "gain", partial(_draw_gain, trial.trail)), caption, alt)
        blocks.append(Figures((figure,)))
    settings = LearnerSettings.model_validate(found.learner)
    if found.trust is not None and settings.deploy == "auto":
        blocks.append(Text(_limit(found.trust, settings)))
    values = (("candidate", trial.candidate),)
    if trial.stage == "shadow" and trial.gained.kind in (DecisionKind.BETTER, DecisionKind.LEANS_BETTER):
        label = f"Try {trial.candidate} on {settings.canary:.0%}"
        blocks.append(Button(label, DEPLOY, values, keys))
    if trial.stage == "canary" and trial.proven(watch):
        blocks.append(Button(f"Deploy {trial.candidate}", DEPLOY, values, keys))
    return tuple(blocks)


def _next_policy(found: Overview, least: int) -> str:
    """When a policy is learned, if nothing is on trial."""
    if found.control.paused:
        return "The learner is paused."
    if found.sealed < least:
        return f"The first policy is learned after {least - found.sealed:,} more pages."
    last = next((one for one in found.diary if one["kind"] in ("learned", "not learned")), None)
    if last is None:
        return "The first policy is being learned."
    return f"The last attempt, at {moment(last['created_at'])}: {last['text']}."


def _limit(trust: Trust, settings: LearnerSettings) -> str:
    allowed = trust.share(settings)
    if allowed > settings.risk:
        why = f"clicks agree with {trust.policy}, the last policy that a person deployed"
    else:
        why = (
            f"clicks do not say so far that what {trust.policy} shows first, the last policy that a person "
            f"deployed, is more relevant than the rest"
        )
    return f"Without a person, learned policies may get {allowed:.0%} of the traffic: {why}."


def _conclusion(trial: LiveTrial, deploy: str, *, proven: bool) -> str:
    gain, decision = trial.gain, trial.gained
    candidate, baseline, by = trial.candidate, trial.baseline, f"by {trial.metric} per page"
    if proven:
        return f"{candidate} is better than {baseline} {by}, as the lists of both prove."
    if decision.kind is DecisionKind.BETTER and trial.stage != "shadow":
        return f"{candidate} is better than {baseline} {by}, by the model of users. Their lists decide."
    if decision.kind is DecisionKind.BETTER:
        then = "A person may try it." if deploy == "ask" else "It gets its traffic step by step."
        return f"{candidate} is better than {baseline} {by}. {then}"
    if decision.kind is DecisionKind.LEANS_BETTER:
        because = " and ".join(trial.doubts.values())
        then = "A person may try it." if deploy == "ask" else "The two policies have to prove it, live."
        return f"{candidate} leans better than {baseline} {by}, but not firmly: {because}. {then}"
    if decision.kind is DecisionKind.WORSE:
        return f"{candidate} is worse than {baseline} {by}, and is not deployed."
    if not math.isfinite(gain.lower):
        missing = f"at least {max(gain.first - gain.count, 1):,} more pages"
    elif gain.mean <= 0.0:
        missing = "more pages; so far it looks no better"
    elif decision.more is None:
        missing = "more than a hundred times as many pages, if the gain is as it seems"
    else:
        missing = f"about {max(decision.more, 1):,} more pages, if the gain is as it seems"
    return f"Whether {candidate} is better than {baseline} {by} is not decided yet: it takes {missing}."


def _cells(sequence: AsymptoticSequence) -> list[str]:
    known = math.isfinite(sequence.lower)
    return [
        f"{sequence.mean:+.4f}" if sequence.count else NONE,
        f"{sequence.lower:+.4f} to {sequence.upper:+.4f}" if known else "not yet",
        f"{1.0 - sequence.level:.2%}",
        f"{sequence.count:,}",
    ]


def _bias(found: Overview) -> tuple[Block, ...]:
    learned = next((one for one in found.diary if one["kind"] == "learned"), None)
    if learned is None:
        return (Text("Known once a policy has been learned."),)
    bias, intervals = learned["numbers"]["bias"], learned["numbers"].get("bias_intervals")

    def cell(name: str, rank: int) -> str:
        value = f"{bias[name][rank]:.3f}"
        if intervals is None:
            return value
        low, high = (ends[rank] for ends in intervals[name])
        return f"{value} ({low:.3f} to {high:.3f})"

    rows = [[str(rank + 1), cell("alpha", rank), cell("beta", rank)] for rank in range(len(bias["alpha"]))]
    source = "assumed" if intervals is None else "estimated from the log, with 90 % intervals"
    caption = f"A document of relevance R at a rank is clicked with probability α R + β; {source}."
    return (Table.build(caption, ["rank", "α", "β"], rows),)


def _exploring(found: Overview) -> tuple[Block, ...]:
    rates = {rate.policy: rate for rate in found.rates}
    shares = () if found.deployment is None else found.deployment.shares
    main = max(shares, key=lambda share: share.share, default=None)
    explorers = [share for share in shares if share.role == "explore"]
    if main is None or not explorers or main.policy not in rates:
        return (Text("No share of the traffic is set aside for exploring."),)
    rows = []
    for share in explorers:
        if share.policy in rates:
            lost = rates[main.policy].rate - rates[share.policy].rate
            error = math.hypot(rates[main.policy].error, rates[share.policy].error)
            rows.append(
                [
                    share.policy,
                    f"{share.share:.1%}",
                    f"{lost:+.4f} ± {normal_quantile() * error:.4f}",
                    f"{share.share * lost:+.4f}",
                ]
            )
    caption = f"What is lost compared with {main.policy}, in {found.metric} per page, and over all traffic."
    return (Table.build(caption, ["explores with", "share", "on these pages", "over all"], rows),)


def _history(found: Overview, keys: bool) -> tuple[Block, ...]:
    rows: list[list[str | Cell]] = [
        [
            Cell(f"{one.number}: {one.kind}", moment(one.created_at)),
            _shares(one),
            Cell(one.why, one.who),
        ]
        for one in found.history
    ]
    columns: list[str | Column] = [
        "deployment",
        Column("shares", words=True),
        Column("why, and who", words=True),
    ]
    blocks: list[Block] = [Table.build("Deployments, newest first; nothing is ever deleted.", columns, rows)]
    if len(found.history) > 1:
        earlier = tuple(
            (str(one.number), f"{one.number}: {_shares(one)}")
            for one in found.history[1:]
            if found.deployment is None or one.shares != found.deployment.shares
        )
        last = found.restores
        before = "" if last is None else f"the deployment before, {last.number}: {_shares(last)}"
        options = (*(() if last is None else ((str(last.number), before),)), *earlier)
        if options:
            choice = InputField("to", "what to restore", options)
            blocks.insert(0, Button("Roll back", ROLL_BACK, (), keys, (choice, WHY)))
    diary = [[moment(one["created_at"]), one["kind"], one["text"]] for one in found.diary]
    if diary:
        wide = [Column("when", words=True), Column("kind", words=True), Column("what", words=True)]
        blocks.append(Table.build("What the learner did and found.", wide, diary, folded=True))
    return tuple(blocks)


def _shares(deployment: LiveDeployment) -> str:
    return ", ".join(f"{share.policy} {share.share:.0%}" for share in deployment.shares)


def _events(found: Overview) -> tuple[Block, ...]:
    facts = [("accepted", f"{found.tallies.get(ACCEPTED, 0):,}")]
    facts += [(KINDS[name], f"{found.tallies[name]:,}") for name in KINDS if name in found.tallies]
    facts += [("impressions in the log", f"{found.sealed:,}"), ("not sealed yet", f"{found.unsealed:,}")]
    return (Facts(tuple(facts)),)


def _rate(point: tuple[float, int, int]) -> float:
    return point[2] / max(point[1], 1)


def _draw_ranks(by_rank: Sequence[tuple[int, int, int]], axes: Axes) -> None:
    from rankloop.reports.drawing import draw_curve, set_rank_axis

    ranks = [float(rank) for rank, _, _ in by_rank]
    draw_curve(axes, 0, ranks, [clicks / max(shown, 1) for _, shown, clicks in by_rank])
    set_rank_axis(axes, len(ranks), "position")
    axes.set_ylabel("click rate")
    axes.set_ylim(bottom=0.0)


def _draw_gain(trail: Sequence[GainPoint], axes: Axes) -> None:
    from rankloop.reports.drawing import draw_band, draw_curve, draw_level

    pages = [float(point.pages) for point in trail]
    lower, upper = (np.array([getattr(point, end) for point in trail]) for end in ("lower", "upper"))
    draw_band(axes, 0, pages, lower, upper)
    draw_curve(axes, 0, pages, [point.mean for point in trail])
    draw_level(axes, 0.0, "--")
    axes.set_xlabel("pages")
    axes.set_ylabel("gain per page")


def _draw_times(over_time: Sequence[tuple[float, int, int]], axes: Axes) -> None:
    from rankloop.reports.drawing import draw_curve

    last = over_time[-1][0]
    unit, name = (60.0, "minutes") if last - over_time[0][0] < 7200.0 else (3600.0, "hours")
    draw_curve(axes, 1, [(point[0] - last) / unit for point in over_time], [_rate(one) for one in over_time])
    axes.set_xlabel(f"{name} before the last sealed page")
    axes.set_ylabel("clicks per page")
