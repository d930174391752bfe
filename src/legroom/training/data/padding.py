"""What joining sentences of unequal length into batches wastes, and the buckets that waste least."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Lengths = Sequence[int] | npt.NDArray[np.integer]


def bucket_borders(lengths: Lengths, num_buckets: int) -> list[int]:
    """The lengths to pad to that need the fewest padded places, by dynamic programming over the distinct lengths.

    With distinct lengths l_1 < ... < l_m and N_j samples of at most l_j, the places of the best k buckets up to l_j are

        P_k(j) = min over i < j of  P_(k-1)(i) + l_j * (N_j - N_i),    P_0(0) = 0

    and the border of the last bucket is l_m. Exact; takes m^2 * k steps. After Khomenko et al. 2016, Accelerating
    recurrent neural network training using sequence bucketing and multi-GPU data parallelization (arXiv:1708.05604).

    >>> bucket_borders([1, 2, 2, 9, 10, 10], num_buckets=2)
    [2, 10]
    """
    assert num_buckets >= 1, num_buckets
    values, counts = np.unique(np.asarray(lengths), return_counts=True)
    below = np.concatenate([[0], np.cumsum(counts)])
    best = np.full(len(values) + 1, np.inf)
    best[0] = 0.0
    starts: list[list[int]] = []
    for _ in range(min(num_buckets, len(values))):
        costs = [best[:end] + values[end - 1] * (below[end] - below[:end]) for end in range(1, len(values) + 1)]
        starts.append([0, *(int(np.argmin(cost)) for cost in costs)])
        best = np.array([0.0, *(cost.min() for cost in costs)])
    return _walk_back(values, starts)


def _walk_back(values: npt.NDArray[np.integer], starts: list[list[int]]) -> list[int]:
    borders: list[int] = []
    end = len(values)
    for choice in reversed(starts):
        if end == 0:
            break
        borders.append(int(values[end - 1]))
        end = choice[end]
    return borders[::-1]


def padded_lengths(lengths: Lengths, borders: Sequence[int]) -> npt.NDArray[np.integer]:
    """The border that each sample is padded to: the first that is not below its length.

    >>> padded_lengths([1, 2, 9], [2, 10]).tolist()
    [2, 2, 10]
    """
    return np.asarray(borders)[np.searchsorted(borders, np.asarray(lengths))]
