"""Learn ranking policies from clicks, counterfactually and online, with exact Plackett–Luce mathematics.

The public names are listed in ``__init__.pyi``, one line each; each is loaded when it is first used.
"""

from rankloop import extras
from rankloop._version import __version__ as __version__

__getattr__, __dir__, __all__ = extras.attach_stub(__name__, __file__)
