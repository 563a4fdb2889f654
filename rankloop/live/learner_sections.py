"""Sections of the page about the learner: what it watches, whether it lives, and what people decided."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from rankloop.live.learner.monitor import LOG_TEN, Watch
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.overview import Overview
from rankloop.reports.document import (
    NONE,
    Block,
    Button,
    Column,
    Facts,
    Figure,
    Figures,
    InputField,
    LegendEntry,
    Table,
    Text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEARNER = "page/learner"
WHY = InputField("why", "why")


def watch_blocks(found: Overview) -> tuple[Block, ...]:
    """The evidence about every policy that has traffic, over time, and the guardrails."""
    watches = [watch for watch in found.monitor.watches if watch.trail]
    blocks: list[Block] = []
    if not found.monitor.watches:
        text = "One policy serves everybody: there is nothing to compare it with. A holdout would tell."
        return (Text(text), *_guardrails(found))
    rows = []
    for watch in found.monitor.watches:
        known = watch.better.count > 1
        rows.append(
            [
                watch.policy,
                watch.against,
                f"{watch.better.mean:+.4f} ± {watch.better.standard_error:.4f}" if known else NONE,
                _power(watch.worse.log_evidence / LOG_TEN) if known else NONE,
                _power(watch.better.log_evidence / LOG_TEN) if known else NONE,
                f"{watch.better.count:,}",
                _power(watch.harm.log_evidence / LOG_TEN) if known else NONE,
                str(watch.alarms),
            ]
        )
    metric = found.monitor.metric
    level = LearnerSettings.model_validate(found.learner or {}).level
    caption = (
        f"Every policy with traffic, by what users do with the lists of both; the difference is in {metric} "
        f"per page, with its standard error. The columns worse and better are bets, E: at {1.0 / level:,.0f} "
        f"they decide, and without a difference one of them gets there with a chance of {level:.0%} at most, "
        f"however long it runs. The alarm is for harm that begins late: at "
        f"{_power(math.log10(_alarm(found)))} what is live and its holdout get equal shares until the "
        f"bets decide. A policy that is as good raises it after {_alarm(found):,.0f} pages on average, or "
        f"later."
    )
    columns: list[str | Column] = [
        *(
            "policy",
            "against",
            "difference",
            "worse",
            "better",
            "pages",
            "alarm",
            "alarms",
        )
    ]
    blocks.append(Table.build(caption, columns, rows))
    equal = found.monitor.equal
    if equal is not None:
        text = (
            f"{equal.policy} may do harm: it and {equal.against} have equal shares until their lists decide."
        )
        blocks.insert(0, Text(text, "warning"))
    guards = [
        [watch.policy, watch.against, each.guard, _power(each.held.log_evidence / LOG_TEN), word]
        for watch in found.monitor.watches
        for each in watch.guards
        for word in [
            "broken" if each.broken.decides(level) else "holds" if each.held.decides(level) else "not known"
        ]
    ]
    if guards:
        caption = f"What may not be lost. More traffic needs E of at least {1.0 / level:,.0f} for each."
        blocks.append(Table.build(caption, ["policy", "against", "guard", "E", "state"], guards))
    figures = [
        Figure(
            partial(draw_figure, f"evidence-{number}", partial(_draw_evidence, watch, 1.0 / level)),
            f"{watch.policy} against {watch.against}: E over time. At the line, it decides.",
            f"worse {_power(watch.trail[-1].harm)}, better {_power(watch.trail[-1].gain)}",
        )
        for number, watch in enumerate(watches)
        if len(watch.trail) > 1
    ]
    if figures:
        blocks.append(
            Figures(tuple(figures), (LegendEntry("it is worse", 0), LegendEntry("it is better", 1)))
        )
    return (*blocks, *_guardrails(found))


def _guardrails(found: Overview) -> tuple[Block, ...]:
    limit = LearnerSettings.model_validate(found.learner or {}).failures
    rows = [
        [name, f"{failed:,} of {asked:,}", f"{failed / asked:.1%}", f"{limit:.0%}"]
        for name, (failed, asked) in sorted(found.failures.items())
        if asked
    ]
    if not rows:
        return ()
    caption = (
        "Guardrail: answers that failed or came too late, by the fault of the policy, among the last ones."
    )
    return (Table.build(caption, ["policy", "failed", "share", "limit"], rows),)


def _alarm(found: Overview) -> float:
    return max(watch.harm.pages_per_alarm for watch in found.monitor.watches)


def _power(exponent: float) -> str:
    return f"10^{exponent:.1f}"


def learner_blocks(found: Overview, keys: bool) -> tuple[Block, ...]:
    """Whether the learner lives, what people decided about it, and the buttons to decide with."""
    control, beat = found.control, found.health.heartbeat
    decided = f"({control.why})"
    states = {
        "free": "It decides by itself, as far as its settings allow.",
        "held": f"{control.who} decided on what is live {decided}. The learner goes on learning and asking, "
        f"and changes nothing until it is resumed; a canary that does harm goes all the same.",
        "paused": f"{control.who} paused it {decided}: it neither learns nor deploys until it is resumed. "
        f"Impressions are sealed, and harm is watched.",
    }
    blocks: list[Block] = [Text(states[control.state], "plain" if control.state == "free" else "warning")]
    facts = [("state", control.state)]
    if beat is not None:
        alive = "yes" if found.health.alive else f"no, last seen {moment(beat.seen_at)}"
        facts += [
            ("alive", alive),
            ("last step", f"{moment(beat.stepped_at)}, {beat.step_seconds:.1f} s" if beat.steps else NONE),
            ("restarts", f"{beat.restarts}"),
        ]
    facts.append(("sealing is late by", f"{found.health.seal_lag:,.0f} s"))
    blocks.append(Facts(tuple(facts)))
    if control.state != "free":
        blocks.append(Button("Let the learner decide", LEARNER, (("action", "resume"),), keys, (WHY,)))
    if not control.paused:
        blocks.append(Button("Pause the learner", LEARNER, (("action", "pause"),), keys, (WHY,)))
    if found.trial is not None:
        label = f"End the trial of {found.trial.candidate}"
        blocks.append(Button(label, LEARNER, (("action", "end-trial"),), keys, (WHY,)))
    return tuple(blocks)


def moment(seconds: float) -> str:
    """A time as the page writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def draw_figure(name: str, draw: partial[None]) -> str:
    """A figure of the page, as an ``<svg>`` element."""
    from rankloop.reports.drawing import draw_svg

    return draw_svg(name, draw)


def _draw_evidence(watch: Watch, needed: float, axes: Axes) -> None:
    from rankloop.reports.drawing import draw_curve, draw_level

    pages = [float(point.pages) for point in watch.trail]
    draw_curve(axes, 0, pages, [point.harm for point in watch.trail])
    draw_curve(axes, 1, pages, [point.gain for point in watch.trail])
    draw_level(axes, math.log10(needed), "--")
    axes.set_xlabel("pages")
    axes.set_ylabel("E, as a power of ten")
    # What speaks against it may fall without end.
    axes.set_ylim(bottom=-2.0)
