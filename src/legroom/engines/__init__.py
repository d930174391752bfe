"""WHERE questions and trials run: this machine's processes; a cluster later."""
