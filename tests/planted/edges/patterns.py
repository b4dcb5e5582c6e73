"""Mistakes about names that are read as patterns, and about what concerns others, or the whole."""

from __future__ import annotations

from onceq import hidden
from onceq.core import rights as required_rights
from onceq.core.management import rights as rights_rules
from onceq.core.receive import entrance, lookup
from onceq.model import patterns, policy, rights
from tests.planted.planted import Planted, edited

NAMES = "tests/unit/core/test_rights_patterns.py::test_"
WHOLE = "tests/unit/core/test_rights_whole.py::test_"
BUDGET = "tests/budgets/test_rights.py::test_"
MODEL = "tests/unit/model/test_rights.py::test_"

PLANTED = (
    Planted(
        "an-owner-has-what-his-queue-is-called-like",
        edited(rights, "        where = QueuePattern.exactly(pattern)\n", "        pass\n"),
        f"{NAMES}its_owner_and_those_whom_he_gives_rights_have_them_there_alone",
    ),
    Planted(
        "an-owner-who-is-called-like-a-pattern-is-all-of-them",
        edited(rights, "        whom = ActorPattern.exactly(who)\n", "        pass\n"),
        f"{NAMES}an_owner_who_is_called_like_a_pattern_is_one_actor",
    ),
    Planted(
        "rights-at-a-pattern-are-asked-for-as-at-a-name",
        edited(patterns, "return _ANY_OF_PATTERN.join(where.parts)", "return str(where)"),
        f"{NAMES}a_right_to_give_rights_there_gives_none_elsewhere",
    ),
    Planted(
        "every-queue-is-the-whole-queue-manager",
        edited(policy, "self._at.find(key) if key else ()", "self._at.find(key)"),
        f"{MODEL}patterns_of_queues",
    ),
    Planted(
        "a-star-in-a-name-is-written-as-it-is",
        edited(required_rights, "str(QueuePattern.exactly(called))", "str(called)"),
        f"{NAMES}what_a_refusal_says_to_type_gives_the_right_there_alone",
    ),
    Planted(
        "a-quote-ends-a-word-of-a-command",
        edited(hidden, """.replace("'", "'\\\\''")""", ""),
        "tests/unit/test_hidden.py::"
        "test_a_word_of_a_command_is_one_word_whatever_is_in_it",
    ),
    Planted(
        "an-answer-is-kept-for-longer-than-it-holds",
        edited(policy, "self._own.add(grant)\n        self._answers.clear()",
               "self._own.add(grant)"),
        f"{BUDGET}the_second_answer_costs_a_look",
    ),
    Planted(
        "no-answer-is-kept",
        edited(policy, "        self._answers[asked] = reason\n", "        pass\n"),
        f"{BUDGET}the_second_answer_costs_a_look",
    ),
    Planted(
        "a-name-is-compared-with-all-patterns",
        edited(patterns, "self._begins.get(key[:length], _NOTHING).items()",
               "[(p, v) for all_ in self._begins.values() for p, v in all_.items()]"),
        f"{BUDGET}it_costs_the_same_however_many_grants_there_are",
    ),
    Planted(
        "patterns-that-begin-alike-are-many",
        edited(rights_rules, "            policy.check_room(grant)\n", ""),
        f"{BUDGET}patterns_that_begin_alike_are_few_and_hold_up_nobody_elsewhere",
    ),
    Planted(
        "an-owner-lets-strangers-in",
        edited(required_rights, "or Right.CREATE in rights or opens:",
               "or Right.CREATE in rights:"),
        f"{WHOLE}who_owns_a_queue_opens_no_door",
    ),
    Planted(
        "what-an-owner-has-given-reaches-strangers",
        edited(policy, " and not (grant.of_one_queue and actor.kind in UNPROVEN)", ""),
        f"{WHOLE}what_an_older_version_let_an_owner_give_to_strangers_lets_them_nowhere",
    ),
    Planted(
        "what-an-owner-has-given-opens-doors",
        edited(policy, "given.staying if unproven else given.rights", "given.rights"),
        f"{WHOLE}what_an_older_version_let_an_owner_give_to_strangers_lets_them_nowhere",
    ),
    Planted(
        "any-right-of-strangers-opens-all-doors",
        edited(policy, "for right in _OPENED_BY[door])", "for right in Right)"),
        f"{WHOLE}each_right_of_strangers_opens_the_doors_where_it_is_used",
    ),
    Planted(
        "strangers-open-transactions",
        edited(required_rights, "return (_TAKES_PART,) if", "return () if"),
        f"{WHOLE}a_stranger_opens_transactions_if_he_may_do_something_in_them",
    ),
    Planted(
        "a-commit-opens-transactions-of-strangers",
        edited(required_rights, "        yield from _begins(step, item)\n",
                                                            "        yield from ()\n"),
        f"{WHOLE}a_stranger_opens_transactions_if_he_may_do_something_in_them",
    ),
    Planted(
        "who-looks-keeps-others-from-receiving",
        edited(required_rights, "            return to_hold(place)\n        return _to_see",
               "            return _to_see(place, bodies=False)\n        return _to_see"),
        f"{WHOLE}who_may_only_look_keeps_nobody_from_receiving",
    ),
    Planted(
        "nobody-hears-who-holds-a-queue",
        edited(entrance, "names = [str(actor)] if actor is not None else []",
                                       "names = list[str]()"),
        f"{WHOLE}who_holds_a_queue_is_said_to_those_who_have_a_right_there",
    ),
    Planted(
        "a-hold-that-was-ended-goes-on",
        edited(entrance, "        )  # fmt: skip\n        close_handle(step, number)\n    return",
               "        )  # fmt: skip\n    return"),
        f"{WHOLE}an_operator_ends_a_hold_and_it_stands_in_the_trail",
    ),
    Planted(
        "who-looks-makes-subqueues",
        edited(lookup, "(to_hold(rights_place(parent)),)", "()"),
        f"{WHOLE}who_looks_at_a_subqueue_that_is_not_there_does_not_make_it",
    ),
)  # fmt: skip
