"""The sections of a report, in the order in which they stand on the page."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from rankloop.experiments.report import plots
from rankloop.experiments.results import RunResult
from rankloop.experiments.run import PREPARED
from rankloop.experiments.starting_policy import PEAKED_ADVICE
from rankloop.experiments.summary import CONFIDENCE, Group, configuration, summarise
from rankloop.reports.html import Html, element, joined, listing, table

NONE = "–"
# The stages of the loop by what they do, for the table of times.
STAGES = {
    PREPARED: "starting policy, baselines",
    "gathered": "gathering clicks",
    "trained": "training",
    "evaluated": "evaluating",
    "deployed": "deploying",
}


def heading(groups: Sequence[Group], metric: str) -> Html:
    """What the page is about, and how to read its numbers."""
    runs = [run for group in groups for run in group.runs]
    datasets = distinct(run.facts.dataset for run in runs)
    queries = " or ".join(distinct(f"{run.facts.queries['test']:,}" for run in runs))
    counted = "One run" if len(runs) == 1 else f"{len(runs)} runs"
    intervals = (
        f" Where runs differ in their seed alone, numbers are means with {CONFIDENCE:.0%} confidence "
        "intervals (Student’s t)."
        if any(len(group.runs) > 1 for group in groups)
        else ""
    )
    return joined(
        element("h1", f"Learning to rank from clicks: {', '.join(datasets)}"),
        element(
            "p",
            f"{counted}. Values are the expected {metric} on {queries} test queries when rankings are drawn "
            f"from a policy, computed exactly from the true labels, which learning never sees.{intervals}",
        ),
    )


def results(groups: Sequence[Group], metric: str) -> Html:
    """The final table."""
    rows = []
    for line in map(summarise, groups):
        name = Html(f"{element('span', line.group.name)}{element('span', line.group.label, class_='label')}")
        gain = ("" if line.gain.value < 0 else "+") + str(line.gain)
        bound = line.oracle or NONE
        values = [line.learned, gain, line.start, bound, line.logging, line.shown]
        rows.append([name, *values, f"{line.timesteps:,}", line.interventions])
    head = [
        "run",
        "learned",
        "learned − start",
        "start",
        "oracle",
        "logging at the end",
        "shown on average",
        "interactions",
        "interventions",
    ]
    unfinished = [plots.called(group) for group in groups if not group.finished]
    return joined(
        element("h2", "Results"),
        table(f"{metric} on the test queries", head, rows),
        element(
            "p",
            "Learned: the policy learned in the end. Oracle: the same learner from the same start, "
            "trained on the true relevance. Logging at the end: the policy that gathered the last clicks. "
            "Shown on average: what users were shown over all interactions; against the start it is the "
            "price of exploring, or the gain on the way.",
            class_="quiet",
        ),
        *(element("p", f"{name} has not come to its end yet.", class_="warning") for name in unfinished),
    )


def values(groups: Sequence[Group], metric: str) -> Html:
    """The curves of the learned and of the logging policies."""
    return joined(
        element("h2", "Learned and logging policies"),
        plots.levels_legend(groups),
        plots.value_figures(groups, metric),
    )


def estimates(groups: Sequence[Group]) -> Html:
    """What one would know without labels."""
    return joined(
        element("h2", "The estimate and the truth"),
        element(
            "p",
            "The reward of the learned policy as held-out clicks estimate it, with the noise (90 %) that one "
            "run has over its queries, beside the true reward on the same queries. Clipping makes estimates "
            "too small.",
        ),
        plots.legend(groups, ("true reward", plots.TRUTH_DASHES)),
        plots.estimate_figures(groups),
    )


def support(groups: Sequence[Group]) -> Html:
    """What is left to learn from."""
    return joined(
        element("h2", "Support: what is left to learn from"),
        element(
            "p",
            "An item’s expected α is how much its clicks tell of its relevance, averaged over the rankings "
            "of the policy that logs. Of items that are hardly ever shown, next to nothing is learned.",
        ),
        plots.legend(groups),
        plots.support_figures(groups),
    )


def starting(runs: Sequence[RunResult]) -> Html:
    """How peaked the starting policies are."""
    rows, peaked = [], []
    for run in {(run.facts.start_fingerprint, run.spec.data): run for run in runs}.values():
        sure = run.facts.peakedness
        start = f"{run.spec.start}, {run.facts.start_kind} {run.facts.start_fingerprint}"
        shares = [f"{share:.1%}" for share in sure.support.values()]
        rows.append([start, f"{run.facts.start:.4f}", f"{sure.top_first:.3f}", *shares])
        if sure.nearly_deterministic:
            peaked.append(element("p", f"{start}: {PEAKED_ADVICE}", class_="warning"))
    levels = [f"items with expected α below {level}" for level in runs[0].facts.peakedness.support]
    return joined(
        element("h2", "The starting policy"),
        table(
            "How peaked it is, on the training and validation queries that clicks come from",
            ["starting policy", "value", "chance of its favourite to come first", *levels],
            rows,
        ),
        *peaked,
    )


def setup(runs: Sequence[RunResult]) -> Html:
    """What was run: what all runs share, their data, and the users that clicked."""
    parts = [configuration(run) for run in runs]
    shared = [
        (name.replace("_", " "), value)
        for name, value in parts[0].items()
        if all(part[name] == value for part in parts)
    ]
    data = {
        (run.spec.data, run.spec.fold): [
            run.facts.dataset,
            *(f"{run.facts.queries[split]:,}" for split in run.facts.queries),
            f"{sum(run.facts.documents.values()):,}",
            run.facts.features,
        ]
        for run in runs
    }
    return joined(
        element("h2", "What was run"),
        listing(shared),
        table(
            "The data",
            ["", *(f"{split} queries" for split in runs[0].facts.queries), "documents", "features"],
            list(data.values()),
        ),
        *(_users(run) for run in {run.spec.users: run for run in runs}.values()),
    )


def _users(run: RunResult) -> Html:
    facts = run.facts
    ranks = [f"rank {k}" for k in range(1, len(facts.alpha) + 1)]
    named = (("α", facts.alpha), ("β", facts.beta), ("examination", facts.examination))
    return table(
        f"How users click ({run.spec.users}): an item of relevance R at rank k with the chance α R + β",
        ["", *ranks],
        [[name, *(f"{value:.4f}" for value in values)] for name, values in named],
    )


def timing(runs: Sequence[RunResult]) -> Html:
    """Where the time went."""
    rows = [
        [
            run.name,
            *(f"{run.timing.get(stage, 0.0):.1f}" for stage in STAGES),
            f"{sum(run.timing.values()):.1f}",
        ]
        for run in runs
    ]
    return joined(
        element("h2", "Time"),
        table(
            "Seconds, of all the times that a run was gone on with", ["run", *STAGES.values(), "all"], rows
        ),
    )


def reproduction(runs: Sequence[RunResult]) -> Html:
    """The commands that make these runs again."""
    versions = ", ".join(sorted({run.version for run in runs}))
    commands = [run.spec.command(run.name) for run in runs]
    commands.append(shlex.join(["rankloop", "report", *(run.name for run in runs)]))
    return joined(
        element("h2", "Run it again"),
        element("p", f"With rankloop {versions}; the same seed on the same machine gives the same numbers."),
        element("pre", element("code", "\n\n".join(commands))),
    )


def rows(runs: Sequence[RunResult]) -> Html:
    """Every number that is drawn, run by run."""
    tables = []
    for run in runs:
        levels = list(run.rows[0].support)
        head = [
            "interactions",
            "learned",
            "logging",
            "estimate",
            "± (standard error)",
            "truth",
            "start kept",
            "scale",
        ]
        body = [
            [
                f"{row.timesteps:,}",
                f"{row.learned:.4f}",
                f"{row.logging:.4f}",
                NONE if row.estimate is None else f"{row.estimate:.4f}",
                NONE if row.estimate_error is None else f"{row.estimate_error:.4f}",
                f"{row.truth:.4f}",
                "yes" if row.kept_start else "no",
                f"{row.scale:.3g}",
                *(f"{row.support[level]:.1%}" for level in levels),
            ]
            for row in run.rows
        ]
        caption = f"{run.name}: {run.spec.learner}, seed {run.spec.seed}"
        content = table(caption, [*head, *(f"below {level}" for level in levels)], body)
        tables.append(element("details", element("summary", caption), content))
    return joined(element("h2", "Every evaluation"), *tables)


def distinct(values: Iterable[str]) -> list[str]:
    """Each value once, in the order in which it first comes."""
    return list(dict.fromkeys(values))
