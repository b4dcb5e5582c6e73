"""Mistakes about rights that stand in a directory for all who share it."""

from __future__ import annotations

from onceq.core import rights as required_rights
from onceq.core.management import rights
from onceq.core.state import snapshot
from onceq.directory import rights_file
from onceq.model import policy
from onceq.model import rights as model
from onceq.model import rights as shared
from onceq.service import naming
from tests.planted.planted import Planted, edited

CORE = "tests/unit/core/management/test_rights_shared.py::"
FILE = "tests/unit/directory/test_rights_file.py::"
NAMING = "tests/unit/service/test_naming.py::"

PLANTED = (
    Planted(
        "who-waits-keeps-its-right",
        edited(rights, "            look_again(step)\n", "            pass\n"),
        "tests/unit/core/test_rights.py::test_a_receive_that_waits_ends_when_its_right_goes",
    ),
    Planted(
        "the-directory-makes-administrators",
        edited(shared, "grant.rights - LOCAL_RIGHTS\n", "grant.rights\n"),
        CORE + "test_nobody_becomes_who_runs_a_queue_manager",
    ),
    Planted(
        "the-directory-means-accounts",
        edited(shared, "frozenset() if why_not(grant.who) else grant", "grant"),
        CORE + "test_only_who_is_the_same_everywhere_is_meant",
    ),
    Planted(
        "what-is-left-out-is-not-told",
        edited(rights, "    for what in left:\n", "    for what in left[:0]:\n"),
        CORE + "test_of_a_grant_the_rest_is_taken",
    ),
    Planted(
        "anybody-gives-rights-everywhere",
        edited(required_rights, "if item.everywhere or rights & WHOLE", "if rights & WHOLE"),
        CORE + "test_only_an_administrator_gives_rights_everywhere",
    ),
    Planted(
        "a-file-that-is-gone-takes-its-rights-along",
        edited(
            rights,
            "    if not trouble and item.book is not None:\n"
            "        _follow(step, item.book, known)\n",
            "    _follow(step, item.book or type(known)(), known)\n",
        ),
        CORE + "test_rights_that_are_gone_are_kept_and_that_is_told",
    ),
    Planted(
        "an-older-copy-is-believed",
        edited(rights, "if book.older_than(known):", "if False:"),
        CORE + "test_an_older_copy_is_not_followed",
    ),
    Planted(
        "numbers-count-whatever-the-book",
        edited(model, "return self.id == other.id and self.number", "return self.number"),
        CORE + "test_another_book_is_followed_and_so_is_none_any_more",
    ),
    Planted(
        "who-waits-keeps-a-right-of-the-directory",
        edited(rights, "    if taken:\n        look_again(step)\n", ""),
        CORE + "test_who_waits_and_what_is_open_ends_with_the_right",
    ),
    Planted(
        "a-checkpoint-forgets-the-rights-of-the-directory",
        edited(snapshot, "dump_grants(state.policy.shared.grants), list)", "[], list)"),
        CORE + "test_what_was_read_outlives_a_checkpoint",
    ),
    Planted(
        "a-revocation-here-takes-from-the-directory",
        edited(
            policy,
            "        for one in self.given(who, pattern):\n",
            "        self.shared = NO_RIGHTS\n        for one in self.given(who, pattern):\n",
        ),
        CORE + "test_what_was_given_here_stays_when_the_directory_takes_it",
    ),
    Planted(
        "what-is-given-everywhere-is-given-here",
        edited(rights, "    if item.everywhere:\n", "    if item.everywhere and item.take:\n"),
        CORE + "test_the_directory_is_changed_and_not_this_manager",
    ),
    Planted(
        "a-change-begins-with-an-older-copy",
        edited(shared, "not now.id or now.older_than(change.known)", "not now.id"),
        FILE + "test_an_older_copy_is_put_right_by_who_knows_better",
    ),
    Planted(
        "a-change-begins-with-what-the-asked-one-knows",
        edited(shared, "base = change.known if gone else now", "base = change.known"),
        FILE + "test_who_knows_less_does_not_undo_what_others_did",
    ),
    Planted(
        "a-book-begins-where-a-disk-is-away",
        edited(rights_file, "                os.stat(self._directory)\n", ""),
        FILE + "test_where_the_disk_is_away_nothing_begins",
    ),
    Planted(
        "everybody-can-write-rights",
        edited(rights_file, "if any(mode & stat.S_IWOTH for mode in modes):", "if False:"),
        FILE + "test_what_everybody_can_change_is_not_read_nor_written_again",
    ),
    Planted(
        "rights-are-read-once",
        edited(rights_file, "if stamp == self._stamp and self._seen is not None:",
               "if self._seen is not None:"),
        FILE + "test_what_is_given_is_read_by_others",
    ),
    Planted(
        "rights-are-followed-when-it-happens",
        edited(naming, "(requests.EditDirectory, requests.SetRights, requests.ExplainRight)",
               "(requests.EditDirectory,)"),
        NAMING + "test_who_is_asked_about_rights_looks_at_once",
    ),
    Planted(
        "rights-stay-when-the-directory-is-left",
        edited(naming, "self._learn_rights(now, SeenRights(NO_RIGHTS))", "pass"),
        NAMING + "test_without_a_directory_there_are_no_rights_in_it",
    ),
)  # fmt: skip
