"""Answers as a person reads them in a terminal: a question a file."""
