"""How large a vocabulary a cut leaves, and what its output layer costs."""

import numpy as np
import numpy.typing as npt

NUM_POINTS = 12

Counts = npt.NDArray[np.integer]


def size_by_min_frequency(counts: Counts, threshold: int) -> int:
    """Words that occur at least so often.

    >>> size_by_min_frequency(np.array([50, 7, 7, 1]), 7)
    3
    """
    return int((counts >= threshold).sum())


def size_by_common_limit(counts: Counts, threshold: int) -> int:
    """Words that occur at most so often: common-word elimination, the opposite cut.

    >>> size_by_common_limit(np.array([50, 7, 7, 1]), 7)
    3
    """
    return int((counts <= threshold).sum())


def thresholds_for(counts: Counts, num_points: int = NUM_POINTS) -> list[int]:
    """Thresholds from 1 to the largest count, evenly spaced in the logarithm, as figure 5 of the study needs.

    >>> thresholds_for(np.array([50, 7, 7, 1]), 4)
    [1, 4, 14, 50]
    """
    return sorted({round(value) for value in np.geomspace(1, int(counts.max()), num_points).tolist()})


def output_parameters(num_cells: int, num_words: int) -> int:
    """Parameters of the layer that names the word: (cells + 1) * (V + 1), the 1s being the bias and the padding.

    >>> output_parameters(100, 10_000)  # "can reach to 1M"
    1010101
    """
    return (num_cells + 1) * (num_words + 1)


def output_bytes(num_words: int, length: int, batch_size: int, element_bytes: int = 4) -> int:
    """Bytes of the word scores of one batch: V * length * B numbers.

    >>> output_bytes(10_000, 100, 512)
    2048000000
    """
    return num_words * length * batch_size * element_bytes
