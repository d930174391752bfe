"""`legroom vocabulary`: how large is a text's vocabulary, and what does it cost?"""

from dataclasses import replace
from pathlib import Path

from legroom.questions.base import check_word
from legroom.questions.vocabulary.advice import WAYS, VocabularyAnswer, advise_vocabulary
from legroom.session import Run
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
    run: Run | None = None,
) -> VocabularyAnswer:
    """How large is a text's vocabulary by threshold or merges, and what does its output layer cost?"""
    check_word("--by", by, WAYS)
    check_word("--tokens", tokens, TOKENS)
    run = run or Run()
    started = run.clock()
    answer = advise_vocabulary(
        number_lines(read_column(Path(file), column), tokens),  # type: ignore[arg-type]
        by=by,  # type: ignore[arg-type]
        max_length=max_length,
        num_cells=num_cells,
        batch_size=batch_size,
        file=str(file),
        machine=run.host.name,
    )
    return replace(answer, seconds=run.clock() - started)
