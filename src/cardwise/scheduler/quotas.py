"""What the pods of each namespace take of its ResourceQuotas, and what is left. Several quotas all hold.

Amounts are those of a pod's peak, of the cards that it really got. They are summed up as pods come and go, so that asking
what is left costs the same however many pods run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from cardwise.core.family import Family
from cardwise.core.model import ContainerAllocation, Left, PodRequest, PodTraits
from cardwise.core.peak import Amounts, least_amounts, peak_amounts
from cardwise.wire.quotas import LIMITS, Hard, QuotaReading

_NOTHING = Amounts(0, 0, 0)
_NO_LIMITS: Mapping[str, Left] = MappingProxyType({})

Usage = tuple[str, str, str, int, int]
"""Namespace, name of the quota, resource, what is in use, and the most that may be."""


@dataclass(frozen=True, slots=True)
class _Charge:
    """What one pod takes. Amounts are worked out when they are asked for: most namespaces have no quota."""

    namespace: str
    containers: tuple[ContainerAllocation, ...]
    traits: PodTraits | None

    def amounts(self) -> dict[str, Amounts]:
        return peak_amounts(self.containers)

    def frees(self, after: _Charge) -> bool:
        """Whether less of anything is taken by another charge in its place."""
        if (self.namespace, self.traits) != (after.namespace, after.traits):
            return True
        now = after.amounts()
        return any(
            before > taken
            for family, amounts in self.amounts().items()
            for before, taken in zip(amounts, now.get(family, _NOTHING), strict=True)
        )


@dataclass(slots=True)
class _Quota:
    """A quota, and by family what the pods that it counts take together."""

    reading: QuotaReading
    used: dict[str, Amounts] = field(default_factory=dict)

    def add(self, by_family: Mapping[str, Amounts], sign: int) -> None:
        for family, amounts in by_family.items():
            self.used[family] = _sum(self.used.get(family, _NOTHING), amounts, sign)

    def used_without(self, family: str, leaving: Iterable[_Charge]) -> Amounts:
        used = self.used.get(family, _NOTHING)
        for charge in leaving:
            if self.reading.counts(charge.traits):
                used = _sum(used, charge.amounts().get(family, _NOTHING), -1)
        return used


@dataclass(frozen=True, slots=True)
class _Limit:
    """One amount that a quota limits."""

    quota: str
    resource: str
    hard: int
    used: int

    @property
    def left(self) -> int:
        return max(0, self.hard - self.used)

    @property
    def says(self) -> str:
        return f"quota {self.quota}, {self.resource}: {self.used} of {self.hard} used"


class Quotas:
    """The quotas of all namespaces. Methods that change something give the namespaces in which more may be left now."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = {family.name: family for family in families}
        self._quotas: dict[str, dict[str, _Quota]] = {}
        self._charges: dict[str, _Charge] = {}
        self._uids: dict[str, dict[str, None]] = {}

    @property
    def known(self) -> list[tuple[str, str]]:
        """Namespace and name of every quota on cards."""
        return [(namespace, name) for namespace, quotas in self._quotas.items() for name in quotas]

    # -- facts -----------------------------------------------------------------------------------------------------

    def set_quota(self, reading: QuotaReading) -> set[str]:
        """A quota is there, or has changed."""
        before = self._quotas.get(reading.namespace, {}).get(reading.name)
        if before is not None and before.reading == reading:
            return set()
        freed = self.remove_quota(reading.namespace, reading.name)
        if reading.is_of_cards:
            quota = _Quota(reading)
            for uid in self._uids.get(reading.namespace, ()):
                if reading.counts(self._charges[uid].traits):
                    quota.add(self._charges[uid].amounts(), 1)
            self._quotas.setdefault(reading.namespace, {})[reading.name] = quota
        return freed

    def remove_quota(self, namespace: str, name: str) -> set[str]:
        """A quota is gone; one that was not there is gone already."""
        quotas = self._quotas.get(namespace, {})
        if quotas.pop(name, None) is None:
            return set()
        if not quotas:
            del self._quotas[namespace]
        return {namespace}

    def charge(
        self, uid: str, namespace: str, containers: Sequence[ContainerAllocation], traits: PodTraits | None = None
    ) -> set[str]:
        """A pod has these cards, in place of whatever it had. Without `traits` every quota counts it."""
        charge = _Charge(namespace, tuple(containers), traits)
        before = self._charges.get(uid)
        freed = self.release(uid)
        self._charges[uid] = charge
        self._uids.setdefault(namespace, {})[uid] = None
        self._count(charge, 1)
        return freed if before is not None and freed and before.frees(charge) else set()

    def release(self, uid: str) -> set[str]:
        """A pod has no cards any more."""
        charge = self._charges.pop(uid, None)
        if charge is None:
            return set()
        uids = self._uids[charge.namespace]
        del uids[uid]
        if not uids:
            del self._uids[charge.namespace]
        return {charge.namespace} if self._count(charge, -1) else set()

    # -- questions -------------------------------------------------------------------------------------------------

    def left(
        self,
        namespace: str,
        without_uid: str = "",
        *,
        traits: PodTraits | None = None,
        ended: Collection[str] = (),
    ) -> Mapping[str, Left]:
        """What a pod may still take, by family; what is not limited is not there.

        What the pod of `without_uid` (the one that asks) and the pods of `ended` take does not count.
        """
        quotas = self._counting(namespace, traits)
        if not quotas:
            return _NO_LIMITS
        uids = {without_uid, *ended}
        leaving = [self._charges[uid] for uid in uids if uid in self._charges]
        leaving = [charge for charge in leaving if charge.namespace == namespace]
        limited = {name for quota in quotas for name in (*quota.reading.hard, *quota.reading.unreadable)}
        return {name: _left(self._families[name], quotas, leaving) for name in sorted(limited)}

    def judge(self, request: PodRequest) -> tuple[str, ...]:
        """Why a new pod is refused, a sentence for each quota, as Kubernetes says it; () where it is not.

        Memory in percent counts as nothing here: it depends on the card, so the check of each card judges it.
        """
        asked = least_amounts(request.containers)
        sentences = (
            _judged(quota, self._families, asked) for quota in self._counting(request.namespace, request.traits)
        )
        return tuple(filter(None, sentences))

    def usage(self) -> Iterator[Usage]:
        """Every limit with what is in use of it."""
        for namespace, quotas in self._quotas.items():
            for quota in quotas.values():
                for family in self._families.values():
                    for limit in filter(None, _limits(quota, family, ())):
                        yield namespace, limit.quota, limit.resource, limit.used, limit.hard

    # -- inside ----------------------------------------------------------------------------------------------------

    def _count(self, charge: _Charge, sign: int) -> bool:
        """Add a charge to the quotas that count it, or take it off them; False where none does."""
        counting = self._counting(charge.namespace, charge.traits)
        if counting:
            amounts = charge.amounts()
            for quota in counting:
                quota.add(amounts, sign)
        return bool(counting)

    def _counting(self, namespace: str, traits: PodTraits | None) -> list[_Quota]:
        """The quotas that count such a pod, by name."""
        quotas = self._quotas.get(namespace)
        if not quotas:
            return []
        return [quotas[name] for name in sorted(quotas) if quotas[name].reading.counts(traits)]


