"""Words of `legroom plan`."""

from typing import Any

from legroom.cli import options


def words(
    memory: options.Memory = None, card: options.Card = None, precision: options.Precision = None
) -> dict[str, Any]:
    """What should I run? Takes the answers in the folder, proves that the batch fits, and writes plan.toml."""
    return {"memory": memory, "card": card, "precision": precision}
