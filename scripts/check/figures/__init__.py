"""The topics of docs/reference/results.md, a module a subject."""
