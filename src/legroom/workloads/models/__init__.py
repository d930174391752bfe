"""The networks of the built-in jobs."""
