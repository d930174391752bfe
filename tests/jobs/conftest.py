"""These files are jobs that tests hand to legroom; pytest must not import them, and some cannot be imported."""

collect_ignore_glob = ["*.py"]
