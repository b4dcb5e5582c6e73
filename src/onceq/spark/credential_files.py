"""Which files say who a query is, and whom it believes: paths, and never what stands in them.

Options travel in plans, on Spark's pages, in its event log and in checkpoints, so they name files
only. The names go wherever a connection is made, to the driver and to executors, and each
connection reads the files anew where it is made. What the options do not say the environment there
does.

Upholds: a secret stands in its file and in the hello of a connection, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from onceq.client.credentials import Credentials, Tls, environment_files, is_secret
from onceq.errors import OnceqError
from onceq.spark.error_codes import coded
from onceq.spark.targets import wrong

TOKEN_FILE: Final = "tokenFile"
AUTHORITIES: Final = "tlsAuthorities"
CERTIFICATE: Final = "tlsCertificate"
KEY: Final = "tlsKey"
_SHOWN: Final = (
    "Spark shows options in plans, on its pages and in its event log, and keeps them in "
    "checkpoints. Put the token into a file on each host, and name that with the option tokenFile, "
    "or in the environment: ONCEQ_TOKEN_FILE for the driver, spark.executorEnv.ONCEQ_TOKEN_FILE "
    "for executors. The token that was given here may stand in such places now: revoke it (onceq "
    "token revoke)"
)
SECRET: Final = f"there is no option token: {_SHOWN}"
"""What is said to whoever gives a token as an option; the token itself is not repeated."""


@dataclass(frozen=True, slots=True)
class CredentialFiles:
    """Names of files; "": what the environment says.

    Attributes:
        token: That holds a token.
        authorities: With certificates of those who may have signed the queue manager's.
        certificate: With the query's own certificate.
        key: With the private key of that; "": it stands in the same file.
    """

    token: str = ""
    authorities: str = ""
    certificate: str = ""
    key: str = ""

    def credentials(self) -> Credentials:
        """For connections of this process; raises ConfigurationError."""
        around = environment_files()
        # A key belongs to its certificate: those two come from one place.
        own = (self.certificate, self.key) if self.certificate else (around.certificate, around.key)
        return Credentials(
            token_file=self.token or None, tls=Tls(self.authorities or around.authorities, *own)
        )

    def check(self, place: str) -> None:
        """Read them once, before anything runs.

        Args:
            place: Who needs them, for the error.

        Raises:
            ConfigurationError, AccessDenied: One cannot be used; it is named.
        """
        try:
            shown = self.credentials()
            shown.check()
            if self.authorities or self.certificate:
                shown.context()
        except OnceqError as error:
            raise coded(error, place) from None

    def options(self) -> dict[str, str]:
        """As options of a source or sink; what is not said is none."""
        named = {
            TOKEN_FILE: self.token, AUTHORITIES: self.authorities,
            CERTIFICATE: self.certificate, KEY: self.key,
        }  # fmt: skip
        return {option: name for option, name in named.items() if name}


FROM_ENVIRONMENT: Final = CredentialFiles()


def credential_files_of(values: Mapping[str, str]) -> CredentialFiles:
    """What options say; raises ConfigurationError."""
    names: dict[str, str] = {}
    for option in (TOKEN_FILE, AUTHORITIES, CERTIFICATE, KEY):
        name = names[option] = values.get(option, "").strip()
        if is_secret(name):
            raise wrong(f"{option} is the name of a file, and a token was given: {_SHOWN}")
        if option in values and not name:
            raise wrong(
                f"{option} is the name of a file, and is empty; leave it out where the environment "
                "says it"
            )
    if names[KEY] and not names[CERTIFICATE]:
        raise wrong(
            f"{KEY} is the private key of the certificate in {CERTIFICATE}, which is not given"
        )
    return CredentialFiles(*names.values())
