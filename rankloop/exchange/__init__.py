"""Models ↔ files of search engines and other programs: OpenSearch, Elasticsearch, Solr, Vespa, ONNX, XGBoost.

The public names are listed in ``__init__.pyi``, one line each; each is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