def _limits(quota: _Quota, family: Family, leaving: Iterable[_Charge]) -> tuple[_Limit | None, ...]:
    """The limits of one quota on cards, memory and cores."""
    hard = quota.reading.hard.get(family.name, Hard())
    used = quota.used_without(family.name, leaving)
    amounts = (
        (family.count_resource, hard.cards, used.cards),
        (family.memory_resource, hard.memory_mib, used.memory_mib),
        (family.cores_resource, hard.cores_percent, used.cores_percent),
    )
    return tuple(
        None if most is None else _Limit(quota.reading.name, LIMITS + resource, most, taken)
        for resource, most, taken in amounts
    )


def _left(family: Family, quotas: Sequence[_Quota], leaving: Sequence[_Charge]) -> Left:
    """What the tightest quota leaves of each amount. Nothing is left where one cannot be read."""
    for quota in quotas:
        if why := quota.reading.unreadable.get(family.name):
            return Left(cards=0, says=(_unreadable(quota, why), "", ""))
    columns = zip(*(_limits(quota, family, leaving) for quota in quotas), strict=True)
    tightest = [min(filter(None, column), key=lambda limit: limit.left, default=None) for column in columns]
    cards, memory_mib, cores_percent = (None if limit is None else limit.left for limit in tightest)
    says = tuple("" if limit is None else limit.says for limit in tightest)
    return Left(cards=cards, memory_mib=memory_mib, cores_percent=cores_percent, says=(says[0], says[1], says[2]))


def _unreadable(quota: _Quota, why: str) -> str:
    return f"quota {quota.reading.name}, which cannot be read ({why})"


def _judged(quota: _Quota, families: Mapping[str, Family], asked: Mapping[str, Amounts]) -> str:
    """The sentence of one quota; empty where the pod stays within it."""
    exceeded: list[tuple[_Limit, int]] = []
    for name, amounts in asked.items():
        if why := quota.reading.unreadable.get(name):
            return f"{_unreadable(quota, why)}: no new pod gets {families[name].title} cards until it can"
        limits = zip(_limits(quota, families[name], ()), amounts, strict=True)
        exceeded += [(limit, amount) for limit, amount in limits if limit is not None and amount > limit.left]
    if not exceeded:
        return ""
    requested = ",".join(f"{limit.resource}={amount}" for limit, amount in exceeded)
    used = ",".join(f"{limit.resource}={limit.used}" for limit, _amount in exceeded)
    limited = ",".join(f"{limit.resource}={limit.hard}" for limit, _amount in exceeded)
    return f"exceeded quota: {quota.reading.name}, requested: {requested}, used: {used}, limited: {limited}"


def _sum(a: Amounts, b: Amounts, sign: int) -> Amounts:
    return Amounts(
        a.cards + sign * b.cards, a.memory_mib + sign * b.memory_mib, a.cores_percent + sign * b.cores_percent
    )
