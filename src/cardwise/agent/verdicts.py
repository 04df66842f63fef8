"""What the agent says to an Allocate: refused in one sentence, or to be looked at again. Codes are a metric's labels."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cardwise.agent.pods import NodePod


class Why(StrEnum):
    """Why an Allocate is refused. Stable: people alert on them."""

    NOTHING_ASKED = "NothingAsked"
    DEVICE_UNKNOWN = "DeviceUnknown"
    NO_POD = "NoPod"
    POD_UNKNOWN = "PodUnknown"
    POD_IN_DOUBT = "PodInDoubt"
    POD_GONE = "PodGone"
    COUNT_WRONG = "CountWrong"
    NOT_OURS = "NotOurs"
    STATIC_POD = "StaticPod"
    NODE_WRONG = "NodeWrong"
    RECORD_UNREADABLE = "RecordUnreadable"
    RECORD_CHANGED = "RecordChanged"
    CARD_UNKNOWN = "CardUnknown"
    CARD_UNHEALTHY = "CardUnhealthy"
    CARD_TAKEN = "CardTaken"
    NO_DEVICE_FILE = "NoDeviceFile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """No answer but this sentence. `pod` is the one that is surely meant; None where that is in doubt."""

    why: Why
    text: str
    pod: NodePod | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAgain:
    """What is known does not do yet: these pods (full names) are to be read by quorum, and the kubelet asked for its list.

    `otherwise` is the refusal if it stays so.
    """

    read: tuple[str, ...] = ()
    otherwise: Refused
