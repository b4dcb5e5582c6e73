"""All result codes of MSMQ: which of them onceq gives, and why it never gives the others.

``NAMES`` has all codes of MS-MQMQ 2.4. A code is either the ``hresult`` of an error
class, with cause and cure there, or ``REASONS`` has it. ``docs/reference/errors.md`` is
written from both, and a test holds them against each other.

Also here:

* Attempts to connect: how each went, in the numbers of CONNECTION_HISTORY (Q-10).
* Message classes: what kind of message it is, or why a message ended (ACK-16).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from onceq.errors import every

# ---- resultcodes ---------------------------------------------------------------------------------


_TABLE: Final = """
400E0001 MQ_INFORMATION_PROPERTY
400E0002 MQ_INFORMATION_ILLEGAL_PROPERTY
400E0003 MQ_INFORMATION_PROPERTY_IGNORED
400E0004 MQ_INFORMATION_UNSUPPORTED_PROPERTY
400E0005 MQ_INFORMATION_DUPLICATE_PROPERTY
400E0006 MQ_INFORMATION_OPERATION_PENDING
400E0009 MQ_INFORMATION_FORMATNAME_BUFFER_TOO_SMALL
400E000A MQ_INFORMATION_INTERNAL_USER_CERT_EXIST
400E000B MQ_INFORMATION_OWNER_IGNORED
C00E0001 MQ_ERROR
C00E0002 MQ_ERROR_PROPERTY
C00E0003 MQ_ERROR_QUEUE_NOT_FOUND
C00E0004 MQ_ERROR_QUEUE_NOT_ACTIVE
C00E0005 MQ_ERROR_QUEUE_EXISTS
C00E0006 MQ_ERROR_INVALID_PARAMETER
C00E0007 MQ_ERROR_INVALID_HANDLE
C00E0008 MQ_ERROR_OPERATION_CANCELLED
C00E0009 MQ_ERROR_SHARING_VIOLATION
C00E000B MQ_ERROR_SERVICE_NOT_AVAILABLE
C00E000D MQ_ERROR_MACHINE_NOT_FOUND
C00E0010 MQ_ERROR_ILLEGAL_SORT
C00E0011 MQ_ERROR_ILLEGAL_USER
C00E0013 MQ_ERROR_NO_DS
C00E0014 MQ_ERROR_ILLEGAL_QUEUE_PATHNAME
C00E0018 MQ_ERROR_ILLEGAL_PROPERTY_VALUE
C00E0019 MQ_ERROR_ILLEGAL_PROPERTY_VT
C00E001A MQ_ERROR_BUFFER_OVERFLOW
C00E001B MQ_ERROR_IO_TIMEOUT
C00E001C MQ_ERROR_ILLEGAL_CURSOR_ACTION
C00E001D MQ_ERROR_MESSAGE_ALREADY_RECEIVED
C00E001E MQ_ERROR_ILLEGAL_FORMATNAME
C00E001F MQ_ERROR_FORMATNAME_BUFFER_TOO_SMALL
C00E0020 MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION
C00E0021 MQ_ERROR_ILLEGAL_SECURITY_DESCRIPTOR
C00E0022 MQ_ERROR_SENDERID_BUFFER_TOO_SMALL
C00E0023 MQ_ERROR_SECURITY_DESCRIPTOR_TOO_SMALL
C00E0024 MQ_ERROR_CANNOT_IMPERSONATE_CLIENT
C00E0025 MQ_ERROR_ACCESS_DENIED
C00E0026 MQ_ERROR_PRIVILEGE_NOT_HELD
C00E0027 MQ_ERROR_INSUFFICIENT_RESOURCES
C00E0028 MQ_ERROR_USER_BUFFER_TOO_SMALL
C00E002A MQ_ERROR_MESSAGE_STORAGE_FAILED
C00E002B MQ_ERROR_SENDER_CERT_BUFFER_TOO_SMALL
C00E002C MQ_ERROR_INVALID_CERTIFICATE
C00E002D MQ_ERROR_CORRUPTED_INTERNAL_CERTIFICATE
C00E002E MQ_ERROR_INTERNAL_USER_CERT_EXIST
C00E002F MQ_ERROR_NO_INTERNAL_USER_CERT
C00E0030 MQ_ERROR_CORRUPTED_SECURITY_DATA
C00E0031 MQ_ERROR_CORRUPTED_PERSONAL_CERT_STORE
C00E0033 MQ_ERROR_COMPUTER_DOES_NOT_SUPPORT_ENCRYPTION
C00E0035 MQ_ERROR_BAD_SECURITY_CONTEXT
C00E0036 MQ_ERROR_COULD_NOT_GET_USER_SID
C00E0037 MQ_ERROR_COULD_NOT_GET_ACCOUNT_INFO
C00E0038 MQ_ERROR_ILLEGAL_MQCOLUMNS
C00E0039 MQ_ERROR_ILLEGAL_PROPID
C00E003A MQ_ERROR_ILLEGAL_RELATION
C00E003B MQ_ERROR_ILLEGAL_PROPERTY_SIZE
C00E003C MQ_ERROR_ILLEGAL_RESTRICTION_PROPID
C00E003D MQ_ERROR_ILLEGAL_MQQUEUEPROPS
C00E003E MQ_ERROR_PROPERTY_NOTALLOWED
C00E003F MQ_ERROR_INSUFFICIENT_PROPERTIES
C00E0040 MQ_ERROR_MACHINE_EXISTS
C00E0041 MQ_ERROR_ILLEGAL_MQQMPROPS
C00E0042 MQ_ERROR_DS_IS_FULL
C00E0043 MQ_ERROR_DS_ERROR
C00E0044 MQ_ERROR_INVALID_OWNER
C00E0045 MQ_ERROR_UNSUPPORTED_ACCESS_MODE
C00E0046 MQ_ERROR_RESULT_BUFFER_TOO_SMALL
C00E0048 MQ_ERROR_DELETE_CN_IN_USE
C00E0049 MQ_ERROR_NO_RESPONSE_FROM_OBJECT_SERVER
C00E004A MQ_ERROR_OBJECT_SERVER_NOT_AVAILABLE
C00E004B MQ_ERROR_QUEUE_NOT_AVAILABLE
C00E004C MQ_ERROR_DTC_CONNECT
C00E004E MQ_ERROR_TRANSACTION_IMPORT
C00E0050 MQ_ERROR_TRANSACTION_USAGE
C00E0051 MQ_ERROR_TRANSACTION_SEQUENCE
C00E0055 MQ_ERROR_MISSING_CONNECTOR_TYPE
C00E0056 MQ_ERROR_STALE_HANDLE
C00E0058 MQ_ERROR_TRANSACTION_ENLIST
C00E005A MQ_ERROR_QUEUE_DELETED
C00E005B MQ_ERROR_ILLEGAL_CONTEXT
C00E005C MQ_ERROR_ILLEGAL_SORT_PROPID
C00E005D MQ_ERROR_LABEL_TOO_LONG
C00E005E MQ_ERROR_LABEL_BUFFER_TOO_SMALL
C00E005F MQ_ERROR_MQIS_SERVER_EMPTY
C00E0060 MQ_ERROR_MQIS_READONLY_MODE
C00E0061 MQ_ERROR_SYMM_KEY_BUFFER_TOO_SMALL
C00E0062 MQ_ERROR_SIGNATURE_BUFFER_TOO_SMALL
C00E0063 MQ_ERROR_PROV_NAME_BUFFER_TOO_SMALL
C00E0064 MQ_ERROR_ILLEGAL_OPERATION
C00E0065 MQ_ERROR_WRITE_NOT_ALLOWED
C00E0066 MQ_ERROR_WKS_CANT_SERVE_CLIENT
C00E0067 MQ_ERROR_DEPEND_WKS_LICENSE_OVERFLOW
C00E0068 MQ_CORRUPTED_QUEUE_WAS_DELETED
C00E0069 MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE
C00E006A MQ_ERROR_UNSUPPORTED_OPERATION
C00E006B MQ_ERROR_ENCRYPTION_PROVIDER_NOT_SUPPORTED
C00E006C MQ_ERROR_CANNOT_SET_CRYPTO_SEC_DESCR
C00E006D MQ_ERROR_CERTIFICATE_NOT_PROVIDED
C00E006E MQ_ERROR_Q_DNS_PROPERTY_NOT_SUPPORTED
C00E006F MQ_ERROR_CANNOT_CREATE_CERT_STORE
C00E0070 MQ_ERROR_CANNOT_OPEN_CERT_STORE
C00E0071 MQ_ERROR_ILLEGAL_ENTERPRISE_OPERATION
C00E0072 MQ_ERROR_CANNOT_GRANT_ADD_GUID
C00E0073 MQ_ERROR_CANNOT_LOAD_MSMQOCM
C00E0074 MQ_ERROR_NO_ENTRY_POINT_MSMQOCM
C00E0075 MQ_ERROR_NO_MSMQ_SERVERS_ON_DC
C00E0076 MQ_ERROR_CANNOT_JOIN_DOMAIN
C00E0077 MQ_ERROR_CANNOT_CREATE_ON_GC
C00E0078 MQ_ERROR_GUID_NOT_MATCHING
C00E0079 MQ_ERROR_PUBLIC_KEY_NOT_FOUND
C00E007A MQ_ERROR_PUBLIC_KEY_DOES_NOT_EXIST
C00E007B MQ_ERROR_ILLEGAL_MQPRIVATEPROPS
C00E007C MQ_ERROR_NO_GC_IN_DOMAIN
C00E007D MQ_ERROR_NO_MSMQ_SERVERS_ON_GC
C00E007E MQ_ERROR_CANNOT_GET_DN
C00E007F MQ_ERROR_CANNOT_HASH_DATA_EX
C00E0080 MQ_ERROR_CANNOT_SIGN_DATA_EX
C00E0081 MQ_ERROR_CANNOT_CREATE_HASH_EX
C00E0082 MQ_ERROR_FAIL_VERIFY_SIGNATURE_EX
C00E0083 MQ_ERROR_CANNOT_DELETE_PSC_OBJECTS
C00E0084 MQ_ERROR_NO_MQUSER_OU
C00E0085 MQ_ERROR_CANNOT_LOAD_MQAD
C00E0086 MQ_ERROR_CANNOT_LOAD_MQDSSRV
C00E0087 MQ_ERROR_PROPERTIES_CONFLICT
C00E0088 MQ_ERROR_MESSAGE_NOT_FOUND
C00E0089 MQ_ERROR_CANT_RESOLVE_SITES
C00E008A MQ_ERROR_NOT_SUPPORTED_BY_DEPENDENT_CLIENTS
C00E008B MQ_ERROR_OPERATION_NOT_SUPPORTED_BY_REMOTE_COMPUTER
C00E008C MQ_ERROR_NOT_A_CORRECT_OBJECT_CLASS
C00E008D MQ_ERROR_MULTI_SORT_KEYS
C00E008E MQ_ERROR_GC_NEEDED
C00E008F MQ_ERROR_DS_BIND_ROOT_FOREST
C00E0090 MQ_ERROR_DS_LOCAL_USER
C00E0091 MQ_ERROR_Q_ADS_PROPERTY_NOT_SUPPORTED
C00E0092 MQ_ERROR_BAD_XML_FORMAT
C00E0093 MQ_ERROR_UNSUPPORTED_CLASS
C00E0094 MQ_ERROR_UNINITIALIZED_OBJECT
C00E0095 MQ_ERROR_CANNOT_CREATE_PSC_OBJECTS
C00E0096 MQ_ERROR_CANNOT_UPDATE_PSC_OBJECTS
C00E0099 MQ_ERROR_RESOLVE_ADDRESS
C00E009A MQ_ERROR_TOO_MANY_PROPERTIES
C00E009B MQ_ERROR_MESSAGE_NOT_AUTHENTICATED
C00E009C MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION
8004D00F XACT_E_NOTSUPPORTED
80070057 E_INVALIDARG
80004002 E_NOINTERFACE
80004001 E_NOTIMPL
80040007 OLE_E_BLANK
8007000E E_OUTOFMEMORY
C000000D STATUS_INVALID_PARAMETER
C0000008 STATUS_INVALID_HANDLE
"""

NAMES: Final[dict[int, str]] = {int(line[:8], 16): line[9:] for line in _TABLE.strip().splitlines()}
"""Every code with its name."""

_GROUPS: Final[tuple[tuple[str, str], ...]] = (
    (
        "Nobody hands in buffers: names, labels and bodies of any size come back whole.",
        "C00E001A C00E001F C00E0022 C00E0023 C00E0028 C00E002B C00E0046 C00E005E C00E0061 "
        "C00E0062 C00E0063 400E0009",
    ),
    (
        "Windows security contexts, certificates and signatures are not part of onceq; TLS "
        "takes their place. A property that asks for one is refused with 0xC00E0033 or "
        "0x80004001.",
        "C00E0011 C00E0021 C00E0024 C00E0026 C00E002C C00E002D C00E002E C00E002F C00E0030 "
        "C00E0031 C00E0035 C00E0036 C00E0037 C00E0044 C00E006B C00E006C C00E006D C00E006F "
        "C00E0070 C00E0079 C00E007A C00E007F C00E0080 C00E0081 C00E0082 C00E009B 400E000A "
        "400E000B",
    ),
    (
        "Queues are listed, not searched with columns, relations and sort orders (MQLocateBegin).",
        "C00E0010 C00E0038 C00E003A C00E003C C00E005C C00E008D",
    ),
    (
        "Properties are keywords, not C structures: what would be wrong with a structure is a "
        "Python TypeError, or the code of the property.",
        "C00E003D C00E0041 C00E007B C00E009A C00E005B 400E0001 400E0002 400E0003 400E0004 400E0005",
    ),
    (
        "It belongs to Active Directory or the older MQIS, which onceq does not use.",
        "C00E0040 C00E0042 C00E0048 C00E0049 C00E004A C00E005F C00E0060 C00E006E C00E0071 "
        "C00E0072 C00E0075 C00E0076 C00E0077 C00E0078 C00E007C C00E007D C00E007E C00E0083 "
        "C00E0084 C00E0085 C00E0086 C00E0089 C00E008C C00E008E C00E008F C00E0090 C00E0091 "
        "C00E0095 C00E0096",
    ),
    (
        "There are no dependent clients, and no Windows components to load.",
        "C00E0066 C00E0067 C00E0073 C00E0074 C00E008A",
    ),
    (
        "An application is local to the manager that it connects to; nothing is read from one "
        "manager through another.",
        "C00E004B C00E008B C00E0065",
    ),
    (
        "It would say less than the error that onceq raises instead: each situation has its "
        "own class.",
        "C00E0001 C00E0004 C00E0064 C00E0068 80070057 80040007 C0000008",
    ),
    (
        "Every size is bounded before memory is taken (0xC00E0027 says so).",
        "8007000E",
    ),
    (
        "Nobody waits for it in a call: an unreachable computer is told by `outgoing why`, "
        "and in the connection history with this code.",
        "C00E0069 C00E0099",
    ),
    (
        "There are no connector applications: nobody but a manager sets the class of a message.",
        "C00E0055",
    ),
    (
        "A handle ends with its connection: the error is then the connection's, 0xC00E000B.",
        "C00E0056",
    ),
    (
        "An operation that is under way is a waiting call or task, not a code.",
        "400E0006",
    ),
    (
        "SOAP parts of a message are not composed by applications.",
        "C00E0092 C00E0093",
    ),
    (
        "A move between queues that are not parts of one queue is 0xC00E0006.",
        "C000000D",
    ),
    (
        "The property that it belongs to says itself what is wrong (0xC00E0018, 0xC00E0039).",
        "C00E0087",
    ),
    (
        "Whether a computer exists is found out by connecting: `outgoing why` says so.",
        "C00E000D",
    ),
)

REASONS: Final[dict[int, str]] = {
    int(code, 16): reason for reason, codes in _GROUPS for code in codes.split()
}
"""Why a code cannot occur."""


def given() -> dict[int, list[str]]:
    """The codes that onceq gives, with the names of the error classes that carry each."""
    found: dict[int, list[str]] = {}
    for kind in every().values():
        if kind.hresult:
            found.setdefault(kind.hresult, []).append(kind.__name__)
    return found


def never() -> dict[int, str]:
    """The codes that onceq never gives, with the reason."""
    return {code: reason for code, reason in REASONS.items() if code not in given()}


# ---- connection ----------------------------------------------------------------------------------


FAILED = 0x8000_0000


class ConnectionStatus(IntEnum):
    """How an attempt to connect stands."""

    IN_PROGRESS = 0
    ESTABLISH_RECEIVED = 1
    ESTABLISHED = 2
    UNKNOWN_FAILURE = 0x8000_0000
    PING_FAILURE = 0x8000_0001
    CREATE_SOCKET_FAILURE = 0x8000_0002
    BIND_FAILURE = 0x8000_0003
    CONNECT_FAILURE = 0x8000_0004
    TCP_NOT_ENABLED = 0x8000_0005
    SEND_FAILURE = 0x8000_0006
    NOT_READY = 0x8000_0007
    NAME_RESOLUTION_FAILURE = 0x8000_0008
    CERTIFICATE_FAILURE = 0x8000_0009
    SESSION_LIMIT_REACHED = 0x8000_000A
    REFUSED = 0x8000_000B
    NO_ROUTING_DATA = 0x8000_000C
    LOW_RESOURCES = 0x8000_000D

    @property
    def failed(self) -> bool:
        """Whether the attempt came to nothing."""
        return bool(self & FAILED)

    @property
    def hresult(self) -> int:
        """The result code that goes with it; 0 for none."""
        if not self.failed:
            return 0
        if self is ConnectionStatus.NAME_RESOLUTION_FAILURE:
            return 0xC00E0099
        return 0xC00E0027 if self is ConnectionStatus.LOW_RESOURCES else 0xC00E0069


# ---- classes -------------------------------------------------------------------------------------


class MessageClass(IntEnum):
    """Values of PROPID_M_CLASS. Bit 15: negative. Bit 14: concerns reception (after arrival)."""

    NORMAL = 0x0000
    REPORT = 0x0001
    ACK_REACH_QUEUE = 0x0002
    ORDER_ACK = 0x00FF
    ACK_RECEIVE = 0x4000
    NACK_BAD_DESTINATION_QUEUE = 0x8000
    NACK_DELETED = 0x8001
    NACK_REACH_QUEUE_TIMEOUT = 0x8002
    NACK_QUEUE_EXCEED_QUOTA = 0x8003
    NACK_ACCESS_DENIED = 0x8004
    NACK_HOP_COUNT_EXCEEDED = 0x8005
    NACK_BAD_SIGNATURE = 0x8006
    NACK_BAD_ENCRYPTION = 0x8007
    NACK_NOT_TRANSACTIONAL_QUEUE = 0x8009
    NACK_NOT_TRANSACTIONAL_MESSAGE = 0x800A
    NACK_UNSUPPORTED_CRYPTO_PROVIDER = 0x800B
    NACK_SOURCE_COMPUTER_GUID_CHANGED = 0x800C
    NACK_MESSAGE_TOO_LARGE = 0x800D
    NACK_DELAY_NOT_SUPPORTED = 0x80D0
    NACK_QUEUE_DELETED = 0xC000
    NACK_QUEUE_PURGED = 0xC001
    NACK_RECEIVE_TIMEOUT = 0xC002
    NACK_RECEIVE_TIMEOUT_AT_SENDER = 0xC003
    NACK_RECEIVE_REJECTED = 0xC004

    @property
    def on_receive(self) -> bool:
        """Whether it concerns what happened after the arrival."""
        return bool(self & 0x4000)

    @property
    def negative(self) -> bool:
        """Whether the message did not make it."""
        return bool(self & 0x8000)


REFUSALS: Final = frozenset((
    MessageClass.NACK_BAD_DESTINATION_QUEUE,
    MessageClass.NACK_QUEUE_EXCEED_QUOTA,
    MessageClass.NACK_ACCESS_DENIED,
    MessageClass.NACK_HOP_COUNT_EXCEEDED,
    MessageClass.NACK_BAD_SIGNATURE,
    MessageClass.NACK_BAD_ENCRYPTION,
    MessageClass.NACK_NOT_TRANSACTIONAL_QUEUE,
    MessageClass.NACK_NOT_TRANSACTIONAL_MESSAGE,
    MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER,
    MessageClass.NACK_SOURCE_COMPUTER_GUID_CHANGED,
    MessageClass.NACK_MESSAGE_TOO_LARGE,
))  # fmt: skip
"""Classes of messages that a destination does not take. What was too late is not among them: that
its sender has asked for. Neither is what ended in its queue (purged, deleted, rejected)."""


def is_refused_there(message_class: int) -> bool:
    """Whether a destination did not take the messages that ended so. What a copy of a queue manager
    has set aside, as another one, no destination has refused."""
    aside = MessageClass.NACK_SOURCE_COMPUTER_GUID_CHANGED
    return message_class in REFUSALS and message_class != aside


SECOND_LETTER = 1
"""Note of a dead letter: its sender has another one, which is the one to return. A note from
``0x8000`` on is the class of what ended the wait for a message in doubt."""
FORGOTTEN_THERE, TOLD_ALREADY = 2, 3
"""Notes of acknowledged messages in doubt whose end nobody will report: their receiver has
forgotten them; or it has reported the end to a life of this manager that a restore has undone."""


def class_name(value: int) -> str:
    """Name of a class for people; applications may define values of their own."""
    try:
        return MessageClass(value).name.lower().replace("_", "-")
    except ValueError:
        return f"class-{value:#06x}"
