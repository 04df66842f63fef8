"""Device families as data: the resource names, keys and sizing rules of one vendor's cards, and what a request means.

No vendor stands here: the records are in `cardwise.wire.families`. A container's limits become a `CardRequest`, or the
faults that keep it from becoming one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from cardwise.core.model import MOST, WHOLE_CARD_CORES_PERCENT, CardRequest, Fault

MIB = 1 << 20
MOST_CARDS = 1024
LOWEST_PRIORITY = 1
BINARY_BYTES = frozenset(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
DECIMAL_BYTES = frozenset(("M", "G", "T", "P", "E"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A Kubernetes quantity: exact value, the text it came from, and its suffix ("" where there is none)."""

    text: str
    value: Fraction
    suffix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One vendor's cards, as data.

    `word` is the vendor word in assignment texts. `partition_modes` are card modes that cannot be shared by slots.
    `register_form` is how the node agent writes its register: `json` or `text`. Keys that a family lacks are empty.
    """

    name: str
    title: str
    word: str
    count_resource: str
    memory_resource: str
    memory_percent_resource: str
    cores_resource: str
    priority_resource: str
    register_key: str
    register_form: str
    links_key: str
    cordon_key: str
    use_models_key: str
    avoid_models_key: str
    use_uuids_key: str
    avoid_uuids_key: str
    mode_key: str
    one_numa_key: str
    to_allocate_key: str
    allocated_key: str
    default_mode: str = ""
    partition_modes: tuple[str, ...] = ()
    default_count: int = 1
    default_memory_mib: int = 0
    default_cores_percent: int = 0
    memory_factor: int = 1

    @property
    def size_resources(self) -> tuple[str, ...]:
        """The resources that say how much of a card."""
        names = (self.memory_resource, self.memory_percent_resource, self.cores_resource)
        return tuple(name for name in names if name)

    @property
    def uncounted_resources(self) -> tuple[str, ...]:
        """Resources of which no node has an amount: kube-scheduler must not count them."""
        return (*self.size_resources, *((self.priority_resource,) if self.priority_resource else ()))

    @property
    def resources(self) -> frozenset[str]:
        """Every resource name that makes a container ours."""
        return frozenset((self.count_resource, *self.size_resources))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a container's limits ask of one family, and what admission writes where the user left it out.

    `request` is None where nothing is asked. `defaults` are resource names with the plain numbers to write into limits.
    `notes` are sentences for the user about what is legal but odd.
    """

    request: CardRequest | None = None
    defaults: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()


def ask(family: Family, limits: Mapping[str, Quantity]) -> Asked:
    """What these limits ask of a family.

    The rules are those of the table in docs/choosing-cards.md: a size without a count means the default count; neither
    memory nor percentage means the default memory, else the whole card; a whole card without cores is exclusive; both
    memory and percentage: memory wins.
    """
    given = {name: limits[name] for name in family.resources if name in limits}
    if not given:
        return Asked()
    faults: list[Fault] = []
    count = _whole(given, family.count_resource, MOST_CARDS, faults)
    memory = _memory_mib(given, family.memory_resource, family.memory_factor, faults)
    percent = _whole(given, family.memory_percent_resource, 100, faults)
    cores = _whole(given, family.cores_resource, WHOLE_CARD_CORES_PERCENT, faults)
    _whole(limits, family.priority_resource, LOWEST_PRIORITY, faults)
    if not faults and count == 0 and any((memory, percent, cores)):
        size = next(given[name] for name in family.size_resources if name in given and given[name].value)
        name = next(name for name, quantity in given.items() if quantity is size)
        faults.append(
            Fault(field=family.count_resource, value="0", must=f"at least 1 (or left out) where {name} is {size.text}")
        )
    if faults:
        return Asked(faults=tuple(faults))
    if count == 0 or (count is None and family.default_count == 0):
        return Asked()
    return _sized(family, count, memory, percent, cores)


def _sized(family: Family, count: int | None, memory: int | None, percent: int | None, cores: int | None) -> Asked:
    defaults: list[tuple[str, int]] = []
    notes = [
        f"{name} is 0: taken as not set"
        for name, value in ((family.memory_resource, memory), (family.memory_percent_resource, percent))
        if value == 0
    ]
    if count is None:
        count = family.default_count
        defaults.append((family.count_resource, count))
    if memory and percent:
        notes.append(
            f"{family.memory_resource} and {family.memory_percent_resource} are both set: {family.memory_resource} wins"
        )
    memory, percent = _size(family, memory, percent)
    cores_by_default = cores is None
    if cores is None:
        whole = percent == 100
        cores = WHOLE_CARD_CORES_PERCENT if whole else family.default_cores_percent
        if cores and family.cores_resource:
            defaults.append((family.cores_resource, cores))
    request = CardRequest(
        family=family.name,
        count=count,
        memory_mib=memory,
        memory_percent=percent,
        cores_percent=cores,
        cores_by_default=cores_by_default,
    )
    return Asked(request=request, defaults=tuple(defaults), notes=tuple(notes))


def _size(family: Family, memory: int | None, percent: int | None) -> tuple[int, int]:
    """MiB and percent of which exactly one is above zero."""
    if memory:
        return memory, 0
    if percent:
        return 0, percent
    if family.default_memory_mib:
        return family.default_memory_mib, 0
    return 0, 100


def _whole(given: Mapping[str, Quantity], name: str, most: int, faults: list[Fault]) -> int | None:
    quantity = given.get(name)
    if quantity is None:
        return None
    if quantity.value.denominator != 1 or not 0 <= quantity.value <= most:
        whole = "" if quantity.value.denominator == 1 else "a whole number, "
        faults.append(Fault(field=name, value=quantity.text, must=f"{whole}0 to {most}"))
        return None
    return int(quantity.value)


def _memory_mib(given: Mapping[str, Quantity], name: str, factor: int, faults: list[Fault]) -> int | None:
    """MiB per card: a plain number (or thousands, as the API server rewrites it) is MiB, a binary suffix is bytes."""
    quantity = given.get(name)
    if quantity is None:
        return None
    if quantity.suffix in DECIMAL_BYTES:
        must = f"MiB as a plain number, or bytes with a binary suffix (did you mean {quantity.text}i?)"
        faults.append(Fault(field=name, value=quantity.text, must=must))
        return None
    mib = quantity.value / MIB if quantity.suffix in BINARY_BYTES else quantity.value * factor
    if mib.denominator != 1 or not 0 <= mib <= MOST:
        faults.append(Fault(field=name, value=quantity.text, must=f"a whole number of MiB, 0 to {MOST}"))
        return None
    return int(mib)
