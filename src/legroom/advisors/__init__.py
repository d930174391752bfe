"""DECIDE: logbook and laws in, recommendations out; one question a file. No torch, nothing is run."""
