"""UNDERSTAND: one law a file: formula, fit, interval, source. No torch."""
