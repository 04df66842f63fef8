"""Cards as a probe finds them, with short defaults."""

from collections.abc import Sequence

from cardwise.agent.probe import Found, FoundCard, Level, Link


def found_card(
    number: int = 0,
    *,
    uuid: str | None = None,
    model: str = "NVIDIA A40",
    memory_mib: int | None = 46068,
    numa: int | None = 0,
    pci: str | None = None,
    mig: bool = False,
    switch_links: int = 0,
    fault: str = "",
) -> FoundCard:
    return FoundCard(
        uuid=f"GPU-{number}" if uuid is None else uuid,
        index=number,
        model=model,
        memory_mib=memory_mib,
        numa=numa,
        pci=f"0000:{number + 16:02x}:00.0" if pci is None else pci,
        minor=number,
        mig=mig,
        switch_links=switch_links,
        fault=fault,
    )


def links_between(rows: Sequence[Sequence[tuple[Level | None, int]]]) -> tuple[Link, ...]:
    """The links of cards GPU-0, GPU-1, ... by rows of (path, NVLinks); the diagonal does not count."""
    return tuple(
        Link(uuid=f"GPU-{i}", peer=f"GPU-{j}", level=level, nvlinks=nvlinks)
        for i, row in enumerate(rows)
        for j, (level, nvlinks) in enumerate(row)
        if i != j
    )


def found(*cards: FoundCard, links: tuple[Link, ...] = ()) -> Found:
    return Found(cards=cards, links=links)
