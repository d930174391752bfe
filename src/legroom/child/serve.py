"""Finds the function that answers a request."""

import importlib
from typing import Any

from legroom.child.built_job import BuiltJob
from legroom.requests import Request, record_kinds


def serve(request: Request[Any], built: BuiltJob) -> Any:
    """Answer one request in this process; what measures is imported only now."""
    module, _, function = record_kinds()[request.kind].answered_by.partition(":")
    return getattr(importlib.import_module(module), function)(request, built)
