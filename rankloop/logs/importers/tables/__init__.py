"""Tables as people have them: nested columns, lists of documents, events, features, guessed names."""
