"""Mistakes about jobs, as patches (programme P15).

See ``mistakes.py``. Every world that looks for them has jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from onceq.core.management import jobs as core
from onceq.core.state import job_table, snapshot
from onceq.model import letters
from onceq.model.letters import JobAction, JobState
from onceq.service import jobs as service_jobs
from proof.sim.apps import jobs
from tests.planted.mistakes import DAMAGED, Mistake, Plant
from tests.planted.planted import edited, replaced


@dataclass(frozen=True)
class InJobs:
    """A mistake in worlds with jobs."""

    plant: Plant

    def __call__(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(jobs, "SHARE", 1.0)
        self.plant(patch)


def begins_anew(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint does not say how far a job is."""
    dump = job_table.Jobs.dump

    def at_the_beginning(self: job_table.Jobs) -> list[list[Any]]:
        rows = dump(self)
        for row in rows:
            row[10:12] = [0, 0]
        return rows

    patch.setattr(job_table.Jobs, "dump", at_the_beginning)


def goes_on(job: job_table.Job) -> bool:
    """Whether it is not over, or was cancelled."""
    return job.state in (JobState.RUNNING, JobState.CANCELLED)


def _one(plant: Plant, *expected: str, first: int = 0) -> Mistake:
    return Mistake(0, InJobs(plant), frozenset(expected), first=first)


JOB_MISTAKES: dict[str, Mistake] = {
    "a checkpoint does not say how far a job is": _one(begins_anew, "I22"),
    "a batch leaves a job where it was": _one(
        edited(job_table, "self.at, self.after, self.more = mark.at, mark.after, mark.more",
               "self.at, self.more = mark.at, mark.more"),
        "I22", "I26",
    ),
    "jobs are forgotten in a checkpoint": _one(
        edited(snapshot, "        members.append((",
               '        name != "jobs" and members.append(('), DAMAGED
    ),
    "a job counts what was gone as done": _one(
        edited(core, "item.looked, len(sent),\n", "item.looked, len(item.deeds),\n"), "I22"
    ),
    "a job counts no failures": _one(
        edited(core, "len(failures), item.over", "0, item.over"),
        "I22",
    ),
    "a cancelled job goes on": _one(replaced(job_table.Job, "running", property(goes_on)), "I22"),
    "a job takes out what it sends as new": _one(
        replaced(core, "_REMOVES", frozenset(JobAction)), "I1"
    ),
    "a job leaves what it returns": _one(
        replaced(core, "_REMOVES", frozenset((JobAction.MOVE, JobAction.PURGE))), "I4", "I12"
    ),
    "a job leaves what it moves": _one(
        replaced(core, "_REMOVES", frozenset((JobAction.RETURN, JobAction.PURGE))), "I17", "I4"
    ),
    "a job takes out what it could not send": _one(
        edited(core, "_ranges(deed for deed, _ in sent)", "_ranges(there)"),
        "I1", "I14",
    ),
    "a job passes a message over": _one(
        edited(service_jobs, "deeds = tuple(self._deeds(done, parts))",
               "deeds = tuple(self._deeds(done, parts))[:3]"),
        "I22", "I26", first=80,
    ),
    "a job returns what is in doubt": _one(
        replaced(letters.Letter, "in_doubt", False), "I4"
    ),
}  # fmt: skip
