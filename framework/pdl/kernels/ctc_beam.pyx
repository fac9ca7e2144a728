"""N-gram models, trees of words, and prefix beam search with both."""

from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

import numpy as np

from pdl.errors import DataError, ShapeError, UsageError

ctypedef fused real:
    float
    double

cdef extern from "ctc_beam.h" namespace "pdl::beams":
    cdef cppclass CTrie "pdl::beams::Trie":
        const int32_t* first
        const int32_t* symbol
        int64_t size
        cbool sound(int64_t symbols) noexcept nogil
    cdef cppclass CNGrams "pdl::beams::NGrams"(CTrie):
        const int32_t* suffix
        const float* log_p
        const float* backoff
        int32_t context(int32_t node) noexcept nogil
        double step(int32_t& state, int32_t token) noexcept nogil
    cdef cppclass Options:
        int64_t classes, width, most
        int32_t blank, end, space
        cbool logs, spaces
        double least, margin
        const CTrie* words
        const int32_t* word
        cbool closed
        const CNGrams* model
        const int32_t* tokens
        int32_t sentence
        double alpha, beta, unknown
    cdef cppclass CFound "pdl::beams::Found":
        vector[int32_t] classes, steps
        double score, log_p
    cdef cppclass Search:
        Search(const Options& how) except +
        void feed[T](const T* rows, int64_t count) except + nogil
        vector[CFound] best(int64_t n, cbool whole) except + nogil


cdef int tree(CTrie* to, const int32_t[::1] first, const int32_t[::1] symbol, int64_t symbols) except -1:
    """Fill `to`; DataError where the arrays are no tree."""
    cdef cbool sound
    to.size = symbol.shape[0]
    if first.shape[0] == to.size + 1 and to.size:
        to.first, to.symbol = &first[0], &symbol[0]
        with nogil:
            sound = to.sound(symbols)
        if sound:
            return 0
    raise DataError(f"{first.shape[0]} starts and {symbol.shape[0]} symbols below {symbols} are no tree")


cdef class Words:
    """A tree of words as classes: the children of node i are [first[i], first[i + 1]), in order of their classes."""

    cdef CTrie c
    cdef object held
    cdef const int32_t* word
    cdef int64_t classes, tokens

    def __init__(
        self,
        const int32_t[::1] first not None,      # [K + 1]
        const int32_t[::1] symbol not None,     # [K] the last class of each node; that of the root is not looked at
        const int32_t[::1] word not None,       # [K] the token of the word that ends at a node, 0 for one without; -1: none ends here
        int64_t classes,
    ):
        tree(&self.c, first, symbol, classes)
        if word.shape[0] != symbol.shape[0]:
            raise ShapeError(f"{word.shape[0]} words for {symbol.shape[0]} nodes")
        self.held, self.word = (first, symbol, word), &word[0]
        self.classes, self.tokens = classes, 1 + np.max(word)


cdef class NGrams:
    """A back-off model as a tree of n-grams, in which a node's last token is its symbol; node 1 + i is token i."""

    cdef CNGrams c
    cdef object held
    cdef readonly int64_t tokens

    def __init__(
        self,
        const int32_t[::1] first not None,      # [K + 1]
        const int32_t[::1] symbol not None,     # [K]
        const int32_t[::1] suffix not None,     # [K] the longest end of each n-gram, but itself, that is one
        const float[::1] log_p not None,        # [K] log10 p(last token | those before)
        const float[::1] backoff not None,      # [K] log10 of the weight of shorter contexts
        int64_t tokens,
    ):
        cdef int64_t i, k = symbol.shape[0]
        tree(&self.c, first, symbol, tokens)
        if suffix.shape[0] != k or log_p.shape[0] != k or backoff.shape[0] != k:
            raise ShapeError(f"{suffix.shape[0]} suffixes, {log_p.shape[0]} and {backoff.shape[0]} logarithms for {k} nodes")
        if tokens < 1 or first[1] != 1 + tokens or suffix[0] != 0:
            raise DataError(f"not all of the {tokens} tokens are n-grams of their own")
        for i in range(1, k):
            if suffix[i] < 0 or suffix[i] >= i:
                raise DataError(f"the end of n-gram {i} is {suffix[i]}, which is none before it")
        self.c.suffix, self.c.log_p, self.c.backoff = &suffix[0], &log_p[0], &backoff[0]
        self.held, self.tokens = (first, symbol, suffix, log_p, backoff), tokens

    def read(
        self,
        double[::1] out not None,               # OUT [M] log10 p of each token
        const int64_t[::1] ids not None,        # IN  [M]
        int32_t node,
    ) -> int:
        """Read tokens behind the context of a node, 0 for none; returns the node of the context behind them."""
        cdef int64_t i, n = ids.shape[0]
        if out.shape[0] != n or not 0 <= node < self.c.size:
            raise ShapeError(f"{out.shape[0]} places for {n} tokens behind node {node} of {self.c.size}")
        for i in range(n):
            if ids[i] < 0 or ids[i] >= self.tokens:
                raise ShapeError(f"token {ids[i]} at {i} is none of the {self.tokens}")
        with nogil:
            node = self.c.context(node)
            for i in range(n):
                out[i] = self.c.step(node, <int32_t>ids[i])
        return node


