"""Which cards can take a request: one ordered table of checks, read by everything that decides or explains.

A card is refused by the first row that it fails. The rows that no pod's leaving can change (`lasting`) stand first: what
a card is never hides behind what is on it just now, so the table's answer says truly whether waiting could help. Within
each half the order is HAMi's (as are the codes, for those who alert on them), but quotas stand before what is on a card.

To add a check, add a row: the filter, the texts, the metric and `explain` all read this table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cardwise.core.cards import Bools, Ints, View
from cardwise.core.family import Family
from cardwise.core.model import (
    WHOLE_CARD_CORES_PERCENT,
    Card,
    CardPolicy,
    CardRequest,
    CardUse,
    Selection,
)
from cardwise.core.quota import smallest_others


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What the checks read: one container's request of one family, with its pod's wishes. Equal needs, equal answers.

    `most_memory_mib` is what quotas leave for all its cards together (0: no card will do), and is given only where cards
    differ in it; `quota` is the sentence about it.
    """

    family: str
    count: int
    memory_mib: int = 0
    memory_percent: int = 0
    cores_percent: int = 0
    idle: bool = False
    use_models: tuple[str, ...] = ()
    avoid_models: tuple[str, ...] = ()
    use_uuids: tuple[str, ...] = ()
    avoid_uuids: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    one_numa: bool = False
    most_memory_mib: int | None = None
    quota: str = field(default="", compare=False)

    @property
    def exclusive(self) -> bool:
        """Whether it holds its cards alone."""
        return self.idle or self.cores_percent >= WHOLE_CARD_CORES_PERCENT


