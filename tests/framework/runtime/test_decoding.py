"""Searching for words: against all answers of a small table, against formulas written out, and the same words from a
net run eagerly and from its programs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pdl.dims import Dim
from pdl.dtype import Array, int64
from pdl.errors import UsageError
from pdl.export.decoder import Eager, trace_decoder
from pdl.ops.base import Spec
from pdl.runtime.decoding import Options, Running, search, stream
from pdl.runtime.decoding.scores import kept, log_probabilities

from .decoders import END, Attention, Prefix, Recurrent, Table, V, drawn

SOURCES = {"words": Spec((Dim.symbol("n", 3), Dim.symbol("l", 6)), int64)}
NETS = {"recurrent": Recurrent, "attention": Attention, "prefix": Prefix}
WORDS = np.random.default_rng(5).integers(1, V, (5, 6))
WORDS[1, 3:] = WORDS[4, 5:] = 0


def found(decoding, options, inputs=(WORDS,), prompts=((1,),) * 5, **more):
    return search(decoding, inputs, prompts, options, ends=[END], **more)


# -- the search itself -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("penalty", ["length", "gnmt"])
@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.3])
def test_enough_beams_find_the_best_of_all_answers(penalty: str, alpha: float) -> None:
    table = Table(3, 4, 4)
    options = Options(max_length=4, beams=256, n_best=5, length_penalty=alpha, penalty=penalty)  # type: ignore[arg-type]
    made = search(table, (), [[0]] * 3, options, ends=[1, 3])
    for source, answers in enumerate(made):
        every = [(float(options.normalised(s, len(t))), t, s) for t, s in table.answers(source, 0, 4, {1, 3})]
        best = sorted(every, reverse=True)[:5]
        assert [a.tokens for a in answers] == [t[:-1] for _, t, _ in best]
        np.testing.assert_allclose([a.score for a in answers], [s for _, _, s in best])
        np.testing.assert_allclose([a.rating for a in answers], [r for r, _, _ in best])
        assert {a.ended for a in answers} == {"end"}


def test_two_beams_go_the_way_written_out_by_hand() -> None:
    """The textbook procedure for each source alone: candidates sorted, those that end set aside."""
    table = Table(6, 7, 12, seed=3)
    options = Options(max_length=12, beams=2, n_best=2, length_penalty=0.6)
    made = search(table, (), [[0]] * 6, options, ends=[1])
    for source, answers in enumerate(made):
        log = table.logits[source] - np.log(np.exp(table.logits[source]).sum(-1, keepdims=True))
        beams, done = [(0.0, (0,))], []
        for step in range(12):
            following = [(s + log[step, t[-1], v], (*t, v)) for s, t in beams for v in range(7)]
            following.sort(reverse=True)
            done += [(s / (step + 1) ** 0.6, t) for s, t in following[:2] if t[-1] == 1]
            beams = [each for each in following if each[1][-1] != 1][:2]
            if len(done) >= 2 and beams[0][0] / (step + 1) ** 0.6 <= sorted(done, reverse=True)[1][0]:
                break
        done.sort(reverse=True)
        assert [a.tokens for a in answers] == [t[1:-1] for _, t in done[:2]]
        np.testing.assert_allclose([a.rating for a in answers], [r for r, _ in done[:2]])


def test_one_beam_is_greedy() -> None:
    table = Table(4, 6, 9, seed=2)
    (greedy,) = [search(table, (), [[0]] * 4, Options(max_length=9), ends=[1])]
    for source, (answer,) in enumerate(greedy):
        last, want = 0, []
        for step in range(9):
            last = int(table.logits[source, step, last].argmax())
            if last == 1:
                break
            want.append(last)
        assert list(answer.tokens) == want
        assert answer.ended == ("end" if last == 1 else "length")


def test_answers_hold_to_constraints() -> None:
    table = Table(2, 5, 6, seed=1)
    pairs = {0: [3], 1: [3, 4], 2: [1]}
    for beams in (1, 3):
        made = search(table, (), [[0]] * 2, Options(max_length=6, beams=beams, prefix=(3, 4), banned=(2,)), ends=[1])
        for (answer,) in made:
            assert answer.tokens[:2] == (3, 4)
            assert 2 not in answer.tokens
        (a,), _ = search(table, (), [[0]] * 2, Options(max_length=6, min_length=4, beams=beams), ends=[1])
        assert len(a.tokens) >= 4
        made = search(
            table,
            (),
            [[0]] * 2,
            Options(max_length=6, beams=beams),
            ends=[1],
            allowed=lambda s, t: pairs[min(len(t), 2)],
        )
        assert {a.tokens for answers in made for a in answers} <= {(3, 3), (3, 4)}
        ((stuck,), _) = search(
            table,
            (),
            [[0]] * 2,
            Options(max_length=6, beams=beams),
            ends=[1],
            allowed=lambda s, t: [] if len(t) else [3],
        )
        assert stuck.ended == "stuck"


def test_draws_follow_the_probabilities() -> None:
    table = Table(1, 5, 1)
    options = Options(max_length=1, sample=True, n_best=256, temperature=0.8, top_k=3)
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(16):
        (answers,) = search(table, (), [[0]], options.but(seed=seed), ends=[])
        counts.update(a.tokens for a in answers)
    logits = np.sort(table.logits[0, 0, 0])[::-1][:3] / 0.8
    want = np.exp(logits) / np.exp(logits).sum()
    order = np.argsort(-table.logits[0, 0, 0])[:3]
    share = np.array([counts[(int(t),)] for t in order]) / 4096
    np.testing.assert_allclose(share, want, atol=4 * np.sqrt(0.25 / 4096))
    assert sum(counts.values()) == sum(counts[(int(t),)] for t in order)


def test_what_may_be_drawn_is_what_torch_keeps() -> None:
    """Temperature, top_k and top_p as the usual processors of logits do them, written out."""
    rng = np.random.default_rng(0)
    for trial in range(50):
        scores = rng.normal(size=20) * 3
        scores[rng.integers(20)] = -np.inf
        t, k, p = rng.uniform(0.3, 2), int(rng.integers(0, 8)), rng.uniform(0.1, 1)
        logits = scores / t
        if k:
            logits = np.where(logits < np.sort(logits)[-k], -np.inf, logits)
        order = np.argsort(-logits, kind="stable")
        q = np.exp(logits[order] - logits.max())
        cumulative = np.cumsum(q / q.sum())
        gone = np.concatenate([[False], (cumulative >= p)[:-1]])
        logits[order[gone]] = -np.inf
        want = np.exp(logits - logits.max())
        tokens, weights = kept(scores, Options(sample=True, temperature=t, top_k=k, top_p=p))
        made = np.zeros(20)
        made[tokens] = weights
        np.testing.assert_allclose(made, want / want.sum(), err_msg=str(trial))


def test_repetition_is_penalised_as_ctrl_does() -> None:
    logits = np.array([[2.0, -1.0, 0.5, 0.0]], np.float32)
    made = log_probabilities(logits, [np.array([0, 1, 1])], Options(repetition_penalty=2.0))
    want = np.array([1.0, -2.0, 0.5, 0.0])
    np.testing.assert_allclose(made[0], want - np.log(np.exp(want).sum()), rtol=1e-6)


@pytest.mark.parametrize("options", [Options(), Options(beams=3, n_best=2), Options(sample=True, n_best=2)])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_stands_twice_in_a_row(options: Options, n: int) -> None:
    """Prompts count, and what cannot go on is stuck; without it there are repetitions."""
    table, prompts = Table(3, 6, 24, seed=4), [[0, 2, 3], [0], [5, 4]]

    def repeats(size: int) -> list[bool]:
        answers = search(table, (), prompts, options.but(max_length=20, no_repeat_ngram=size), ends=[])
        found = []
        for prompt, each in zip(prompts, answers, strict=True):
            for answer in each:
                row = [*prompt, *answer.tokens]
                grams = [tuple(row[i : i + n]) for i in range(len(row) - n + 1)]
                found.append(len(set(grams)) < len(grams))
                assert answer.ended == ("stuck" if len(answer.tokens) < 20 else "length")
        return found

    assert any(repeats(0))
    assert not any(repeats(n))


def test_draws_depend_on_seed_and_key_alone() -> None:
    table = Table(4, 6, 8, seed=4)
    options = Options(max_length=8, sample=True, n_best=2, seed=7)
    together = search(table, (), [[0]] * 4, options, ends=[1], keys=[5, 6, 7, 8])
    alone = Table(4, 6, 8, seed=4)
    alone.logits = alone.logits[2:3]
    assert search(alone, (), [[0]], options, ends=[1], keys=[7]) == together[2:3]
    assert search(table, (), [[0]] * 4, options.but(seed=8), ends=[1], keys=[5, 6, 7, 8]) != together


def test_texts_end_answers_and_tokens_are_streamed() -> None:
    table, letters = Table(3, 6, 12, seed=6), "abcdef"
    spell = lambda tokens: "".join(letters[t] for t in tokens)  # noqa: E731
    plain = search(table, (), [[0]] * 3, Options(max_length=12), ends=[])
    stop = spell(plain[0][0].tokens)[3:6]
    made = search(table, (), [[0]] * 3, Options(max_length=12, stop=(stop,)), ends=[], text=spell)
    assert made[0][0].ended == "stop"
    assert spell(made[0][0].tokens).endswith(stop)
    beamed = search(table, (), [[0]] * 3, Options(max_length=12, stop=(stop,), beams=3), ends=[], text=spell)
    assert all(stop not in spell(a.tokens[:-1]) for answers in beamed for a in answers)
    steps, tokens = stream(table, (), [[0]] * 3, Options(max_length=12), ends=[]), [[], [], []]
    answers = yield_from(steps, lambda token: tokens[token.source].append(token.token))
    assert answers == plain
    assert tokens == [list(answers[0].tokens) for answers in plain]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"beams": 0}, "beams=0 must be a whole number from 1 to 256"),
        ({"temperature": 0.0}, "temperature=0.0 must be a number from 0.001 to 1000"),
        ({"n_best": 3}, "n_best=3 answers need as many beams"),
        ({"sample": True, "beams": 2}, "sample and beams exclude each other"),
        ({"penalty": "none"}, "penalty='none' must be gnmt or length"),
        ({"stop": ("",)}, "texts that are not empty"),
    ],
)
def test_options_are_checked(values: dict, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Options(**values)
    assert Options.from_dict(Options(beams=3, stop=["a"]).to_dict()) == Options(beams=3, stop=("a",))


# -- nets --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize(
    "options",
    [
        Options(max_length=20),
        Options(max_length=70, beams=3, n_best=2, length_penalty=0.6, penalty="gnmt", min_length=40),
        Options(max_length=20, sample=True, n_best=2, top_p=0.9, repetition_penalty=1.3, seed=3),
    ],
    ids=["greedy", "beams", "sample"],
)
def test_programs_write_the_same_words(name: str, options: Options) -> None:
    net = drawn(NETS[name]())
    eager, programs = Eager(net), trace_decoder(net, SOURCES).decoding()
    want, made = found(eager, options), found(programs, options)
    assert [[a.tokens for a in answers] for answers in made] == [[a.tokens for a in answers] for answers in want]
    np.testing.assert_allclose(
        [a.score for answers in made for a in answers], [a.score for answers in want for a in answers], atol=1e-4
    )
    assert len({answers[0].tokens for answers in want}) > 1


def test_prompts_of_different_lengths_at_once_and_token_by_token() -> None:
    net = drawn(Attention(sources=False))
    programs, options = trace_decoder(net, {}).decoding(), Options(max_length=12)
    prompts = [[1, 4, 5, 6, 7, 8, 9], [3], [1, 9, 9, 4], list(range(3, 11)) * 5]
    made = search(programs, (), prompts, options, ends=[END])
    for prompt, (answer,) in zip(prompts, made, strict=True):
        (((alone,),),) = [search(Eager(net), (), [prompt], options, ends=[END])]
        assert answer.tokens == alone.tokens
        whole = [*prompt]
        for token in answer.tokens:  # every token is what the whole text so far says
            tokens = np.array([whole])
            n = len(whole)
            state = tuple(np.zeros((1, n, 8), np.float32) for _ in range(4))
            scores, _ = net.step(*map(_tensor, (tokens, np.array([n]), np.array([0]))), tuple(map(_tensor, state)))
            assert int(scores.data.argmax()) == token
            whole.append(token)


def test_caches_stay_where_they_are_and_grow() -> None:
    net = drawn(Attention(sources=False))
    programs = trace_decoder(net, {}).decoding()
    run = Running(programs, (), 2, 20)
    first = run.step(np.array([[1], [3]]), np.ones(2, np.int64)).copy()
    arrays = list(run.state)
    for _ in range(3):
        run.step(np.array([[4], [5]]), np.ones(2, np.int64))
    assert all(a is b for a, b in zip(arrays, run.state, strict=True))
    assert not run.lease.place.steps[1].moves
    assert run.state[0][:, :4].any(axis=2).all()
    assert not run.state[0][:, 4:].any()
    for _ in range(40):
        run.step(np.array([[4], [5]]), np.ones(2, np.int64))
    assert run.room >= 44
    again = Running(programs, (), 2, 100)
    np.testing.assert_array_equal(again.step(np.array([[1], [3]]), np.ones(2, np.int64)), first)


def test_a_later_search_takes_the_place_of_one_that_ended_and_no_other() -> None:
    """Sources, states and caches of two searches at the same time stay apart; a third one takes over what the first had
    bound, whatever that left there."""
    net = drawn(Attention())
    programs = trace_decoder(net, SOURCES).decoding()
    sources = [np.array([[1, 2, 3]]), np.array([[4, 5, 6]]), np.array([[7, 8, 9]])]

    def begun(source: Array) -> Running:
        return Running(programs, programs.encode([source]), 1, 20)

    def steps(run: Running) -> list[Array]:
        return [run.step(np.array([[token]]), np.ones(1, np.int64)).copy() for token in (1, 3, 5)]

    expected = [steps(begun(source)) for source in sources[:2]]
    runs = [begun(source) for source in sources[:2]]
    found: list[list[Array]] = [[], []]
    for token in (1, 3, 5):  # in turns
        for own, run in zip(found, runs, strict=True):
            own.append(run.step(np.array([[token]]), np.ones(1, np.int64)).copy())
    np.testing.assert_array_equal(found, expected)
    places = [run.lease.place for run in runs]
    assert places[0] is not places[1]
    del run, runs
    third = begun(sources[2])
    alone = steps(Running(fresh := trace_decoder(net, SOURCES).decoding(), fresh.encode([sources[2]]), 1, 20))
    np.testing.assert_array_equal(steps(third), alone)
    assert third.lease.place in places
    third.take(np.zeros(3, np.int64), np.zeros(1, np.int64))
    assert begun(sources[0]).lease is None
    np.testing.assert_array_equal(steps(begun(sources[0])), expected[0])
    assert third.step(np.full((3, 1), 2), np.ones(3, np.int64)).shape == (3, V)


def yield_from(steps, see):
    while True:
        try:
            see(next(steps))
        except StopIteration as done:
            return done.value


def _tensor(x):
    from pdl import Tensor

    return Tensor(x)


def test_an_eager_net_writes_into_its_caches() -> None:
    run = Running(Eager(drawn(Attention(sources=False))), (), 2, 20)
    arrays = list(run.state)
    run.step(np.array([[1, 4], [3, 0]]), np.array([2, 1]))
    assert all(np.shares_memory(a, b) for a, b in zip(arrays, run.state, strict=True))
    assert arrays[0][0, :2].any(axis=1).all()
    assert not arrays[0][1, 1:].any()
