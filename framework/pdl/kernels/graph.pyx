"""Structure of graphs: rows from edges, sampled neighbours, random walks, pairs that are no edges, subgraphs, ranks by links.

A graph is its lists of neighbours: start int64 [N + 1], ids int32 [E]; those of node v are ids[start[v]:start[v + 1]]. Functions that draw
or search trust lists that `check` has passed. Results do not depend on the number of threads.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

import numpy as np

from pdl.errors import ShapeError, UsageError

ctypedef fused integer:
    int32_t
    int64_t

ctypedef fused spot:
    int32_t
    int64_t

cdef extern from "graph.h" namespace "pdl::graph":
    cdef enum Fault:
        kFine
        kStarts
        kIds
    cdef cppclass Numbering:
        const vector[int32_t]& nodes()
        int64_t size()
    cdef cppclass Parts:
        vector[int64_t] size, degree, edge
        vector[int32_t] node, hop, neighbour
    int64_t sort[I, P](P* order, int64_t* start, int32_t* carried, const I* ids, const P* before, const int32_t* carry, int64_t e,
                       int64_t n) except + nogil
    void c_expand "pdl::graph::expand"(int32_t* row, const int64_t* start, int64_t n) noexcept nogil
    Fault c_check "pdl::graph::check"(cbool* ascending, const int64_t* start, const int32_t* ids, int64_t rows, int64_t e, int64_t n) nogil
    void c_number "pdl::graph::number"(Numbering& table, int32_t* numbers, const int32_t* ids, int64_t n) except + nogil
    void enclose_all(Parts& out, const int64_t* start, const int32_t* ids, const int64_t* seed_start, const int32_t* seeds, int64_t n,
                     int hops) except + nogil
    void c_pull "pdl::graph::pull"(double* y, const double* base, const double* x, const int64_t* start, const int32_t* ids,
                                   const double* weight, int64_t n, double damping) noexcept nogil
    int64_t c_components "pdl::graph::components"[I](int64_t* label, uint8_t* tree, const I* a, const I* b, int64_t e,
                                                     int64_t n) except + nogil

cdef extern from "walks.h" namespace "pdl::graph":
    uint64_t bits_of(uint64_t stream, uint64_t count) noexcept nogil
    cdef cppclass Lists:
        const int64_t* start
        const int32_t* ids
        const double* weight
        const double* sums
    cdef cppclass Walks:
        const Lists* layers
        int64_t num_layers
        double p, q
        uint64_t key
        const int32_t* starts
        const int64_t* streams
        int64_t n, length
    cdef cppclass Strangers:
        Lists g
        const double* keep
        const double* weight
        const int64_t* other
        int64_t columns
        cbool self
        uint64_t key
    int64_t add_up(double* sums, const double* weight, const int64_t* start, int64_t n) nogil
    void count_neighbours(int64_t* counts, const Lists& g, const int32_t* nodes, int64_t n, int64_t k, cbool replace) noexcept nogil
    void draw_neighbours(int64_t* edge, int32_t* id, const Lists& g, const int32_t* nodes, const int64_t* at, int64_t n, cbool replace,
                         uint64_t key) noexcept nogil
    void c_walk "pdl::graph::walk"(int32_t* out, const Walks& w) noexcept nogil
    int64_t c_strangers "pdl::graph::strangers"(int32_t* out, const Strangers& s, const int32_t* nodes, const int64_t* streams, int64_t n,
                                                int64_t k) nogil


cdef inline int64_t* longs(const int64_t[::1] array) noexcept nogil:
    if array is None or array.shape[0] == 0:
        return NULL
    return <int64_t*>&array[0]


cdef inline int32_t* ints(const int32_t[::1] array) noexcept nogil:
    if array is None or array.shape[0] == 0:
        return NULL
    return <int32_t*>&array[0]


cdef inline double* reals(const double[::1] array) noexcept nogil:
    if array is None or array.shape[0] == 0:
        return NULL
    return <double*>&array[0]


cdef int demand(str name, str what, int64_t got, int64_t wanted) except -1:
    if got != wanted:
        raise ShapeError(f"{name}: {what} has {got} elements, {wanted} are expected")
    return 0


cdef int demand_nodes(str name, const int32_t[::1] nodes, int64_t n) except -1:
    cdef int64_t i
    for i in range(nodes.shape[0]):
        if nodes[i] < 0 or nodes[i] >= n:
            raise UsageError(f"{name}: node {nodes[i]} at place {i} is none of the {n} of the graph, 0 to {n - 1}")
    return 0


cdef int lists_of(Lists* g, str name, const int64_t[::1] start, const int32_t[::1] ids, const double[::1] weight,
                  const double[::1] sums) except -1:
    if start.shape[0] < 1 or start[start.shape[0] - 1] != ids.shape[0]:
        raise ShapeError(f"{name}: lists that end at {start[start.shape[0] - 1] if start.shape[0] else None} do not fit {ids.shape[0]} ids")
    if (weight is None) != (sums is None) or (weight is not None and not (weight.shape[0] == sums.shape[0] == ids.shape[0])):
        raise ShapeError(f"{name}: weight and sums come together, one for each of {ids.shape[0]} edges")
    g.start, g.ids, g.weight, g.sums = longs(start), ints(ids), reals(weight), reals(sums)
    return 0


def key(uint64_t seed, *numbers):
    """A key of draws from a seed and counts such as epoch and step."""
    cdef uint64_t made = bits_of(seed, 0)
    for number in numbers:
        made = bits_of(made, <uint64_t>number)
    return made


def group(
    spot[::1] order not None,           # OUT [E]
    int64_t[::1] start not None,        # OUT [n + 1]
    const integer[::1] ids not None,    # IN  [E] in [0, n)
    *,
    const spot[::1] before=None,        # IN  [E] the order in which they are taken; as they stand if not given
    int32_t[::1] carried=None,          # OUT [E] carry[order], with
    const int32_t[::1] carry=None,      # IN  [E]
):
    """Stable counting sort: order[start[v]:start[v + 1]] are the places of id v. Returns the place of an id out of range, or -1."""
    cdef int64_t e = ids.shape[0], n = start.shape[0] - 1, bad
    cdef const spot* first = NULL
    demand("group", "order", order.shape[0], e)
    if before is not None:
        demand("group", "before", before.shape[0], e)
    if (carried is None) != (carry is None) or (carry is not None and not (carried.shape[0] == carry.shape[0] == e)):
        raise ShapeError(f"group: carried and carry come together, with {e} elements")
    if n < 0:
        raise ShapeError("group: start has no element")
    if e == 0:
        start[:] = 0
        return -1
    if before is not None:
        first = &before[0]
    with nogil:
        bad = sort(&order[0], &start[0], ints(carried), &ids[0], first, ints(carry), e, n)
    return bad


def expand(
    int32_t[::1] row not None,          # OUT [E]
    const int64_t[::1] start not None,  # IN  [N + 1]
):
    """The list that each entry stands in."""
    cdef int64_t v, n = start.shape[0] - 1
    if n < 0 or start[0] != 0:
        raise ShapeError("expand: start begins with 0")
    for v in range(n):
        if start[v] > start[v + 1]:
            raise ShapeError(f"expand: list {v} begins at {start[v]} and ends at {start[v + 1]}")
    demand("expand", "row", row.shape[0], start[n])
    with nogil:
        c_expand(ints(row), &start[0], n)


def check(
    const int64_t[::1] start not None,  # IN [N + 1]
    const int32_t[::1] ids not None,    # IN [E]
    int64_t columns,
):
    """Whether the ids of every list are ascending; raise `ShapeError` where these are no lists of ids in [0, columns)."""
    cdef cbool ascending = True
    cdef Fault fault
    if start.shape[0] < 1:
        raise ShapeError("neighbours: start has no element")
    with nogil:
        fault = c_check(&ascending, &start[0], ints(ids), start.shape[0] - 1, ids.shape[0], columns)
    if fault == kStarts:
        raise ShapeError(f"neighbours: start must ascend from 0 to the {ids.shape[0]} edges")
    if fault == kIds:
        raise ShapeError(f"neighbours: some of the {ids.shape[0]} ids are outside [0, {columns})")
    return bool(ascending)


def cumulate(
    double[::1] sums not None,          # OUT [E]
    const double[::1] weight not None,  # IN  [E]
    const int64_t[::1] start not None,  # IN  [N + 1], as checked
):
    """Sums of weights inside each list; raise `UsageError` where one is negative or not finite."""
    cdef int64_t bad
    demand("cumulate", "sums", sums.shape[0], start[start.shape[0] - 1])
    demand("cumulate", "weight", weight.shape[0], start[start.shape[0] - 1])
    if sums.shape[0] == 0:
        return
    with nogil:
        bad = add_up(&sums[0], &weight[0], &start[0], start.shape[0] - 1)
    if bad >= 0:
        raise UsageError(f"weights of edges are finite and not negative; edge {bad} has {weight[bad]}")


cdef class Numbers:
    """Numbers for nodes, in the order in which they come."""

    cdef Numbering table

    def add(self, int32_t[::1] numbers not None, const int32_t[::1] ids not None):
        """numbers OUT [n] of ids IN [n], which get one where they have none."""
        demand("Numbers", "numbers", numbers.shape[0], ids.shape[0])
        if ids.shape[0]:
            with nogil:
                c_number(self.table, &numbers[0], &ids[0], ids.shape[0])

    def nodes(self):
        """The nodes by number, int32."""
        return from_ints(self.table.nodes())


cdef object from_ints(const vector[int32_t]& values):
    made = np.empty(values.size(), np.int32)
    if values.size():
        made[:] = <int32_t[:values.size()]><int32_t*>values.data()
    return made


cdef object from_longs(const vector[int64_t]& values):
    made = np.empty(values.size(), np.int64)
    if values.size():
        made[:] = <int64_t[:values.size()]><int64_t*>values.data()
    return made


def neighbours(
    const int64_t[::1] start not None,
    const int32_t[::1] ids not None,
    const int32_t[::1] nodes not None,  # IN [n]
    *,
    uint64_t key,
    int64_t k,                          # at most so many each; -1: all
    bint replace=False,
    const double[::1] weight=None,      # IN [E] with
    const double[::1] sums=None,        # IN [E] from `cumulate`
):
    """(begin int64 [n + 1], id int32 [S], edge int64 [S]): neighbours drawn for each node; what a node gets depends on it and the key
    alone."""
    cdef Lists g
    cdef int64_t n = nodes.shape[0], size
    lists_of(&g, "neighbours", start, ids, weight, sums)
    demand_nodes("neighbours", nodes, start.shape[0] - 1)
    begin = np.zeros(n + 1, np.int64)
    cdef int64_t[::1] counts = begin[1:]
    if n:
        with nogil:
            count_neighbours(&counts[0], g, &nodes[0], n, k, replace)
    np.cumsum(begin, out=begin)
    size = begin[n]
    id, edge = np.empty(size, np.int32), np.empty(size, np.int64)
    cdef int32_t[::1] own_id = id
    cdef int64_t[::1] own_edge = edge, own_begin = begin
    if size:
        with nogil:
            draw_neighbours(&own_edge[0], &own_id[0], g, &nodes[0], &own_begin[0], n, replace, key)
    return begin, id, edge


def walks(
    int32_t[:, ::1] out not None,           # OUT [n, length + 1]
    list layers not None,                   # (start, ids) or (start, ids, weight, sums) each; step s goes along layers[s % len]
    const int32_t[::1] starts not None,     # IN  [n]
    const int64_t[::1] streams not None,    # IN  [n]
    *,
    uint64_t key,
    double p=1,
    double q=1,
):
    """Random walks; -1 from where a walk has nowhere to go. With p or q the lists must be ascending."""
    cdef vector[Lists] g
    cdef Lists one
    cdef Walks w
    cdef const int64_t[::1] start
    cdef const int32_t[::1] ids
    cdef const double[::1] weight, sums
    demand("walks", "out's rows", out.shape[0], starts.shape[0])
    demand("walks", "streams", streams.shape[0], starts.shape[0])
    if not (p > 0 and q > 0):
        raise UsageError(f"walks: p={p} and q={q} must be above 0")
    if not layers or out.shape[1] < 1:
        raise ShapeError(f"walks: {len(layers)} lists of neighbours, room for {out.shape[1]} nodes; both must be at least 1")
    for layer in layers:
        start, ids, weight, sums = (*layer, None, None)[:4]
        lists_of(&one, "walks", start, ids, weight, sums)
        demand("walks", "start", start.shape[0], layers[0][0].shape[0])
        g.push_back(one)
    demand_nodes("walks", starts, layers[0][0].shape[0] - 1)
    if starts.shape[0] == 0:
        return
    w.layers, w.num_layers, w.p, w.q, w.key = g.data(), g.size(), p, q, key
    w.starts, w.streams, w.n, w.length = &starts[0], &streams[0], starts.shape[0], out.shape[1] - 1
    with nogil:
        c_walk(&out[0, 0], w)


def strangers(
    int32_t[:, ::1] out not None,           # OUT [n, k]
    const int64_t[::1] start not None,      # IN  [N + 1]
    const int32_t[::1] ids not None,        # IN  [E] ascending in each list
    const int32_t[::1] nodes not None,      # IN  [n]
    const int64_t[::1] streams not None,    # IN  [n]
    *,
    uint64_t key,
    int64_t columns,
    bint self_too=False,
    const double[::1] keep=None,            # IN  [columns] from `sampling.alias`, with
    const int64_t[::1] other=None,          # IN  [columns] and
    const double[::1] weight=None,          # IN  [columns] what it was made from; all are as likely if not given
):
    """Nodes drawn for each node that are not on its list: draw j is a function of (key, stream, j)."""
    cdef Strangers s
    cdef int64_t bad
    lists_of(&s.g, "strangers", start, ids, None, None)
    demand_nodes("strangers", nodes, start.shape[0] - 1)
    demand("strangers", "out's rows", out.shape[0], nodes.shape[0])
    demand("strangers", "streams", streams.shape[0], nodes.shape[0])
    if keep is not None and not (keep.shape[0] == other.shape[0] == weight.shape[0] == columns):
        raise ShapeError(f"strangers: keep, other and weight come together, one for each of {columns} nodes")
    if nodes.shape[0] == 0 or out.shape[1] == 0:
        return
    s.keep, s.other, s.weight, s.columns, s.self, s.key = reals(keep), longs(other), reals(weight), columns, self_too, key
    with nogil:
        bad = c_strangers(&out[0, 0], s, &nodes[0], &streams[0], nodes.shape[0], out.shape[1])
    if bad >= 0:
        raise UsageError(f"node {nodes[bad]} is joined to every node that could be drawn as its stranger")


def enclosing(
    const int64_t[::1] start not None,
    const int32_t[::1] ids not None,
    const int64_t[::1] seed_start not None,     # IN [P + 1]
    const int32_t[::1] seeds not None,          # IN [S]: those of part i are seeds[seed_start[i]:seed_start[i + 1]]
    *,
    int hops,
):
    """(size [P], node, hop, degree [nodes], neighbour, edge [entries]) of the parts within `hops` of the seeds; see graph.h."""
    cdef Parts parts
    cdef Lists g
    cdef int64_t n = seed_start.shape[0] - 1
    lists_of(&g, "enclosing", start, ids, None, None)
    demand_nodes("enclosing", seeds, start.shape[0] - 1)
    if n < 0 or seed_start[0] != 0 or seed_start[n] != seeds.shape[0] or np.any(np.diff(seed_start) < 0) or hops < 0:
        raise ShapeError(f"enclosing: {hops} hops around {n} parts of {seeds.shape[0]} seeds")
    with nogil:
        enclose_all(parts, g.start, g.ids, &seed_start[0], ints(seeds), n, hops)
    return (from_longs(parts.size), from_ints(parts.node), from_ints(parts.hop), from_longs(parts.degree), from_ints(parts.neighbour),
            from_longs(parts.edge))


def pull(
    double[::1] y not None,                 # OUT [N]
    const double[::1] base not None,        # IN  [N]
    const double[::1] x not None,           # IN  [columns], as `check` was told
    const int64_t[::1] start not None,
    const int32_t[::1] ids not None,
    double damping,
    const double[::1] weight=None,          # IN  [E]
):
    """y[v] = base[v] + damping * sum of weight[e] x[ids[e]] over v's list."""
    cdef Lists g
    cdef int64_t n = start.shape[0] - 1
    lists_of(&g, "pull", start, ids, weight, weight)
    for name, size in (("y", y.shape[0]), ("base", base.shape[0]), ("x", x.shape[0])):
        demand("pull", name, size, n)
    if n:
        with nogil:
            c_pull(&y[0], &base[0], &x[0], &start[0], g.ids, g.weight, n, damping)


def components(
    int64_t[::1] label not None,            # OUT [n]
    uint8_t[::1] tree not None,             # OUT [E]
    const integer[::1] a not None,          # IN  [E] in [0, n): ends of the edges
    const integer[::1] b not None,          # IN  [E]
):
    """Components by lowest node, and the edges, taken in order, that joined two: a spanning forest. Returns how many components."""
    cdef int64_t i, n = label.shape[0], e = a.shape[0], count
    demand("components", "b", b.shape[0], e)
    demand("components", "tree", tree.shape[0], e)
    for i in range(e):
        if a[i] < 0 or b[i] < 0 or a[i] >= n or b[i] >= n:
            raise UsageError(f"components: edge {i} joins {a[i]} and {b[i]}; there are {n} nodes")
    if n == 0:
        return 0
    with nogil:
        count = c_components(&label[0], &tree[0] if e else NULL, &a[0] if e else NULL, &b[0] if e else NULL, e, n)
    return count
