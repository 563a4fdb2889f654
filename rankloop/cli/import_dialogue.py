"""What `rankloop import FILES` shows and asks before it imports."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rankloop.cli import console
from rankloop.errors import RankloopError

if TYPE_CHECKING:
    from rankloop.cli.logs import ImportTarget
    from rankloop.logs.importers.mapping import AnyMapping
    from rankloop.logs.importers.proposal import Proposal, Question

KEYS = "Enter to import, e to edit the mapping, q to stop"


def settle_mapping(
    files: list[Path],
    given: AnyMapping | None,
    target: ImportTarget,
    *,
    asks: bool,
    shows: bool,
    dry_run: bool,
) -> Proposal | None:
    """Show what would be imported, and ask a person where there is one; None if nothing is to be imported.

    Args:
        files: the files.
        given: the mapping, as far as it is known.
        target: where the log is written.
        asks: whether a person may be asked.
        shows: whether the proposal is shown.
        dry_run: whether to stop after it is shown.

    Raises:
        RankloopError: something has to be decided, and nobody can be asked.
    """
    from rankloop.logs.importers.proposal import propose

    asks = asks and sys.stdin.isatty() and sys.stdout.isatty() and not target.as_json
    proposal = propose(files, given)
    while True:
        if proposal.refusal is not None and not proposal.questions:
            raise proposal.refusal
        if (shows and not target.as_json) or dry_run:
            _show(proposal, files)
        if dry_run:
            return None
        if not asks:
            if not proposal.is_certain:
                raise _to_decide(proposal, files, target)
            return proposal
        if proposal.questions:
            answers = {question.field: _ask(question) for question in proposal.questions}
            proposal = propose(files, proposal.answered(answers))
            continue
        answer = typer.prompt(KEYS, default="", show_default=False).strip().lower()
        if answer == "q":
            return None
        if answer == "":
            return proposal
        proposal = propose(files, _edit(proposal, files, target))


def _show(proposal: Proposal, files: list[Path]) -> None:
    from rankloop.logs.importers.mapped import check_look
    from rankloop.reports.import_report import proposal_document

    examples, failure = ((), "") if proposal.refusal is not None else check_look(proposal, files)
    source = ", ".join(map(str, files))
    console.print_document(proposal_document(proposal, source, examples, failure))


def _ask(question: Question) -> str:
    """A person's answer: a number of the list, or a name."""
    console.print_out(f"{question.field}: {question.why}" if question.why else f"{question.field}:")
    for number, option in enumerate(question.options, 1):
        console.print_out(f"  {number}  {'none' if option == '-' else option}")
    while True:
        answer = str(typer.prompt("which", default="1")).strip()
        if answer.isdecimal() and 1 <= int(answer) <= len(question.options):
            return question.options[int(answer) - 1]
        if answer in question.options:
            return answer
        console.print_out(f"a number from 1 to {len(question.options)}, please")


def _edit(proposal: Proposal, files: list[Path], target: ImportTarget) -> AnyMapping:
    """The mapping after a person has edited its file."""
    import click

    from rankloop.logs.importers.mapping import read_mapping

    path = _write(proposal, files, target)
    while True:
        click.edit(filename=str(path))
        try:
            return read_mapping(path)
        except RankloopError as error:
            console.print_err(str(error))
            if not typer.confirm("edit it again?", default=True):
                raise


def _write(proposal: Proposal, files: list[Path], target: ImportTarget) -> Path:
    from rankloop.logs.importers.mapping import write_mapping
    from rankloop.logs.importers.proposal import mapping_path

    path = mapping_path(target.out)
    heading = [f"How {', '.join(map(str, files))} is read. Then: {_command(files, path, target)}"]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_mapping(path, proposal.to_toml(heading))
    return path


def _to_decide(proposal: Proposal, files: list[Path], target: ImportTarget) -> RankloopError:
    path = _write(proposal, files, target)
    asked = "; ".join(map(str, proposal.questions)) or str(proposal.refusal)
    return RankloopError(
        f"{asked}. Nothing was imported. Decide it in {path}, then run: {_command(files, path, target)}"
    )


def _command(files: list[Path], path: Path, target: ImportTarget) -> str:
    return shlex.join(["rankloop", "import", *map(str, files), "--map", str(path), "-o", str(target.out)])
