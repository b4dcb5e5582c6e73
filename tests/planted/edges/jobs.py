"""Mistakes about jobs of a queue manager: what is done twice, counted wrongly, or not allowed."""

from __future__ import annotations

from onceq.core import rights as required_rights
from onceq.core.management import jobs as core
from onceq.core.state import job_table, snapshot
from onceq.model.letters import JobAction
from onceq.service import jobs
from tests.planted.planted import Planted, edited, replaced

CORE = "tests/unit/core/management/test_jobs.py::"
TABLE = "tests/unit/core/state/test_job_table.py::"
SERVICE = "tests/unit/service/test_jobs.py::"

PLANTED = (
    Planted(
        "progress-of-a-job-is-a-record-of-its-own",
        edited(
            core, "        step.record(made.change)\n",
            "        marks, made.change.marks = made.change.marks, None\n"
            "        step.record(made.change)\n"
            "        made.change.__init__(step.now.wall_s, marks=marks)\n"
            "        step.record(made.change)\n",
        ),
        CORE + "test_a_batch_takes_out_sends_again_and_is_counted_in_one_record",
    ),
    Planted(
        "a-batch-of-a-job-is-done-wherever-the-job-is",
        edited(core, "(job.at, job.after) != (item.at, item.before)", "False"),
        CORE + "test_a_batch_that_was_done_is_not_done_again",
    ),
    Planted(
        "a-job-does-what-came-later",
        edited(core, "if counter >= dict(source.ends).get(index, 0):", "if False:"),
        CORE + "test_what_came_later_or_was_taken_is_not_done",
    ),
    Planted(
        "a-job-takes-out-what-it-sends-as-new",
        replaced(core, "_REMOVES", frozenset(JobAction)),
        CORE + "test_what_is_sent_as_new_stays",
    ),
    Planted(
        "a-job-takes-out-what-it-could-not-send",
        edited(core, "_ranges(deed for deed, _ in sent)", "_ranges(there)"),
        CORE + "test_what_cannot_be_sent_stays_and_is_named",
    ),
    Planted(
        "a-job-fails-messages-while-the-disk-is-full",
        edited(core, "except (errors.StorageReserve, errors.NoDirectory):",
               "except errors.NoDirectory:"),
        CORE + "test_when_the_disk_is_nearly_full_a_job_waits_and_says_so",
    ),
    Planted(
        "a-job-keeps-the-rights-of-its-start",
        edited(
            core, "check_all(step, actor, of_job(step, job.order, [source.name]))", "pass"
        ),
        CORE + "test_a_job_whose_starter_may_no_longer_take_fails",
    ),
    Planted(
        "a-job-sends-for-whom-may-not",
        edited(core, "check_all(step, actor, sends(step, (deed.item,)))", "pass"),
        CORE + "test_a_message_that_its_starter_may_not_send_stays",
    ),
    Planted(
        "an-expired-token-has-its-jobs-done",
        edited(core, "(token is None or token.over(step.now.wall_s)):", "False:"),
        CORE + "test_a_job_of_a_token_that_has_expired_fails",
    ),
    Planted(
        "everybody-cancels-every-job",
        edited(required_rights, "if job is None or job.who != step.known_by(item.owner):",
                                                                            "if False:"),
        CORE + "test_each_sees_and_cancels_his_own",
    ),
    Planted(
        "jobs-that-run-are-forgotten",
        edited(
            job_table, "over = [one for one in self._jobs.values() if not one.running]",
            "over = list(self._jobs.values())",
        ),
        TABLE + "test_of_those_that_are_over_the_oldest_are_forgotten_and_none_that_runs",
    ),
    Planted(
        "checkpoints-forget-jobs",
        edited(snapshot, "        members.append((",
               '        name != "jobs" and members.append(('),
        CORE + "test_jobs_survive_a_checkpoint_and_the_log",
    ),
    Planted(
        "a-job-ends-at-its-limit-though-some-failed",
        edited(jobs, "left = order.limit - self._work.done", "left = order.limit"),
        SERVICE + "test_a_limit_ends_it_and_a_filter_passes_over",
    ),
)  # fmt: skip
"""Mistakes, each with what finds it."""
