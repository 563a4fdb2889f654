"""Store a bias in a JSON file that people can also read and write."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rankloop.bias.bias_estimate import METHODS, VALUES, BiasEstimate, bias_details
from rankloop.errors import DataError, one_line
from rankloop.storage.files import write_whole
from rankloop.storage.plain import to_plain
from rankloop.types import Bias, BiasEvidence, ContextEffects

FORMAT, VERSION = "rankloop-bias", 1


def save_bias(bias: BiasEstimate | Bias, path: str | os.PathLike[str]) -> Path:
    """Store a bias, and for an estimate also its intervals and notes; `load_bias` reads the bias back.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = save_bias(Bias(alpha=[0.5], beta=[0.2], examination=[1.0]), f"{folder}/bias.json")
        ...     print(path.read_text())
        ...     load_bias(path).alpha
        {
          "format": "rankloop-bias",
          "version": 1,
          "alpha": [0.5],
          "beta": [0.2],
          "examination": [1.0]
        }
        <BLANKLINE>
        array([0.5])
    """
    return write_whole(path, bias_to_text(bias).encode(), read_back=load_bias)


def bias_to_text(bias: BiasEstimate | Bias, details: Mapping[str, Any] | None = None) -> str:
    """The content of a bias file.

    Args:
        bias: the bias, or an estimate, whose details are stored with it.
        details: what is known about how a plain bias was estimated, as `bias_details` returns it.
    """
    plain = bias.bias if isinstance(bias, BiasEstimate) else bias
    content: dict[str, Any] = {"format": FORMAT, "version": VERSION}
    content |= {name: to_plain(getattr(plain, name)) for name in VALUES}
    if plain.contexts is not None:
        content["contexts"] = to_plain(plain.contexts)
    known = bias_details(bias) if isinstance(bias, BiasEstimate) else details
    if known is not None:
        content["estimate"] = dict(known)
    return _format_json(content) + "\n"


def load_bias(path: str | os.PathLike[str]) -> Bias:
    """Load a bias that `save_bias` stored.

    Raises:
        DataError: the file does not exist, is damaged, or does not contain a bias.
    """
    return read_bias(path)[0]


def read_bias(path: str | os.PathLike[str]) -> tuple[Bias, dict[str, Any] | None]:
    """Load a bias and the details of how it was estimated, None if it was not; errors as in `load_bias`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path}: cannot read the bias: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not a bias file: it is not text") from error
    return bias_from_text(text, str(path))


def bias_from_text(text: str, where: str) -> tuple[Bias, dict[str, Any] | None]:
    """Read the bias that `bias_to_text` wrote, and its details, if there are any.

    Args:
        text: the content of a file.
        where: the file, for messages.
    """
    try:
        content = json.loads(text)
        return _bias(content), content.get("estimate")
    except json.JSONDecodeError as error:
        raise DataError(
            f"{where}, line {error.lineno}: the file is damaged or is not a bias file: {error.msg}"
        ) from error
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    except (ValueError, OverflowError, RecursionError) as error:
        raise DataError(f"{where}: the file is damaged or is not a bias file: {one_line(error)}") from error


def _bias(content: object) -> Bias:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f'not a bias file: it does not contain "format": "{FORMAT}"')
    version = content.get("version")
    if version != VERSION:
        raise DataError(
            f"the file has version {version!r}, but this program reads version {VERSION}: estimate "
            f"the bias again"
        )
    values = {}
    for name in VALUES:
        numbers = content.get(name)
        if not isinstance(numbers, list) or not all(_is_number(value) for value in numbers):
            raise DataError(f"{name!r} must be a list of numbers, one per rank, got {numbers!r}")
        values[name] = numbers
    evidence = _evidence(content.get("estimate"), len(values["alpha"]))
    return Bias(**values, evidence=evidence, contexts=_contexts(content.get("contexts")))  # type: ignore[arg-type]  # Bias converts lists to arrays


def _contexts(content: object) -> ContextEffects | None:
    """How much more users click in some contexts, if the file says so."""
    if content is None:
        return None
    if not isinstance(content, dict) or not {"of", "values", "factors"} <= set(content):
        raise DataError("'contexts' must have 'of', 'values' and 'factors'")
    try:
        values = tuple(map(str, content["values"]))
        return ContextEffects(str(content["of"]), values, *map(content.get, ("factors", "low", "high")))  # type: ignore[arg-type]  # converts lists to arrays
    except (TypeError, ValueError) as error:
        raise DataError(f"'contexts' are damaged: {one_line(error)}") from error


def _evidence(details: object, ranks: int) -> BiasEvidence | None:
    """Where the bias comes from, if the file says so."""
    if not isinstance(details, dict) or "method" not in details:
        return None
    method, resampled = details["method"], details.get("resampled")
    if method not in METHODS:
        raise DataError(f"the method of the estimate is {method!r}, expected one of {', '.join(METHODS)}")
    if resampled is None:
        return BiasEvidence(method)
    try:
        drawn = np.stack([np.asarray(resampled[name], np.float64) for name in VALUES], axis=1)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError("'resampled' must hold a table of numbers for alpha, beta and examination") from error
    if drawn.ndim != 3 or drawn.shape[2] != ranks or not np.isfinite(drawn).all():
        raise DataError(f"'resampled' must hold {ranks} finite numbers per resample, one per rank")
    return BiasEvidence(method, drawn)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _format_json(value: Any, depth: int = 0) -> str:
    """Format JSON with one line per name; tables have one line per row."""
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict) and value:
        lines = [
            f"{inner}{json.dumps(name)}: {_format_json(part, depth + 1)}" for name, part in value.items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{outer}}}"
    if isinstance(value, list) and any(isinstance(part, list | str) for part in value):
        lines = [f"{inner}{json.dumps(part, ensure_ascii=False)}" for part in value]
        return "[\n" + ",\n".join(lines) + f"\n{outer}]"
    return json.dumps(value, ensure_ascii=False)
