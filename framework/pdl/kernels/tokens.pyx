"""Texts to the numbers of tokens: WordPiece and byte-level BPE. The tables of characters are those of `pdl_nlp.tokenizers.unicode`."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

import numpy as np

from pdl.errors import ShapeError, UsageError

cdef extern from "Python.h":
    int PyUnicode_KIND(object text) noexcept
    void* PyUnicode_DATA(object text) noexcept
    Py_ssize_t PyUnicode_GET_LENGTH(object text) noexcept

cdef extern from "tokens.h" namespace "pdl::tokens":
    cdef struct Text:
        const void* data
        int64_t size
        int kind
    cdef struct Token:
        int32_t id, begin, end, word
    cdef cppclass Added:
        void add(const Text& text, int32_t id, cbool left, cbool right) except +
    cdef cppclass Pieces "pdl::tokens::WordPiece":
        Added added
        Pieces(const uint32_t* plan, const uint32_t* several, int64_t count, int32_t unknown, int64_t longest) except +
        void reserve(int64_t points) except +
        void add(const Text& text, int64_t from_, int32_t id, cbool within) except +
        void encode(const Text& text, vector[Token]& out) except + nogil
    cdef cppclass Pairs "pdl::tokens::BytePair":
        Added added
        Pairs(const uint8_t* classes, const int32_t* bytes, cbool prefix, cbool split, int64_t numbers, cbool trim, cbool keep) except +
        void whole(const char* bytes, size_t size, int32_t id) except +
        void reserve(int64_t merges) except +
        void merge(uint32_t a, uint32_t b, uint32_t rank, uint32_t made) except +
        void spaces(const int32_t* leading, const int32_t* trailing, int64_t n) except +
        void encode(const Text& text, vector[Token]& out) except + nogil
        void encode(const Text& text, vector[Token]& out, double share, uint64_t seed) except + nogil
    void parse "pdl::tokens::sentencepiece"(const uint8_t* data, int64_t size, const uint8_t* starts, int64_t tokens,
                                            vector[int32_t]& places, vector[Token]& out) except + nogil
    vector[int32_t] learn(const int32_t* symbols, const int64_t* starts, const int64_t* counts, int64_t words, int32_t base, int64_t most,
                          int64_t least) except + nogil
    void spread(const vector[Token]& tokens, int32_t* ids, int32_t* offsets, int32_t* words) noexcept nogil

POINTS = 0x110000


cdef int view(Text* text, object given) except -1:
    if not isinstance(given, str):
        raise UsageError(f"a text is a str, not {type(given).__name__}")
    text.data, text.size, text.kind = PyUnicode_DATA(given), PyUnicode_GET_LENGTH(given), PyUnicode_KIND(given)
    if text.size >= <int64_t>1 << 31:
        raise UsageError(f"a text of {text.size} characters is too long; 2^31 - 1 are the most")
    return 0


cdef int add_tokens(Added* to, list added, int64_t tokens) except -1:
    """Tokens that are found in a text before all else: (token, number, takes white space before it, and behind it)."""
    cdef Text text
    for token, number, left, right in added:
        view(&text, token)
        if not text.size or not 0 <= number < tokens:
            raise UsageError(f"the added token {token!r:.60} with number {number} is empty, or has no number below {tokens}")
        to.add(text, number, left, right)
    return 0


cdef list as_list(object texts):
    return texts if isinstance(texts, list) else list(texts)


cdef tuple arrays_of(const vector[Token]& tokens, object starts):
    cdef Py_ssize_t n = <Py_ssize_t>tokens.size()
    ids, offsets, words = np.empty(n, np.int32), np.empty((n, 2), np.int32), np.empty(n, np.int32)
    cdef int32_t[::1] to_ids = ids, to_words = words
    cdef int32_t[:, ::1] to_offsets = offsets
    if n:
        spread(tokens, &to_ids[0], &to_offsets[0, 0], &to_words[0])
    return ids, offsets, words, starts


ctypedef fused Kernel:
    Pieces
    Pairs


cdef tuple encoded(Kernel* kernel, object texts):
    """ids int32 [sum], offsets int32 [sum, 2], words int32 [sum], starts int64 [n + 1] of n texts."""
    cdef list given = as_list(texts)
    cdef vector[Token] out
    cdef Text text
    cdef Py_ssize_t i, n = len(given)
    starts = np.zeros(n + 1, np.int64)
    cdef int64_t[::1] to = starts
    for i in range(n):
        view(&text, given[i])
        if text.size > 4096:
            with nogil:
                kernel.encode(text, out)
        else:
            kernel.encode(text, out)
        to[i + 1] = <int64_t>out.size()
    return arrays_of(out, starts)


cdef class WordPiece:
    """Normalise, split, then the longest token that fits again and again (Schuster & Nakajima 2012; as in BERT, arXiv 1810.04805).

    plan      uint32 [0x110000]: what becomes of every code point: see `Plan` in src/tokens.h
    several   uint32 [n]: what those become that become several
    """

    cdef unique_ptr[Pieces] kernel

    def __init__(
        self, list tokens not None, const uint32_t[::1] plan not None, const uint32_t[::1] several not None, *,
        str prefix not None, int32_t unknown, int64_t longest, list added not None,
    ):
        cdef Text text
        cdef int64_t points = 0, i, begin, end
        cdef int32_t number = 0
        if plan.shape[0] != POINTS:
            raise ShapeError(f"wordpiece: the plan is for {plan.shape[0]} code points, not {POINTS}")
        for i in range(POINTS):
            begin, end = plan[i] & 0xFFFFF, plan[i] >> 20 & 63
            if plan[i] >> 31 and begin + end > several.shape[0]:
                raise ShapeError(f"wordpiece: code point {i} becomes those from {begin} to {begin + end} of {several.shape[0]}")
        if not 0 <= unknown < len(tokens):
            raise UsageError(f"wordpiece: the unknown token has number {unknown} of {len(tokens)}")
        self.kernel.reset(new Pieces(&plan[0], &several[0] if several.shape[0] else NULL, several.shape[0], unknown, longest))
        for token in tokens:
            points += 2 * len(token)
        self.kernel.get().reserve(points)
        for token in tokens:
            view(&text, token)
            self.kernel.get().add(text, 0, number, False)
            if prefix and token.startswith(prefix):
                self.kernel.get().add(text, len(prefix), number, True)
            elif not prefix:
                self.kernel.get().add(text, 0, number, True)
            number += 1
        add_tokens(&self.kernel.get().added, added, len(tokens))

    def encode(self, texts):
        """ids int32 [sum], offsets int32 [sum, 2], words int32 [sum], starts int64 [n + 1] of n texts."""
        return encoded(self.kernel.get(), texts)


cdef class BytePair:
    """Byte-level BPE (Sennrich et al., arXiv 1508.07909; Radford et al. 2019): split, then the bytes of each part are merged by rank.

    classes   uint8 [0x110000]: 0 other, 1 letter, 2 number, 3 white space
    bytes     int32 [256]: the token of each byte, -1 where there is none
    merges    int32 [M, 3]: two tokens and what they become, in the order of their ranks
    leading, trailing  int32 [tokens]: how many spaces each token begins and ends with
    prefix    a space is put before a text that begins with none
    split     by GPT-2's regular expression, or, where `numbers` is not 0, by Llama 3's with at most so many numbers together
    trim      offsets leave out spaces, but, with `keep`, for one that the first token begins with
    whole     bytes and token: a part that is just these bytes is that token, whatever is merged
    """

    cdef unique_ptr[Pairs] kernel

    def __init__(
        self, const uint8_t[::1] classes not None, const int32_t[::1] bytes not None, const int32_t[:, ::1] merges not None,
        const int32_t[::1] leading not None, const int32_t[::1] trailing not None, *, bint prefix, bint split,
        int64_t numbers, bint trim, bint keep, list added not None, list whole not None,
    ):
        cdef int64_t i, n = leading.shape[0]
        cdef const unsigned char[::1] part
        if numbers < 0:
            raise ShapeError(f"bpe: {numbers} numbers together; 0 or more")
        if classes.shape[0] != POINTS or bytes.shape[0] != 256 or trailing.shape[0] != n or merges.shape[1] != 3:
            raise ShapeError(f"bpe: classes of {classes.shape[0]} code points, {bytes.shape[0]} bytes, spaces of {n} and "
                             f"{trailing.shape[0]} tokens, {merges.shape[1]} columns of merges")
        for i in range(256):
            if bytes[i] < -1 or bytes[i] >= n:
                raise ShapeError(f"bpe: byte {i} is token {bytes[i]} of {n}")
        for i in range(merges.shape[0]):
            if not (0 <= merges[i, 0] < n and 0 <= merges[i, 1] < n and 0 <= merges[i, 2] < n):
                raise ShapeError(f"bpe: merge {i} is of tokens {merges[i, 0]} and {merges[i, 1]} to {merges[i, 2]}; there are {n}")
        self.kernel.reset(new Pairs(&classes[0], &bytes[0], prefix, split, numbers, trim, keep))
        for text, number in whole:
            if not 0 <= number < n:
                raise ShapeError(f"bpe: token {number} of {n} is whole")
            part = text
            if part.shape[0]:
                self.kernel.get().whole(<const char*>&part[0], part.shape[0], number)
        self.kernel.get().reserve(merges.shape[0])
        for i in range(merges.shape[0]):
            self.kernel.get().merge(merges[i, 0], merges[i, 1], i, merges[i, 2])
        if n:
            self.kernel.get().spaces(&leading[0], &trailing[0], n)
        add_tokens(&self.kernel.get().added, added, n)

    def encode(self, texts):
        """ids int32 [sum], offsets int32 [sum, 2], words int32 [sum], starts int64 [n + 1] of n texts."""
        return encoded(self.kernel.get(), texts)

    def encode_dropping(self, texts, double share, const uint64_t[::1] seeds not None):
        """`encode` with merges left out, each with probability `share` whenever it could be made (BPE-dropout: arXiv 1910.13267).

        seeds    uint64 [n]: text i with seeds[i] has the same tokens each time
        """
        cdef list given = as_list(texts)
        cdef vector[Token] out
        cdef Text text
        cdef Py_ssize_t i, n = len(given)
        if seeds.shape[0] != n:
            raise ShapeError(f"bpe: {seeds.shape[0]} seeds for {n} texts")
        starts = np.zeros(n + 1, np.int64)
        cdef int64_t[::1] to = starts
        for i in range(n):
            view(&text, given[i])
            with nogil:
                self.kernel.get().encode(text, out, share, seeds[i])
            to[i + 1] = <int64_t>out.size()
        return arrays_of(out, starts)


def sentencepiece(list messages not None, const uint8_t[::1] begins not None):
    """ids int32 [sum], offsets int32 [sum, 2] in code points, words int32 [sum], starts int64 [n + 1] of n messages SentencePieceText.

    begins   uint8 [tokens]: whether a word begins with the token
    """
    cdef vector[Token] out
    cdef vector[int32_t] places
    cdef Py_ssize_t i, n = len(messages)
    cdef bytes message
    cdef const uint8_t* first = &begins[0] if begins.shape[0] else NULL
    starts = np.zeros(n + 1, np.int64)
    cdef int64_t[::1] to = starts
    for i in range(n):
        message = messages[i]
        parse(<const uint8_t*><const char*>message, len(message), first, begins.shape[0], places, out)
        to[i + 1] = <int64_t>out.size()
    return arrays_of(out, starts)


def learn_merges(
    const int32_t[::1] symbols not None,    # IN  [sum] of [0, base)
    const int64_t[::1] starts not None,     # IN  [words + 1] rising from 0
    const int64_t[::1] counts not None,     # IN  [words]
    *,
    int32_t base,
    int64_t most,
    int64_t least,
):
    """int32 [M, 3]: the most frequent pairs of neighbours in words, one after the other, and the symbol that each becomes; see `learn`."""
    cdef int64_t i, words = counts.shape[0]
    cdef vector[int32_t] made
    if starts.shape[0] != words + 1 or starts[0] != 0 or starts[words] != symbols.shape[0]:
        raise ShapeError(f"merges: {starts.shape[0]} starts for {words} words of {symbols.shape[0]} symbols")
    for i in range(words):
        if starts[i + 1] < starts[i]:
            raise ShapeError(f"merges: word {i} ends at {starts[i + 1]}, before it begins at {starts[i]}")
    for i in range(symbols.shape[0]):
        if not 0 <= symbols[i] < base:
            raise ShapeError(f"merges: symbol {symbols[i]} at {i} is none of the {base}")
    if not symbols.shape[0]:
        return np.zeros((0, 3), np.int32)
    with nogil:
        made = learn(&symbols[0], &starts[0], &counts[0], words, base, most, least)
    found = np.empty(<Py_ssize_t>made.size(), np.int32)
    cdef int32_t[::1] to = found
    for i in range(<int64_t>made.size()):
        to[i] = made[i]
    return found.reshape(-1, 3)
