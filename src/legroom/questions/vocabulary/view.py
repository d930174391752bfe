"""The vocabulary of a text as a person reads it in a terminal: a row and a bar for each threshold."""

from rich.console import Console
from rich.table import Table

from legroom.questions.vocabulary.advice import VocabularyAnswer
from legroom.reports.terminal import print_remarks, print_rows, print_title
from legroom.reports.views import View
from legroom.units import format_bytes

OTHER_CELLS = 76
"""Room that the columns of numbers take."""
HEADS = {"min-frequency": "at least", "common-limit": "at most", "merges": "merges"}


def print_vocabulary(console: Console, answer: VocabularyAnswer) -> None:
    """Sizes, bars, and what each costs."""
    print_title(console, answer, f"by {answer.by}")
    left_out = f", {answer.num_left_out:,} longer ones left out" if answer.num_left_out else ""
    told = f"of {answer.num_tokens:,} in {answer.num_lines:,} lines{left_out}"
    batch = f"word scores for a batch of {answer.batch_size:,}"
    rows = [("different words", f"{answer.num_words:,}", told), ("output layer", f"{answer.num_cells:,} cells", batch)]
    print_rows(console, rows)
    console.print()
    table = Table(HEADS[answer.by], "vocabulary", "", "unknown", "longest", "parameters", "word scores")
    room = max(4, min(40, console.width - OTHER_CELLS))
    largest = max(point["vocabulary_size"] for point in answer.points)
    for point in answer.points:
        size = point["vocabulary_size"]
        table.add_row(
            f"{point['at']:,}",
            f"{size:,}",
            "█" * round(room * size / max(1, largest)),
            f"{point['unknown_share']:.1%}",
            f"{point['length']:,}",
            f"{point['output_parameters']:,}",
            format_bytes(point["output_bytes"]),
        )
    console.print(table)
    print_remarks(console, answer)


VIEW = View(answer=VocabularyAnswer, print=print_vocabulary)
