"""Finds the function that answers a request."""

import importlib
from typing import Any

from legroom.child.built_job import BuiltJob
from legroom.imports import uncollected
from legroom.requests import Request, record_kinds


def serve(request: Request[Any], built: BuiltJob) -> Any:
    """Answer one request in this process; what measures is imported only now."""
    module, _, function = record_kinds()[request.kind].answered_by.partition(":")
    with uncollected():
        answers = importlib.import_module(module)
    return getattr(answers, function)(request, built)