def need_of(request: CardRequest, selection: Selection, policy: CardPolicy) -> Need:
    """A container's request together with its pod's selection and policy."""
    return Need(
        family=request.family,
        count=request.count,
        memory_mib=request.memory_mib,
        memory_percent=request.memory_percent,
        cores_percent=request.cores_percent,
        idle=policy.idle,
        use_models=selection.use_models,
        avoid_models=selection.avoid_models,
        use_uuids=selection.use_uuids,
        avoid_uuids=selection.avoid_uuids,
        modes=selection.modes,
        one_numa=selection.one_numa,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CardState:
    """One card with what is in use of it: what a sentence about it needs."""

    card: Card
    use: CardUse
    cordoned: bool = False


MOST_LISTED = 80

Fails = Callable[[View, Need], Bools | None]
Says = Callable[[CardState, Need, Family], str]
Short = Callable[[Need, Family], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One row: `fails` gives the cards that fail it (None: this need makes none fail), `says` one card's sentence.

    `short` completes "2 of 8 cards are ...". `lasting`: no pod's leaving changes it.
    """

    name: str
    code: str
    short: Short
    fails: Fails
    says: Says
    lasting: bool = False


def memory_need_mib(need: Need, total_mib: Ints) -> Ints | int:
    """MiB that a need takes of cards with these totals: percentages by each card's own size, floored, at least 1."""
    if need.memory_mib:
        return need.memory_mib
    return np.maximum(total_mib * need.memory_percent // 100, 1)


def card_memory_need_mib(need: Need, total_mib: int) -> int:
    """The same for one card."""
    return need.memory_mib or max(total_mib * need.memory_percent // 100, 1)


def _unwanted_model(view: View, need: Need) -> Bools | None:
    models = view.cards.models
    if not need.use_models and not need.avoid_models:
        return None
    refused = ~models.containing(need.use_models) if need.use_models else np.zeros(len(models.words), np.bool_)
    if need.avoid_models:
        refused = refused | models.containing(need.avoid_models)
    return refused[view.model]


def _unwanted_uuid(view: View, need: Need) -> Bools | None:
    if not need.use_uuids and not need.avoid_uuids:
        return None
    known = view.cards.uuids.known
    fails = ~np.isin(view.uuid, known(need.use_uuids)) if need.use_uuids else np.zeros(view.uuid.shape, np.bool_)
    return fails | np.isin(view.uuid, known(need.avoid_uuids)) if need.avoid_uuids else fails


def _beyond_quota(view: View, need: Need) -> Bools | None:
    """Cards too large for what is left, with the smallest others of their node beside them.

    As many pass as are asked for exactly where that many, taken together, stay within it.
    """
    most = need.most_memory_mib
    if most is None:
        return None
    if most < 1:
        return np.ones(view.family.shape, np.bool_)
    amounts: Ints = np.broadcast_to(memory_need_mib(need, view.memory_total_mib), view.family.shape)
    if need.count > 1:
        groups = view.numa if need.one_numa else np.zeros_like(view.numa)
        amounts = amounts + smallest_others(amounts, fits(view, need, NOT_OF_QUOTA), groups, need.count - 1)
    return amounts > most


def _says_quota(state: CardState, need: Need, _family: Family) -> str:
    if not need.most_memory_mib:
        return f"beyond {need.quota}"
    cards = "it" if need.count == 1 else f"{need.count} cards"
    asked = card_memory_need_mib(need, state.card.memory_mib)
    return f"asks {asked} MiB, {need.most_memory_mib} MiB left for {cards} by {need.quota}"


def _just(text: str) -> Short:
    return lambda _need, _family: text


def _memory_asked(need: Need) -> str:
    return f"{need.memory_mib} MiB" if need.memory_mib else f"{need.memory_percent} % of memory"


def listed(items: tuple[str, ...]) -> str:
    """A user's list as a sentence may hold it: a long one is cut."""
    text = ",".join(items[:MOST_LISTED])
    return text if len(text) <= MOST_LISTED else f"{text[: MOST_LISTED - 3]}..."


def _short_model(need: Need, family: Family) -> str:
    lists = ((family.use_models_key, need.use_models), (family.avoid_models_key, need.avoid_models))
    return "of a model refused by " + " and ".join(f"{key} {listed(items)}" for key, items in lists if items)


def _short_uuid(need: Need, family: Family) -> str:
    lists = ((family.use_uuids_key, need.use_uuids), (family.avoid_uuids_key, need.avoid_uuids))
    return "excluded by " + " and ".join(key for key, items in lists if items)


def _says_model(state: CardState, need: Need, family: Family) -> str:
    if any(item.lower() in state.card.model.lower() for item in need.avoid_models):
        return f"model is {state.card.model}, refused by {family.avoid_models_key} {listed(need.avoid_models)}"
    return f"model is {state.card.model}, must match {family.use_models_key} {listed(need.use_models)}"


def _says_uuid(state: CardState, need: Need, family: Family) -> str:
    if state.card.uuid in need.avoid_uuids:
        return f"refused by {family.avoid_uuids_key}"
    return f"not among the cards that {family.use_uuids_key} names"


def _says_card_memory(state: CardState, need: Need, _family: Family) -> str:
    return (
        f"asks {card_memory_need_mib(need, state.card.memory_mib)} MiB, the whole card has {state.card.memory_mib} MiB"
    )


def _says_memory(state: CardState, need: Need, _family: Family) -> str:
    free = max(0, state.card.memory_mib - state.use.memory_mib)
    asked = card_memory_need_mib(need, state.card.memory_mib)
    return f"asks {asked} MiB, {free} MiB of {state.card.memory_mib} MiB free"


def _says_cores(state: CardState, need: Need, _family: Family) -> str:
    free = max(0, state.card.cores_percent - state.use.cores_percent)
    return f"asks {need.cores_percent} % of compute, {free} % of {state.card.cores_percent} % free"


def _says_alone(state: CardState, _need: Need, _family: Family) -> str:
    return f"asks for a card that nothing uses, {state.use.slots} in use of {state.card.slots} slots"


def _full_compute(view: View, need: Need) -> Bools | None:
    if need.cores_percent:
        return None
    return (view.cores_used_percent > 0) & (view.cores_used_percent >= view.cores_total_percent)


CHECKS: tuple[Check, ...] = (
    Check(
        name="health",
        code="CardNotHealth",
        short=_just("unhealthy"),
        fails=lambda view, _need: ~view.healthy,
        says=lambda _state, _need, _family: "is unhealthy",
        lasting=True,
    ),
    Check(
        name="cordon",
        code="CardCordoned",
        short=_just("cordoned"),
        fails=lambda view, _need: view.cordoned,
        says=lambda _state, _need, family: f"cordoned by the node's {family.cordon_key}",
        lasting=True,
    ),
    Check(
        name="model",
        code="CardTypeMismatch",
        short=_short_model,
        fails=_unwanted_model,
        says=_says_model,
        lasting=True,
    ),
    Check(
        name="mode",
        code="CardTypeMismatch",
        short=lambda need, family: f"in a mode that is not in {family.mode_key} {listed(need.modes)}",
        fails=lambda view, need: ~view.cards.modes.among(need.modes)[view.mode] if need.modes else None,
        says=lambda state, need, family: (
            f"mode is {state.card.mode}, must be in {family.mode_key} {listed(need.modes)}"
        ),
        lasting=True,
    ),
    Check(
        name="partition",
        code="CardMigTopologyInfeasible",
        short=_just("partitioned in hardware, not shared by slots"),
        fails=lambda view, _need: view.partitioned,
        says=lambda state, _need, _family: (
            f"mode is {state.card.mode}: a partitioned card is not handed out as a shared card"
        ),
        lasting=True,
    ),
    Check(
        name="uuid",
        code="CardUuidMismatch",
        short=_short_uuid,
        fails=_unwanted_uuid,
        says=_says_uuid,
        lasting=True,
    ),
    Check(
        name="card-memory",
        code="CardInsufficientMemory",
        short=lambda need, _family: f"too small ({_memory_asked(need)} asked)",
        fails=lambda view, need: view.memory_total_mib < memory_need_mib(need, view.memory_total_mib),
        says=_says_card_memory,
        lasting=True,
    ),
    Check(
        name="card-cores",
        code="CardInsufficientCore",
        short=lambda need, _family: f"too small in compute ({need.cores_percent} % asked)",
        fails=lambda view, need: view.cores_total_percent < need.cores_percent if need.cores_percent else None,
        says=lambda state, need, _family: (
            f"asks {need.cores_percent} % of compute, the whole card has {state.card.cores_percent} %"
        ),
        lasting=True,
    ),
    Check(
        name="card-slots",
        code="CardTimeSlicingExhausted",
        short=_just("without slots"),
        fails=lambda view, _need: view.slots_total < 1,
        says=lambda state, _need, _family: f"is registered with {state.card.slots} slots",
        lasting=True,
    ),
    Check(
        name="quota",
        code="ResourceQuotaNotFit",
        short=lambda need, _family: f"beyond {need.quota}",
        fails=_beyond_quota,
        says=_says_quota,
    ),
    Check(
        name="slots",
        code="CardTimeSlicingExhausted",
        short=_just("without a free slot"),
        fails=lambda view, _need: view.slots_used >= view.slots_total,
        says=lambda state, _need, _family: f"{state.use.slots} of {state.card.slots} slots in use",
    ),
    Check(
        name="idle",
        code="ExclusiveDeviceAllocateConflict",
        short=_just("in use (an idle card is asked)"),
        fails=lambda view, need: view.slots_used > 0 if need.idle else None,
        says=_says_alone,
    ),
    Check(
        name="memory",
        code="CardInsufficientMemory",
        short=lambda need, _family: f"with too little free memory ({_memory_asked(need)} asked)",
        fails=lambda view, need: (
            view.memory_total_mib - view.memory_used_mib < memory_need_mib(need, view.memory_total_mib)
        ),
        says=_says_memory,
    ),
    Check(
        name="cores",
        code="CardInsufficientCore",
        short=lambda need, _family: f"with too little free compute ({need.cores_percent} % asked)",
        fails=lambda view, need: (
            view.cores_total_percent - view.cores_used_percent < need.cores_percent if need.cores_percent else None
        ),
        says=_says_cores,
    ),
    Check(
        name="exclusive",
        code="ExclusiveDeviceAllocateConflict",
        short=_just("in use (a whole card is asked)"),
        fails=lambda view, need: view.slots_used > 0 if need.exclusive else None,
        says=_says_alone,
    ),
    Check(
        name="held",
        code="ExclusiveDeviceAllocateConflict",
        short=_just("held alone by another pod"),
        fails=lambda view, _need: view.holders > 0,
        says=lambda _state, _need, _family: "held alone by another pod until it ends",
    ),
    Check(
        name="compute",
        code="CardComputeUnitsExhausted",
        short=_just("with all compute in use"),
        fails=_full_compute,
        says=lambda state, _need, _family: f"all of its compute is in use ({state.use.cores_percent} %)",
    ),
)

Verdicts = npt.NDArray[np.int8]

FITS = len(CHECKS)
NOT_ASKED = -1
LASTING = sum(check.lasting for check in CHECKS)
NOT_OF_QUOTA = tuple(check for check in CHECKS if check.name != "quota")


def asked(view: View, need: Need) -> Bools:
    """The cards of the family that is asked for."""
    of_family: Bools = view.family == view.cards.families.code(need.family)
    return of_family


def fits(view: View, need: Need, checks: tuple[Check, ...] = CHECKS) -> Bools:
    """The cards that pass every check."""
    passed = asked(view, need)
    for check in checks:
        failed = check.fails(view, need)
        if failed is not None:
            np.greater(passed, failed, out=passed)  # (passed and not failed, in one step)
    return passed


def verdicts(view: View, need: Need) -> Verdicts:
    """For each card the first row of CHECKS that it fails, FITS, or NOT_ASKED where it is of another family or absent."""
    ours = asked(view, need)
    found = np.where(ours, np.int8(FITS), np.int8(NOT_ASKED))
    for row in range(FITS - 1, -1, -1):
        failed = CHECKS[row].fails(view, need)
        if failed is not None:
            np.copyto(found, np.int8(row), where=failed & ours)
    return found
