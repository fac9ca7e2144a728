"""Players: modules of a model that learn in turn, each with an optimiser of its own, such as generator and
discriminator.

A task that names none (`Task.players`) has one, the whole model, which makes one turn a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pdl.config import build
from pdl.errors import ConfigError, UsageError, listed
from pdl.nn import Module
from pdl.optim import Optimizer, Scheduler
from pdl.program import CompiledStep

if TYPE_CHECKING:
    from pdl.train.recipe import Recipe
    from pdl.train.task import Task


@dataclass
class Player:
    """What learns in a turn.

    name      of the module in the model; "" of the whole model
    module    whose parameters are learned
    steps     turns it makes of every batch
    """

    name: str
    module: Module
    optimizer: Optimizer
    steps: int = 1
    scheduler: Scheduler | None = None
    compiled: CompiledStep | None = None

    @contextmanager
    def alone(self, model: Module) -> Iterator[None]:
        """Inside the block no other parameter of the model requires a gradient."""
        own = {id(p) for p in self.module.parameters()}
        others = [p for p in model.parameters() if p.requires_grad and id(p) not in own]
        for p in others:
            p.requires_grad = False
        try:
            yield
        finally:
            for p in others:
                p.requires_grad = True


class Played:
    """The model as a compiled step of a player sees it: all of its modules, and the parameters that the player
    learns."""

    def __init__(self, model: Module, player: Module) -> None:
        self.modules, self.named_modules = model.modules, model.named_modules
        self.named_parameters, self.named_buffers = model.named_parameters, model.named_buffers
        self.parameters = player.parameters


def learners(recipe: Recipe, task: Task, model: Module) -> Optimizer | list[Player]:
    """The optimiser of the recipe, or its players where the task has some. ConfigError where the recipe names others,
    or a parameter belongs to none."""
    names = list(task.players(model))
    if unknown := [name for name in recipe.players if name not in names]:
        have = f"it has {listed(names)}" if names else "it has none, so the whole model learns by optim"
        raise ConfigError(f"players: {listed(unknown)} is no player of {recipe.model.target}; {have}")
    if not names:
        optimizer: Optimizer = recipe.optim.build(params=model)
        return optimizer
    made = []
    for name in names:
        module, given = model.get_submodule(name), recipe.players.get(name, {})
        optim = given.get("optim") or recipe.optim.node
        made.append(Player(name, module, build(optim, params=module), int(given.get("steps", 1))))
    known = {id(p) for player in made for p in player.module.parameters()}
    if left := [n for n, p in model.named_parameters() if p.requires_grad and id(p) not in known]:
        raise ConfigError(
            f"train.freeze: {listed(left, 3)} belongs to no player ({listed(names)}), so it would never be learned; "
            "freeze it"
        )
    return made


def refuse_players(task: Task, model: Module, what: str) -> None:
    """UsageError where the task has players; `what` takes one optimiser."""
    if names := list(task.players(model)):
        raise UsageError(
            f"{what}: {type(task).__name__} trains {listed(names)} in turn here, and this takes a model that learns by "
            "one optimiser; leave it out"
        )


def by_name(players: Sequence[Player], of: Any) -> Any:
    """`of(player)` of the only one, or by name of several: as checkpoints hold it."""
    return {p.name: of(p) for p in players} if players[0].name else of(players[0])


def saved_of(player: Player, saved: Any) -> Any:
    """What `by_name` gave for this player."""
    return saved[player.name] if player.name and isinstance(saved, Mapping) else saved
