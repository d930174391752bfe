"""The file cannot be imported: it needs a module that nobody has."""

import a_module_that_nobody_has  # noqa: F401


def job():
    raise AssertionError("never reached")
