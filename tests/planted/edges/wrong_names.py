"""Mistakes where names of computers meet identities."""

from __future__ import annotations

from onceq.core import manager
from onceq.core import names as resolve
from onceq.core.management import views
from onceq.core.peers import strangers
from onceq.core.transfer import connecting
from onceq.directory import contract
from tests.planted.planted import Planted, edited

EXPLAINED = "tests/conformance/test_names_explained.py::test_"
NAMES = "tests/conformance/test_wrong_names.py::test_"

PLANTED = (
    Planted(
        "whoever-answers-is-given-what-is-for-a-public-queue",
        edited(connecting, 'return (protocol, host, guid, "", pinned, None)',
               'return (protocol, host, NO_GUID if host else guid, "", pinned, None)'),
        NAMES + "a_public_queue_is_at_the_queue_manager_that_the_directory_names",
    ),
    Planted(
        "localhost-in-a-packet-is-its-reader",
        edited(resolve, "name.host.casefold() in step.names.everybody", 'name.host == "."'),
        NAMES + "answers_find_the_way_back_when_a_queue_of_localhost_is_named",
    ),
    Planted(
        "messages-for-another-computer-are-taken-in-silence",
        edited(resolve, 'return "" if is_one_of(host, step.names.own_names) else host',
               'return ""'),
        NAMES + "messages_for_another_computer_are_taken_and_told_of",
    ),
    Planted(
        "a-computer-has-every-name-that-is-looked-for",
        edited(manager, "return host if is_one_of(host, names.own_names) else names.called",
               "return host"),
        "tests/unit/core/test_manager.py::test_it_answers_to_names_that_it_has",
    ),
    Planted(
        "the-directory-is-not-asked-who-answers",
        edited(strangers, "entry.guid in (NO_GUID, item.peer)", "entry.guid"),
        NAMES + "a_peer_that_does_not_say_what_it_is_called_is_known_by_the_directory",
    ),
    Planted(
        "a-private-name-needs-the-directory-although-a-direct-one-has-joined",
        edited(connecting, "return (direct.protocol, direct.host, name.guid,",
               'return ("", "", name.guid,'),
        EXPLAINED + "a_private_and_a_direct_name_need_no_directory_once_they_are_joined",
    ),
    Planted(
        "who-may-not-see-learns-where-others-are",
        edited(views, "    if not whole:\n", "    if False:\n"),
        "tests/unit/core/management/test_views_own.py::test_a_name_is_explained_as_far_as_one_may_see",
    ),
    Planted(
        "what-waits-for-a-name-of-this-computer-is-overtaken",
        edited(resolve, "return outgoing is not None and outgoing.pending() and is_local(",
               "return False and is_local("),
        NAMES + "nothing_overtakes_what_waits_for_a_name_of_this_computer",
    ),
    Planted(
        "what-waits-for-a-name-of-this-computer-looks-for-another-one",
        edited(connecting, 'return ("", "", step.identity.guid, "", "", None)', "pass"),
        NAMES + "what_waits_for_a_name_arrives_when_it_is_one_of_this_computer",
    ),
    Planted(
        "a-queue-of-another-computer-is-taken-over-in-the-directory",
        edited(contract, "        if taken.guid in guids:\n", "        if False:\n"),
        "tests/unit/directory/test_file.py::test_a_queue_of_another_computer_is_not_taken_over",
    ),
)  # fmt: skip
