"""Reports: a result becomes a document, which is shown as a page, in the terminal or as Markdown."""
