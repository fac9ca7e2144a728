"""Model cards of trained circuits."""

from __future__ import annotations

from collections.abc import Mapping

from pdl.train import Recipe


def card_of(
    title: str, what: str, recipe: Recipe, metrics: Mapping[str, float | None], *, protocol: str, use: str, licence: str
) -> str:
    """A card, in markdown."""
    source = recipe.data.source
    rows = [f"| {name} | {value:.8g} |" for name, value in metrics.items() if value is not None]
    parts = [
        f"# {title}",
        what,
        "## Data",
        f"{source.target if source else 'As the recipe names it'}; config.yaml in this bundle holds the whole recipe.",
        "## Metrics",
        "\n".join([protocol, "", "| metric | value |", "|---|---|", *rows]),
        "## Licence",
        licence or "Not stated: ask whoever gave you this file.",
        "## Use",
        use,
    ]
    return "\n\n".join(parts) + "\n"


__all__ = ["card_of"]
