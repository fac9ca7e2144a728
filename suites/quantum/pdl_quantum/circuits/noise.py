"""Noise as a rule about gates: which channels follow them, how measurements are misread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl.suites import suggest
from pdl_quantum.circuits.channels import Channel, channel_of
from pdl_quantum.circuits.circuit import Circuit
from pdl_quantum.circuits.gates import CONTROLLED, KINDS, Gate
from pdl_quantum.circuits.plain import channel_as_plain, channel_of_plain

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Rule:
    """A channel after gates of these names, or on this many qubits; where all, or only some of the qubits are meant."""

    gates: int | tuple[str, ...]
    channel: Channel
    qubits: frozenset[int] | None

    def after(self, gate: Gate, name: str) -> list[tuple[int, ...]]:
        """The qubits on which the channel follows a gate, for each time."""
        if self.gates != len(gate.touched) if isinstance(self.gates, int) else name not in self.gates:
            return []
        if self.channel.num_qubits == 1:
            return [(q,) for q in gate.touched if self.qubits is None or q in self.qubits]
        if len(gate.touched) != 2:
            raise UsageError(f"noise: {self.channel!r} is of two qubits and cannot follow {name} on {gate.touched}")
        return [gate.touched] if self.qubits is None or self.qubits >= set(gate.touched) else []


class NoiseModel:
    """Channels that follow gates, and readout errors.

        model = (NoiseModel()
            .after(1, depolarizing(0.001))                       # gates on one qubit, whatever they are
            .after(["cx", "cz"], depolarizing(0.01, 2))
            .after("cx", amplitude_damping(0.02), qubits=[3])    # on qubit 3 alone
            .readout([[0.99, 0.01], [0.03, 0.97]]))
        run(circuit, 1000, noise=model)

    Names are those of `Circuit.count`, or "reset". All rules that fit a gate apply, in the order given; a channel of
    one qubit follows on every qubit of the gate, controls too. The noise of a gate on a condition has that condition.

    rules   the same as plain values, for configs:
            - {after: 1, channel: {name: depolarizing, p: 0.001}}
            - {after: [cx, cz], channel: {name: depolarizing, p: 0.01, num_qubits: 2}}
            - {after: cx, channel: {name: amplitude_damping, gamma: 0.02}, qubits: [3]}
            - {readout: [[0.99, 0.01], [0.03, 0.97]]}
    """

    def __init__(self, rules: Sequence[Mapping[str, Any]] = ()) -> None:
        self.channels: list[Rule] = []
        self.confusions: list[tuple[Array, frozenset[int] | None]] = []
        for rule in rules:
            strange = set(rule) - {"after", "channel", "readout", "qubits"}
            if strange or ("after" in rule) != ("channel" in rule) or ("after" in rule) == ("readout" in rule):
                raise UsageError(f"noise: a rule {dict(rule)}; give after and channel, or readout, and maybe qubits")
            if "readout" in rule:
                self.readout(rule["readout"], qubits=rule.get("qubits"))
            else:
                self.after(rule["after"], channel_of_plain(rule["channel"]), qubits=rule.get("qubits"))

    def after(
        self, gates: int | str | Sequence[str], channel: Channel | Array, *, qubits: Sequence[int] | None = None
    ) -> NoiseModel:
        """A channel after gates: of a name, of several, or on this many qubits.

        qubits   only there: a channel of one qubit on these of the gate's, one of two where both are among them
        """
        if isinstance(gates, int):
            named: int | tuple[str, ...] = gates
        else:
            named = tuple(_known(name) for name in ([gates] if isinstance(gates, str) else gates))
        self.channels.append(Rule(named, channel_of(channel), None if qubits is None else frozenset(qubits)))
        return self

    def readout(self, confusion: Any, *, qubits: Sequence[int] | None = None) -> NoiseModel:
        """A confusion matrix [2, 2] for measurements of all qubits or of these, row by row what is read of 0 and of 1.
        Of several the last that fits holds, and before all a measurement's own."""
        probe = Circuit(1).measure(0, confusion=confusion)  # it checks
        self.confusions.append((probe.gates[0].about, None if qubits is None else frozenset(qubits)))
        return self

    def plain(self) -> list[dict[str, Any]]:
        """Its rules as plain values: NoiseModel(model.plain()) is the same model."""
        made: list[dict[str, Any]] = []
        for rule in self.channels:
            names = rule.gates if isinstance(rule.gates, int) else list(rule.gates)
            made.append({"after": names, "channel": channel_as_plain(rule.channel), **_qubits(rule.qubits)})
        made += [{"readout": confusion.tolist(), **_qubits(qubits)} for confusion, qubits in self.confusions]
        return made


def noisy(circuit: Circuit, model: NoiseModel) -> Circuit:
    """The circuit with the model's channels behind its gates and its readout errors in measurements."""
    made = Circuit(circuit.num_qubits, circuit.num_bits)
    made.parameters = dict(circuit.parameters)
    for gate in circuit.gates:
        if gate.kind == "measure" and gate.about is None:
            fitting = [c for c, qubits in model.confusions if qubits is None or gate.qubits[0] in qubits]
            gate = replace(gate, about=fitting[-1] if fitting else None)
        made.add(gate)
        if gate.kind in ("measure", "channel", "barrier"):
            continue
        name = "c" * len(gate.controls) + gate.kind
        for rule in model.channels:
            for qubits in rule.after(gate, name):
                made.add(Gate("channel", qubits, about=rule.channel, condition=gate.condition))
    return made


def _known(name: str) -> str:
    """A gate's name as `Circuit.count` has it."""
    if name in CONTROLLED:
        kind, controls = CONTROLLED[name]
        return "c" * controls + kind
    kinds = [*KINDS, "unitary", "pauli", "reset"]
    if name not in kinds and name.lstrip("c") not in kinds:
        raise UsageError(f"noise: there is no gate {name!r}{suggest(name, [*kinds, *CONTROLLED])}")
    return name


def _qubits(qubits: frozenset[int] | None) -> dict[str, list[int]]:
    return {} if qubits is None else {"qubits": sorted(qubits)}
