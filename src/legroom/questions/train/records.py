"""What training asks of a child: a run. Its records lie beside the loop, which other questions run too."""

from legroom.requests import RecordKind
from legroom.training.records import Train, Trained

RECORDS = (RecordKind(Train, Trained, "legroom.questions.train.child:train_job"),)
