"""Why a pod does not fit: node by node and card by card, from the same verdicts that decide."""

from __future__ import annotations

from dataclasses import dataclass

from cardwise.core.checks import CHECKS, FITS, NOT_ASKED, CardState, verdicts
from cardwise.core.model import Card, Refusal
from cardwise.core.place import never_fits
from cardwise.core.plan import Step, steps_of
from cardwise.core.scene import Scene


@dataclass(frozen=True, slots=True, kw_only=True)
class CardVerdict:
    """One card: the check that refuses it, HAMi's code for it and the sentence with the numbers; all empty if it fits."""

    card: Card
    check: str = ""
    code: str = ""
    says: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVerdict:
    """One node: what kube-scheduler's rules say, why the cards do not do (None: they do), and each card.

    The cards are judged for `container`: the one that does not fit, else the first that asks.
    """

    node: str
    rules: tuple[Refusal, ...] = ()
    refusal: Refusal | None = None
    container: str = ""
    cards: tuple[CardVerdict, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the node takes the pod."""
        return not self.rules and self.refusal is None

    @property
    def reason(self) -> str:
        """One sentence; empty if the node fits."""
        parts = [refusal.text for refusal in self.rules]
        if self.refusal is not None:
            parts.append(self.refusal.text)
        return "; ".join(parts)


def node_verdicts(scene: Scene) -> tuple[NodeVerdict, ...]:
    """Every node's verdict, by name."""
    cards = scene.cluster.cards
    refusals = scene.cluster.refusals(scene.pod, preference=scene.preference())
    steps = steps_of(scene.pod)
    found = []
    for name, n in sorted(cards.index_of.items()):
        refusal = refusals.get(name)
        step = _judged(scene, steps, refusal)
        found.append(
            NodeVerdict(
                node=name,
                rules=scene.rule_refusals(n),
                refusal=refusal,
                container=scene.pod.containers[step.container].name,
                cards=card_verdicts(scene, n, step),
            )
        )
    return tuple(found)


def _judged(scene: Scene, steps: tuple[Step, ...], refusal: Refusal | None) -> Step:
    named = refusal.container if refusal else ""
    return next((step for step in steps if scene.pod.containers[step.container].name == named), steps[0])


def card_verdicts(scene: Scene, n: int, step: Step) -> tuple[CardVerdict, ...]:
    """The node's cards of the family that the step asks for, in their order."""
    cards = scene.cluster.cards
    node = cards.node(n)
    family = scene.cluster.families[step.need.family]
    rows = verdicts(cards.view(slice(n, n + 1)), step.need)[:, 0].tolist()
    found = []
    for k, card in enumerate(node.cards):
        if rows[k] == NOT_ASKED:
            continue
        if rows[k] == FITS:
            found.append(CardVerdict(card=card))
            continue
        check = CHECKS[rows[k]]
        state = CardState(card=card, use=cards.use(n, k), cordoned=card.uuid in node.cordoned)
        says = check.says(state, step.need, family)
        found.append(CardVerdict(card=card, check=check.name, code=check.code, says=says))
    return tuple(found)


def nearest_miss(found: tuple[NodeVerdict, ...]) -> NodeVerdict | None:
    """The node that comes closest: the fewest of kube-scheduler's rules against it, then the fewest cards that refuse.

    Of equals, the one whose cards pass the most checks; then the first by name.
    """
    rank = {check.name: row for row, check in enumerate(CHECKS)}

    def distance(verdict: NodeVerdict) -> tuple[int, int, int, int]:
        refused = [card for card in verdict.cards if card.check]
        reached = max((rank[card.check] for card in refused), default=FITS if verdict.cards else -1)
        lasting = sum(refusal.lasting for refusal in (*verdict.rules, *filter(None, (verdict.refusal,))))
        fitting = len(verdict.cards) - len(refused)
        return lasting, len(verdict.rules), -fitting, -reached

    misses = [verdict for verdict in found if not verdict.fits]
    return min(misses, key=distance, default=None)


def never(scene: Scene) -> bool:
    """Whether no pod's leaving could help: on no node do lasting rules and empty cards let the pod in."""
    table, cards = scene.table, scene.cluster.cards
    possible = table.mask(scene.rules, {})
    for n in possible.nonzero()[0].tolist():
        possible[n] = not any(refusal.lasting for refusal in scene.rule_refusals(n))
    return never_fits(cards, scene.pod, possible)
