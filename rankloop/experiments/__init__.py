"""Experiments: a spec in, results and figures out.

The public names are listed in ``__init__.pyi``, one line each; each is loaded when it is first used.
"""

from rankloop import extras

__getattr__, __dir__, __all__ = extras.attach_stub(__name__, __file__)
