"""What is in a log, and what each command will say to it: facts, and the commands' own answers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rankloop.bias import BiasAnswer, BiasOptions
from rankloop.errors import RankloopError
from rankloop.evidence.self_test import SelfTest, Setting
from rankloop.logs.facts import LogFacts
from rankloop.logs.sanity import count_clicks, read_graded_clicks
from rankloop.notebook import NotebookResult
from rankloop.offline._evaluate import evaluation_assumptions
from rankloop.offline.assumptions import AssumedBias, accounted_tests, ask_log, assume_bias, self_test_of
from rankloop.offline.comparison import BIAS
from rankloop.offline.division import read_documents
from rankloop.progress import Progress, report
from rankloop.statistics.intervals import FEW_UNITS
from rankloop.storage.plain import to_plain

if TYPE_CHECKING:
    from rankloop.logs import LogReader

Promise = Literal["yes", "partly", "no"]
# What each command makes of a log, in the order in which they are used.
COMMANDS = {
    "bias": "how users click",
    "relevance": "how relevant each document is",
    "fit": "a ranker",
    "evaluate": "what a ranker is worth",
    "pipeline": "all of it in one run",
}
# The curve to assume where nothing can be estimated: rank k is examined 1/k times as often as rank 1.
CURVE = "position@10(eta=1)"
# The password in the address of a database: reports are shown to others, who do not need it.
PASSWORD = re.compile(r"(//[^:@/]*):[^@/]*(?=@)")
ASSUME = f"Only with a bias that you give, such as --bias '{CURVE}': none can be estimated."


SEVERE = "It runs, but the first warning about the log says why nothing should be learned from it yet."
WHY = {
    "relevance": "How users click can be estimated.",
    "fit": "There are features, and how users click can be estimated.",
    "evaluate": "Rankings vary, and how users click can be estimated.",
}


@dataclass(frozen=True)
class CommandAnswer:
    """What a command will say to a log.

    Attributes:
        command: ``bias``, ``relevance``, ``fit``, ``evaluate`` or ``pipeline``.
        answer: ``yes``, it succeeds; ``partly``, it succeeds with what the text says; ``no``, it refuses.
        text: why; of a refusal, the words of the command.
        needs_bias: whether it succeeds only with a bias that is given.
    """

    command: str
    answer: Promise
    text: str
    needs_bias: bool = False


@dataclass(frozen=True)
class LogCheck(LogFacts, NotebookResult):
    """What is in a log, and what each command will say to it.

    Attributes:
        bias: the answer of `rankloop.bias.ask_bias`.
        answers: those of the commands, which follow from what they refuse.
        self_test: whether the clicks contradict what evaluations assume; None if no row can be tested.
        engine: what counted the log.
        master: where that is, without a password; None for the default.
    """

    document: ClassVar[str] = "rankloop.reports.check:check_document"
    bias: BiasAnswer
    answers: tuple[CommandAnswer, ...]
    self_test: SelfTest | None
    engine: str = "duckdb"
    master: str | None = None

    @property
    def usable(self) -> bool:
        """Whether anything should be learned from the log as it is."""
        return self.severe is None and any(answer.answer != "no" for answer in self.answers)

    @property
    def summary(self) -> str:
        """What the log can teach, in one sentence."""
        if not self.usable:
            return "Nothing should be learned from this log as it is."
        parts = []
        for promise, joint, sentence in (
            ("yes", "and", "can teach {}"),
            ("partly", "and", "can teach {} only in part"),
            ("no", "or", "cannot teach {}"),
        ):
            named = [
                COMMANDS[answer.command]
                for answer in self.answers
                if answer.answer == promise and answer.command != "pipeline"
            ]
            if named:
                *first, last = named
                parts.append(sentence.format(f"{', '.join(first)} {joint} {last}" if first else last))
        return f"This log {'; it '.join(parts)}."

    def answer(self, command: str) -> CommandAnswer:
        """The answer of a command."""
        return next(answer for answer in self.answers if answer.command == command)

    @property
    def next_step(self) -> str:
        """What to do next, in a sentence or two."""
        if self.severe is not None:
            return f"First: {self.severe}"
        if not self.usable:
            return self.answer("relevance").text
        if self.bias.estimate is None:
            return self.bias.remedy or self.bias.refusal
        if self.answer("fit").answer == "no":
            return (
                "Estimate how users click; then `rankloop relevance` gives the relevance of every document, "
                f"without features. A ranker cannot be fitted: {self.answer('fit').text}"
            )
        return "Estimate how users click; then fit a ranker and evaluate it."

    @property
    def command(self) -> str | None:
        """The command to run next; None if the log must be logged or imported again first."""
        folder = shlex.quote(str(self.log))
        if self.engine != "duckdb":
            folder += f" --engine {self.engine}"
        if self.master is not None:
            folder += f" --master {shlex.quote(self.master)}"
        if not self.usable:
            return None
        if self.bias.estimate is not None:
            return f"rankloop bias {folder} -o bias.json --report bias.html"
        if self.answer("fit").answer != "no":
            return f"rankloop fit {folder} --bias '{CURVE}' -o policy"
        return f"rankloop relevance {folder} --bias '{CURVE}'"

    def to_dict(self) -> dict[str, Any]:
        """The same as a dictionary for JSON."""
        return {
            "summary": self.summary,
            "answers": [asdict(answer) for answer in self.answers],
            "bias": self.bias.to_dict(),
            "next_step": self.next_step,
            "command": self.command,
            "self_test": to_plain(self.self_test),
            **super().to_dict(),
        }


def check_log(
    log: LogReader, options: BiasOptions, *, seed: int = 0, progress: Progress | None = None
) -> LogCheck:
    """Check what is in a log, and ask every command what it will say to it.

    The bias is asked with these options and this seed, at all positions, so that `rankloop bias` says the
    same. Only what cannot refuse is left out: most intervals, and the comparison on held-out queries.

    Args:
        log: the log.
        options: what is estimated of its bias.
        seed: the random seed.
        progress: called with what is being done.
    """
    facts = log.facts(progress=progress)
    report(progress, "check", note="asking how users click")
    try:
        bias = ask_log(log, options, seed=seed, decision_only=True, progress=progress)
    except RankloopError as error:
        bias = BiasAnswer(None, {options.method: str(error)})
    assumed = assume_bias(log, CURVE if bias.estimate is None else bias.estimate)
    report(progress, "check", note="asking what can be fitted and evaluated")
    known = {part.name: getattr(facts, part.name) for part in fields(LogFacts)}
    # A severe defect does not stop a command; it does what it can.
    caveat = () if facts.severe is None else (SEVERE,)

    def ask(command: str, find_caveats: Callable[[], tuple[str, ...]]) -> CommandAnswer:
        try:
            caveats = (*find_caveats(), *caveat)
        except RankloopError as error:
            return CommandAnswer(command, "no", str(error))
        if bias.estimate is None:
            return CommandAnswer(command, "partly", " ".join((ASSUME, *caveats)), needs_bias=True)
        return CommandAnswer(command, "partly" if caveats else "yes", " ".join(caveats) or WHY[command])

    relevance = ask("relevance", lambda: _caveats_of_relevance(log, assumed))
    fit = ask("fit", lambda: _caveats_of_fit(log, assumed))
    evaluation = ask("evaluate", lambda: _caveats_of_evaluation(log, assumed))
    report(progress, "check", note="testing assumptions")
    return LogCheck(
        **known,
        bias=bias,
        answers=(
            _answer_of_bias(bias, facts, caveat),
            relevance,
            fit,
            evaluation,
            _pipeline(fit, evaluation),
        ),
        self_test=self_test_of(log, assumed),
        engine=log.engine,
        master=None if log.master is None else PASSWORD.sub(r"\1", log.master),
    )


def _answer_of_bias(bias: BiasAnswer, facts: LogFacts, caveats: tuple[str, ...]) -> CommandAnswer:
    found = bias.estimate
    if found is None:
        return CommandAnswer("bias", "no", " ".join(bias.reasons) if bias.remedy else bias.refusal)
    text = f"From {found.method}, if {found.assumption}."
    if found.bias.positions < facts.positions:
        missing = found.movement.missing_positions
        caveats = (
            f"Only the first {found.bias.positions} of {facts.positions:,} positions"
            + (f": {missing}." if missing else "."),
            *caveats,
        )
    return CommandAnswer("bias", "partly" if caveats else "yes", " ".join((text, *caveats)))


def _caveats_of_relevance(log: LogReader, assumed: AssumedBias) -> tuple[str, ...]:
    count_clicks(log, assumed.bias)
    return ()


def _caveats_of_fit(log: LogReader, assumed: AssumedBias) -> tuple[str, ...]:
    """What to know before a ranker is fitted; trees take missing values, so they do not refuse."""
    grading, bias, _ = read_graded_clicks(log, assumed.bias)
    given = read_documents(log, bias, trees=True, grading=grading)
    queries = len(given.queries_to_divide())
    few = (f"{queries:,} queries are few to learn from.",) if queries < FEW_UNITS else ()
    return (*given.notes, *few)


def _caveats_of_evaluation(log: LogReader, assumed: AssumedBias) -> tuple[str, ...]:
    """What keeps a decision from being firm, if all queries are compared."""
    grading, bias, counts = read_graded_clicks(log, assumed.bias)
    grading.statistics(log, bias)
    came = counts.impressions_by_query > 0
    setting = Setting(accounted=accounted_tests(bias))
    found = evaluation_assumptions(log, counts, came, assumed, setting)
    doubts = [one for one in found.assumptions if one.state != "held"]
    caveats = []
    if any(one.name == BIAS for one in doubts):
        caveats.append("A ranker can then lean better or worse, but not firmly.")
    others = [one for one in doubts if one.name != BIAS]
    if others:
        because = " and ".join(one.text for one in others)
        caveats.append(f"No firm decision is possible: {because}. {others[0].remedy}")
    if 1 < came.sum() < FEW_UNITS:
        caveats.append(f"{came.sum()} queries are too few to tell how much queries differ.")
    return tuple(caveats)


def _pipeline(fit: CommandAnswer, evaluation: CommandAnswer) -> CommandAnswer:
    """It fits and evaluates, so it says what they say."""
    refused = next((one for one in (fit, evaluation) if one.answer == "no"), None)
    if refused is not None:
        return CommandAnswer("pipeline", "no", refused.text)
    reserved = [one.command for one in (fit, evaluation) if one.answer == "partly"]
    if not reserved:
        return CommandAnswer("pipeline", "yes", "Both a fit and its evaluation succeed.")
    return CommandAnswer("pipeline", "partly", f"See {' and '.join(reserved)}.", needs_bias=fit.needs_bias)
