"""The files in the folders of runs and setups: their names, and how they are read back.

spec.json            the spec, and the version
facts.json           what is known before the first impression: data, users, values of the baselines
results.jsonl        one row per evaluation
timing.json          where the time went, in seconds
start.rankloop       the starting policy
oracle.rankloop      the oracle baseline, if it was trained
supervised.rankloop  the supervised baseline, if it was trained
checkpoint.rankloop  the state after the last event, until the run has finished
learned.rankloop     the policy learned in the end: a run that has it has finished
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from rankloop.errors import RankloopError
from rankloop.names import UnknownNameError
from rankloop.storage.files import write_whole

SPEC, FACTS, RESULTS, TIMING = "spec.json", "facts.json", "results.jsonl", "timing.json"
START, CHECKPOINT, LEARNED = "start.rankloop", "checkpoint.rankloop", "learned.rankloop"

Content = TypeVar("Content", bound=BaseModel)


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RankloopError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise RankloopError(f"{path} is damaged: it is not UTF-8 ({error.reason})") from error
    return parse_json(text, path)


def read_object(path: Path) -> dict[str, Any]:
    """The content of a JSON file that holds an object."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise RankloopError(f"{path} is damaged: it holds {type(content).__name__}, not an object")
    return content


def parse_json(text: str, path: Path) -> Any:
    """The content of a text that was read from a path."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RankloopError(f"{path} is damaged: it is not valid JSON: {error}") from error


def write_json(path: Path, content: object) -> None:
    """Write a JSON file, whole or not at all."""
    write_whole(path, json.dumps(content, indent=2).encode(), read_back=read_json)


def read_model(kind: type[Content], path: Path) -> Content:
    """A value that was written as JSON."""
    return validate(kind, read_json(path), path)


def validate(kind: type[Content], content: object, path: Path) -> Content:
    """A value from its parsed JSON; the path is for the error message."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its content"
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, UnknownNameError):
            raise RankloopError(
                f"{path}: {where}: {cause}. A class of your own is not registered here: import its module "
                "first; for the command line, install it as a plug-in (docs/extending.md)"
            ) from error
        raise RankloopError(
            f"{path} is damaged, or was written by another version of rankloop: {where}: {first['msg']}"
        ) from error


def check_same(folder: Path, what: str, stored: Mapping[str, object], asked: Mapping[str, object]) -> None:
    """Refuse to continue in a folder that holds something else.

    Args:
        folder: the folder.
        what: what it holds, such as ``run``.
        stored: the fields that are stored in it.
        asked: the requested fields.

    Raises:
        RankloopError: a requested field differs from the stored one.
    """
    for name, value in asked.items():
        if stored.get(name) != value:
            raise RankloopError(
                f"{folder} holds another {what} (its {name} is {stored.get(name)!r}, not {value!r}): "
                "choose another folder, or remove this one"
            )