cdef class BeamSearch:
    """A prefix beam search under way: what is fed may come in pieces of any number of steps."""

    cdef unique_ptr[Search] search
    cdef object held
    cdef int64_t classes
    cdef bint busy

    def __init__(
        self,
        int64_t classes,
        *,
        int64_t width,              # prefixes that are kept from step to step
        int32_t blank=-1,
        int32_t end=-1,             # of nets with a step for each character: the class behind the last one
        int32_t space=-1,           # that stands between words
        bint logs=False,            # logarithms are fed, not probabilities
        bint spaces=False,          # spaces in front, at the end and beside another one are no characters
        double least=0,             # a class is looked at in a step where its probability is above
        int64_t most=1 << 31,       # and it is among so many likeliest ones
        double margin=0,            # a prefix is dropped where its probability is below that of the best one times this
        Words words=None,
        bint closed=False,          # no other words are written
        NGrams model=None,          # of words; of characters where there are `tokens`
        const int32_t[::1] tokens=None,  # [classes] of each class
        int32_t sentence=0,         # the token of the end of a text
        double alpha=0,
        double beta=0,
        double unknown=0,
    ):
        cdef Options how
        if classes < 1 or width < 1 or most < 1 or max(blank, end, space) >= classes or (blank < 0) == (end < 0):
            raise ShapeError(f"beam search: {classes} classes, blank {blank}, end {end}, space {space}, width {width}, most {most}")
        if words is None and (closed or model is not None and tokens is None):
            raise UsageError("beam search: there are no words")
        if words is not None and (words.classes != classes or model is not None and tokens is None and words.tokens > model.tokens):
            raise ShapeError(f"beam search: words of {words.classes} classes and {words.tokens} tokens do not fit")
        if not (least >= 0 and 0 <= margin <= 1 and alpha >= 0 and abs(beta) < 100 and abs(unknown) < 100):
            raise UsageError(f"beam search: least {least}, margin {margin}, alpha {alpha}, beta {beta}, unknown {unknown}")
        how.classes, how.width, how.most, how.blank, how.end, how.space = classes, width, most, blank, end, space
        how.logs, how.spaces, how.least, how.margin, how.closed = logs, spaces, least, margin, closed
        if words is not None:
            how.words, how.word = &words.c, words.word
        if model is not None:
            how.model, how.sentence = &model.c, sentence
            if tokens is not None:
                if tokens.shape[0] != classes or np.min(tokens) < 0 or np.max(tokens) >= model.tokens:
                    raise ShapeError(f"beam search: {tokens.shape[0]} tokens of {model.tokens} for {classes} classes")
                how.tokens = &tokens[0]
            if model.tokens < 3 or not 0 <= sentence < model.tokens:
                raise UsageError(f"beam search: {model.tokens} tokens, of which {sentence} is the end; there are no <unk>, <s> and </s>")
            how.alpha, how.beta, how.unknown = alpha, beta, unknown
        self.held, self.classes = (words, model, tokens), classes
        self.search.reset(new Search(how))

    def feed(self, const real[:, ::1] rows not None):
        """Further steps [T, classes]."""
        if rows.shape[1] != self.classes:
            raise ShapeError(f"beam search: steps of {rows.shape[1]} classes, not {self.classes}")
        if not rows.shape[0]:
            return
        self.take()
        try:
            with nogil:
                self.search.get().feed(&rows[0, 0], rows.shape[0])
        finally:
            self.busy = False

    def best(self, int64_t n=1, bint whole=True) -> list:
        """The n best texts so far, best first: [(classes, the step of each, ln p with the language model, ln p without)].
        `whole`: nothing follows; otherwise words may be cut off."""
        cdef vector[CFound] found
        self.take()
        try:
            with nogil:
                found = self.search.get().best(n, whole)
        finally:
            self.busy = False
        return [(found[i].classes, found[i].steps, found[i].score, found[i].log_p) for i in range(found.size())]

    cdef int take(self) except -1:
        """Raise where another thread uses this search."""
        if self.busy:
            raise UsageError("beam search: this one is in use by another thread; each needs one of its own")
        self.busy = True
        return 0
