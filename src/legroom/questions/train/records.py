"""What training asks of a child: a run. Its records lie beside the loop, which other questions run too."""

from typing import TYPE_CHECKING

from legroom.errors import UsageError
from legroom.requests import RecordKind
from legroom.training.records import Train, Trained

if TYPE_CHECKING:
    from legroom.logbook import Records

RECORDS = (RecordKind(Train, Trained, "legroom.questions.train.child:train_job"),)
QUESTION = Train


def default_question(records: "Records") -> Train:
    """The last run that was asked for."""
    asked = [entry.request for entry in records.entries if isinstance(entry.request, Train)]
    if not asked:
        raise UsageError("The logbook holds no training run. Run legroom train again")
    return asked[-1]
