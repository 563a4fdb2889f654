"""How users click, from a log: α and β by rank, how sure they are, and whether the log can tell."""
