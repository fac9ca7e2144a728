"""Meshes: places of ranks, what does not fit, and sums over the processes of an axis."""

from __future__ import annotations

import pytest

from pdl.distributed.mesh import Mesh
from pdl.errors import UsageError
from tests.framework.distributed.conftest import Ranks


def test_neighbours_are_of_one_tensor_axis() -> None:
    mesh = Mesh({"data": 2, "tensor": 3}, rank=4)
    assert mesh.place == {"data": 1, "pipeline": 0, "tensor": 1}
    assert mesh.ranks("tensor") == [3, 4, 5]
    assert mesh.ranks("data") == [1, 4]
    mesh = Mesh({"data": 2, "pipeline": 2, "tensor": 2}, rank=5)
    assert mesh.ranks("pipeline") == [5, 7]
    assert mesh.ranks("data") == [1, 5]
    assert str(Mesh.parse("tensor=2, data=4")) == "data=4 x tensor=2"


@pytest.mark.parametrize("text", ["data", "data=0", "data=2,data=2", "width=2", "data=-1", ""])
def test_what_is_no_mesh_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="is no axis and its size; write data=2,tensor=2"):
        Mesh.parse(text)


def test_groups_and_sums_along_axes(ranks: Ranks) -> None:
    ranks(
        4,
        """
        import numpy as np
        from pdl.distributed.group import world
        from pdl.distributed.mesh import Line, Mesh
        from pdl.errors import UsageError

        group = world()
        try:
            Mesh({"data": 3}, group=group)
        except UsageError as error:
            assert "are 3 processes, and there are 4" in str(error)
        else:
            raise AssertionError
        mesh = Mesh({"data": 2, "tensor": 2}, group=group)
        for axis in ("tensor", "data"):
            part = mesh.group(axis)
            assert part.rank == mesh.place[axis]
            assert part.rows(np.array([group.rank]))[:, 0].tolist() == mesh.ranks(axis)
        everyone = Line(group)
        for size in (3, 1001):  # by one gather, and by shares
            x = np.arange(size, dtype=np.float32) * (group.rank + 1) / 7
            total = everyone.total(x)
            assert len(set(group.texts(total.tobytes().hex()))) == 1
            np.testing.assert_allclose(total, np.arange(size) * 10 / 7, rtol=1e-6)
        """,
    )
