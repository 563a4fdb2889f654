"""The paper's experiments: every figure and every claim, from one call.

The public names are listed in ``__init__.pyi``; each is loaded when it is first used, so that the command
line can read the presets without loading the rest.
"""

from rankloop import extras

__getattr__, __dir__, __all__ = extras.attach_stub(__name__, __file__)
