"""``onceq tls rotate``: another authority takes the place of one, and no member is cut off.

There are three steps, each of which waits for all members. First the next authority is made, and
members are asked to trust both. Once all do, it signs all new certificates. Once all members have
one, the old authority is not trusted any more. The next call completes an interrupted step.
"""

from __future__ import annotations

from typing import Final

from onceq.embedded import trusting
from onceq.embedded.results import ShownIdentity
from onceq.errors import ConfigurationError
from onceq.model.identity import guid_text
from onceq.tls import acts, authority, folder, lineage

_STEPS: Final = {
    "": "begun", "begun": "the next one signs", "signing": "the old one is forgotten",
}  # fmt: skip
"""The description of each step, by the stage."""
_LACK: Final = {
    "begun": "do not believe the next authority yet; each does once it has asked (at its start, "
    "and once a minute)",
    "signing": "have a certificate of the old authority: onceq tls renew there, then onceq qm "
    "reload",
}
"""What keeps members from the next step."""


def rotate(path: str, *, anyway: bool = False) -> ShownIdentity:
    """Take the next step.

    Args:
        anyway: Also if members are behind; they have to join again.

    Raises:
        ConfigurationError: There is no authority here, or members are behind; they are named.
        AccessDenied: The directory cannot be used.
    """
    here = trusting.here_of(path)
    trusting.check_ours(here)
    if not here.has(folder.AUTHORITY):
        raise ConfigurationError(
            f"{here.identity.name} has no authority of its own: rotate where the one is that has "
            "signed for it (onceq tls show)"
        )
    if here.has(folder.NEXT) and not here.has(folder.NEXT_KEY):
        folder.rename(here.tls, folder.NEXT, folder.AUTHORITY)  # it was interrupted there
    stage = trusting.stage(here.tls)
    if stage and not anyway:
        _check_behind(here, stage)
    acts.leave(here.tls, "rotate authority", _STEPS[stage], here.now_s)
    if stage == "":
        _begin(here)
    elif stage == "begun":
        _sign_by_next(here)
    else:
        _forget_old(here)
    return trusting.show(path)


def _begin(here: trusting.Here) -> None:
    made, key = authority.make_authority(here.identity.name, here.now_s)
    folder.write(here.file(folder.NEXT_KEY), key)
    lineage.believe(here.tls, [made.decode()])
    folder.write(here.file(folder.NEXT), made)


def _sign_by_next(here: trusting.Here) -> None:
    folder.write(here.file(folder.OLD), folder.read(here.file(folder.AUTHORITY)))
    folder.rename(here.tls, folder.NEXT_KEY, folder.AUTHORITY_KEY)
    folder.rename(here.tls, folder.NEXT, folder.AUTHORITY)
    trusting.sign_own(here, ())


def _forget_old(here: trusting.Here) -> None:
    own = trusting.members_of(here).get(guid_text(here.identity.guid))
    if own is None or trusting.behind(here.tls, own):
        trusting.sign_own(here, ())  # it was interrupted before
    old = lineage.split(folder.read(here.file(folder.OLD)).decode())
    lineage.believe(here.tls, [], old)
    folder.remove(here.tls, folder.OLD)


def _check_behind(here: trusting.Here, stage: str) -> None:
    """Raise ConfigurationError if members are not as far as the next step needs."""
    own = guid_text(here.identity.guid)
    late = [
        one.name
        for one in trusting.members_of(here).values()
        if one.id != own and trusting.behind(here.tls, one)
    ]
    if late:
        raise ConfigurationError(
            f"these {_LACK[stage]}: {', '.join(sorted(late))}; remove those that will not come "
            "back (onceq tls remove), or say --anyway, and they have to join again"
        )
