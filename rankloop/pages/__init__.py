"""Pages of HTML that need nothing from anywhere else, and figures with one look.

`rankloop.pages.look` draws: it loads matplotlib, which the rest of this package does without.
"""
