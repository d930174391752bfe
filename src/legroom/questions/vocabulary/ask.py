"""`legroom vocabulary`: how large is a text's vocabulary, and what does it cost?"""

from dataclasses import replace
from pathlib import Path

from legroom.clock import monotonic
from legroom.errors import UsageError
from legroom.host import read_host
from legroom.questions.vocabulary.advice import WAYS, VocabularyAnswer, advise_vocabulary
from legroom.workloads.text.lines import number_lines, read_column
from legroom.workloads.text.vocabulary import TOKENS


def vocabulary(
    file: Path | str,
    *,
    by: str = "min-frequency",
    column: int = 0,
    tokens: str = "words",
    max_length: int = 100,
    num_cells: int = 128,
    batch_size: int = 512,
) -> VocabularyAnswer:
    """How large is a text's vocabulary by threshold or merges, and what does its output layer cost?"""
    for name, word, known in (("--by", by, WAYS), ("--tokens", tokens, TOKENS)):
        if word not in known:
            raise UsageError(f"{name} is {word!r}. Known: {', '.join(known)}")
    started = monotonic()
    answer = advise_vocabulary(
        number_lines(read_column(Path(file), column), tokens),  # type: ignore[arg-type]
        by=by,  # type: ignore[arg-type]
        max_length=max_length,
        num_cells=num_cells,
        batch_size=batch_size,
        file=str(file),
        machine=read_host().name,
    )
    return replace(answer, seconds=monotonic() - started)
