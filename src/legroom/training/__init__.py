"""DO: the one training step and loop that every probe, trial and run shares."""
