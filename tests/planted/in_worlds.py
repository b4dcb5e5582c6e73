"""Every mistake that the simulator finds and names."""

from __future__ import annotations

from tests.planted.consumer_mistakes import CONSUMER_MISTAKES
from tests.planted.group_mistakes import GROUP_MISTAKES
from tests.planted.job_mistakes import JOB_MISTAKES
from tests.planted.lying_mistakes import LYING_MISTAKES
from tests.planted.mistakes import MISTAKES
from tests.planted.pause_mistakes import PAUSE_MISTAKES
from tests.planted.reader_mistakes import READER_MISTAKES
from tests.planted.rights_mistakes import RIGHTS_MISTAKES
from tests.planted.row_mistakes import ROW_MISTAKES
from tests.planted.shared_mistakes import SHARED_MISTAKES
from tests.planted.whole_mistakes import WHOLE_MISTAKES

ALL = (
    MISTAKES
    | SHARED_MISTAKES
    | GROUP_MISTAKES
    | ROW_MISTAKES
    | READER_MISTAKES
    | RIGHTS_MISTAKES
    | LYING_MISTAKES
    | PAUSE_MISTAKES
    | JOB_MISTAKES
    | CONSUMER_MISTAKES
    | WHOLE_MISTAKES
)
