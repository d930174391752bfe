"""What a device and its card can do."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from legroom.records.environments import EXPANDABLE, Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureDevice:
    """Ask how fast the device is: matrix products and copies."""

    fresh: ClassVar[bool] = False
    environment: ClassVar[Environment | None] = None
    kind: Literal["measure_device"] = "measure_device"
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpeed:
    """Measured speeds of a device."""

    kind: Literal["device_speed"] = "device_speed"
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCard:
    """Ask how much memory of the GPU a process may have."""

    fresh: ClassVar[bool] = False
    environment: ClassVar[Environment | None] = EXPANDABLE
    kind: Literal["read_card"] = "read_card"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardMemory:
    """Memory of the GPU as a process sees it once its CUDA context stands."""

    kind: Literal["card_memory"] = "card_memory"
    name: str
    total_bytes: int
    free_bytes: int
    """What is left for torch: other processes and the context are already off."""
    capability: int
    """Major compute capability."""
