"""Takes an option that has no default."""


def job(width, depth: int = 1, *layers, **more):
    raise AssertionError("nobody gave the width")
