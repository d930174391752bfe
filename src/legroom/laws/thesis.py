"""The largest batch as seed work found it: a line through two probes of reserved bytes.

    M = B*(I + O) + X + 2*B*Y          B_max = (memory - X) / (I + O + 2*Y)

A. Tripathi, Analysis of Storage Bottlenecks in Deep Learning Models (2019), eq. 4.7 to 4.9: batches of 10 and 50, the
default allocator, 20 iterations, the mean of the last 15. I, O and Y always appear as the one slope I + O + 2Y.
"""

from collections.abc import Sequence

SIZES = (10, 50)
NUM_STEPS = 20
NUM_AVERAGED = 15
DEDUCTIONS = (1.0e9, 1.5e9)
"""Bytes to take off the memory "to handle the error" (below eq. 4.9)."""


def thesis_batch(reserved: Sequence[Sequence[int]], memory_bytes: float) -> int:
    """The largest batch by the rule, from the reserved bytes after each step at both sizes.

    >>> thesis_batch([[900] * 5 + [1000] * 15, [3000] * 20], 10_000)
    190
    """
    means = [sum(steps[-NUM_AVERAGED:]) / NUM_AVERAGED for steps in reserved]
    slope = (means[1] - means[0]) / (SIZES[1] - SIZES[0])
    fixed = means[0] - slope * SIZES[0]
    return max(0, int((memory_bytes - fixed) / slope)) if slope > 0 else 0
