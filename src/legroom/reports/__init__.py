"""SAY: console and JSON from the same answers. No torch, nothing is measured."""
