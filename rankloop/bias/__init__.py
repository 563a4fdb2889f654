"""Estimate click bias from a log: α and β per rank, with intervals and a check that the log identifies them.

``__init__.pyi`` lists the public names, one per line. Each name is loaded on first use.
"""

from rankloop import extras

__getattr__, __dir__, __all__ = extras.attach_stub(__name__, __file__)
