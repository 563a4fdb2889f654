"""LightGBM's own text, which any LightGBM loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rankloop.exchange.formats import Export, ExportFormat, PolicySource, names_note
from rankloop.models import LightGBMModel
from rankloop.models.feature_names import with_names
from rankloop.registry import register


@register
@dataclass(frozen=True)
class LightGBM(ExportFormat):
    """LightGBM's own text, which any LightGBM loads: trees that LightGBM trained."""

    name: ClassVar[str] = "lightgbm"
    suffix: ClassVar[str] = ".txt"

    def write(self, source: PolicySource) -> Export:
        """The text of the model.

        Raises:
            ExportError: it is not a model of LightGBM.
        """
        model = with_names(source.model, source.known_names)
        if not isinstance(model, LightGBMModel):
            raise self.refuse(source, "it was not trained by LightGBM", ("xgboost", "onnx"))
        return Export(str(self), model.text.encode(), self.suffix, notes=names_note(source))
