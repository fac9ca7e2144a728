"""The papers' formulas in plain NumPy, a session and a node at a time, as slow and as close to the text as can be."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = Mapping[str, Array]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def sr_gnn(w: Weights, session: list[int], steps: int) -> Array:
    """arXiv 1811.00855, equations 1 to 7: a graph of the items, each once."""
    nodes = sorted(set(session))
    edges = np.zeros((len(nodes), len(nodes)))
    for before, item in pairwise(session):
        edges[nodes.index(before), nodes.index(item)] += 1
    outgoing, incoming = (m / np.maximum(m.sum(1, keepdims=True), 1) for m in (edges, edges.T))
    v = w["items.weight"][nodes]
    width = v.shape[1]
    w_z, w_r, w_o = np.split(w["graph.gates.weight"], 3, axis=1)
    u_z, u_r = np.split(w["graph.own.weight"], 2, axis=1)
    for _ in range(steps):
        new = np.empty_like(v)
        for i, _ in enumerate(nodes):
            around = [outgoing[i] @ v @ w["graph.outgoing.weight"], incoming[i] @ v @ w["graph.incoming.weight"]]
            a = np.concatenate(around) + w["graph.bias"]
            z, r = sigmoid(a @ w_z + v[i] @ u_z), sigmoid(a @ w_r + v[i] @ u_r)
            new[i] = (1 - z) * v[i] + z * np.tanh(a @ w_o + (r * v[i]) @ w["graph.candidate.weight"])
        v = new
    clicks = v[[nodes.index(item) for item in session]]
    whole = np.zeros(width)
    for click in clicks:
        recent = clicks[-1] @ w["readout.recent.weight"] + w["readout.recent.bias"]
        whole += sigmoid(recent + click @ w["readout.each.weight"]) @ w["readout.weigh.weight"] * click
    return np.concatenate([clicks[-1], whole]) @ w["readout.merge.weight"]


def gru(w: Weights, inputs: list[Array]) -> list[Array]:
    """All states of the layer that is called gru."""
    h, states = np.zeros(w["gru.weight_hh_l0"].shape[0]), []
    for each in inputs:
        x = each @ w["gru.weight_ih_l0"] + w["gru.bias_ih_l0"]
        p = h @ w["gru.weight_hh_l0"] + w["gru.bias_hh_l0"]
        (xr, xz, xn), (pr, pz, pn) = np.split(x, 3), np.split(p, 3)
        z = sigmoid(xz + pz)
        h = (1 - z) * np.tanh(xn + sigmoid(xr + pr) * pn) + z * h
        states.append(h)
    return states


def narm(w: Weights, session: list[int]) -> Array:
    """arXiv 1711.04725, section 3: the states of a GRU, attention to the last, the bilinear form."""
    states = gru(w, [w["items.weight"][item] for item in session])
    h = states[-1]
    meant = np.zeros_like(h)
    for state in states:
        alpha = sigmoid(h @ w["recent.weight"] + state @ w["each.weight"]) @ w["weigh.weight"]
        meant += alpha * state
    return np.concatenate([h, meant]) @ w["bilinear.weight"]


def layer_norm(x: Array, w: Weights, name: str) -> Array:
    spread = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return (x - x.mean(-1, keepdims=True)) / spread * w[f"{name}.weight"] + w[f"{name}.bias"]


def sasrec(w: Weights, session: list[int], blocks: int, heads: int) -> Array:
    """arXiv 1808.09781, section III, with x + g(LayerNorm(x)) around attention and around the two linear layers."""
    width = w["items.weight"].shape[1]
    x = w["items.weight"][session] * np.sqrt(width) + w["positions.weight"][: len(session)]
    for block in (f"body.layers.{b}" for b in range(blocks)):
        y = layer_norm(x, w, f"{block}.norm1")
        three = y @ w[f"{block}.self_attn.in_proj_weight"] + w[f"{block}.self_attn.in_proj_bias"]
        mixed = np.zeros_like(x)
        for head in range(heads):
            at = slice(head * width // heads, (head + 1) * width // heads)
            q, k, v = (each[:, at] for each in np.split(three, 3, axis=1))
            scores = q @ k.T / np.sqrt(width // heads)
            scores[np.triu_indices(len(session), 1)] = -np.inf
            p = np.exp(scores - scores.max(1, keepdims=True))
            mixed[:, at] = p / p.sum(1, keepdims=True) @ v
        x = x + mixed @ w[f"{block}.self_attn.out_proj.weight"] + w[f"{block}.self_attn.out_proj.bias"]
        y = layer_norm(x, w, f"{block}.norm2")
        inner = np.maximum(y @ w[f"{block}.linear1.weight"] + w[f"{block}.linear1.bias"], 0)
        x = x + inner @ w[f"{block}.linear2.weight"] + w[f"{block}.linear2.bias"]
    return layer_norm(x, w, "body.norm")[-1]


def ssr_item(w: Weights, item: int, fields: Mapping[str, Array]) -> Array:
    """The item tower: its own vector and the means of its fields' vectors through two layers. Fields of names are
    integers with zeros behind the last."""
    parts = []
    for name, values in fields.items():
        row = values[item]
        if row.dtype.kind == "f":
            parts.append(row)
            continue
        named = [w[f"tower.names_{name}.weight"][k] for k in row if k]
        parts.append(np.mean(named, axis=0) if named else np.zeros(w[f"tower.names_{name}.weight"].shape[1]))
    inner = np.concatenate([*parts, w["tower.own.weight"][item]]) @ w["tower.first.weight"] + w["tower.first.bias"]
    return np.tanh(inner) @ w["tower.second.weight"] + w["tower.second.bias"]


def ssr(w: Weights, session: list[int], fields: Mapping[str, Array], cosine: float) -> Array:
    """The session tower over items of length 1; the last state, projected, at length `cosine`."""
    vectors = [ssr_item(w, item, fields) for item in session]
    state = gru(w, [v / np.linalg.norm(v) for v in vectors])[-1]
    made = state @ w["project.weight"] + w["project.bias"]
    return cosine * made / np.linalg.norm(made)
