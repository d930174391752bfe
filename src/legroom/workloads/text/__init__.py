"""Text as numbers: lines, vocabularies, sentence pairs and running text."""
