// N-gram models as automata, and prefix beam search (Hannun et al., arXiv 1408.2873, algorithm 1) with them and with words of a list.
//
// Probabilities are kept in proportion to the best prefix of a step, and the logarithm of the proportion apart; what a language model says of a
// prefix is multiplied into them when the prefix is made. So a step takes products alone: a logarithm is taken once for each prefix.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace pdl::beams {

// A tree whose nodes are numbered by depth, then by parent, then by symbol: the children of node i are [first[i], first[i + 1]).
struct Trie {
  const int32_t *first = nullptr, *symbol = nullptr;
  int64_t size = 0;

  // The child with this symbol; -1 where there is none.
  int32_t child(int32_t node, int32_t c) const {
    const int32_t *begin = symbol + first[node], *end = symbol + first[node + 1], *at = std::lower_bound(begin, end, c);
    return at < end && *at == c ? static_cast<int32_t>(at - symbol) : -1;
  }

  // Whether the arrays are such a tree, of symbols in [0, symbols).
  bool sound(int64_t symbols) const {
    if (size < 1 || first[0] != 1 || first[size] != size) return false;
    for (int64_t i = 0; i < size; i++) {
      if (first[i] <= i || first[i + 1] < first[i]) return false;
      for (int64_t k = first[i]; k < first[i + 1]; k++)
        if (symbol[k] < 0 || symbol[k] >= symbols || (k > first[i] && symbol[k] <= symbol[k - 1])) return false;
    }
    return true;
  }
};

// A back-off model: node (w1 ... wn) of the tree has log10 p(wn | w1 ... wn-1), the weight of what does not follow it, and the longest of its
// ends (w2 ... wn), (w3 ... wn), ... that is a node. The children of the root are all tokens in order.
struct NGrams : Trie {
  const int32_t* suffix = nullptr;
  const float *log_p = nullptr, *backoff = nullptr;

  // The longest context behind a node that says anything of what follows.
  int32_t context(int32_t node) const {
    while (node && first[node] == first[node + 1] && backoff[node] == 0) node = suffix[node];
    return node;
  }
  // log10 p of a token behind a context, which becomes the next one.
  double step(int32_t& state, int32_t token) const {
    double sum = 0;
    for (int32_t node = state;; node = suffix[node]) {
      const int32_t found = node ? child(node, token) : 1 + token;
      if (found >= 0) {
        state = context(found);
        return sum + log_p[found];
      }
      sum += backoff[node];
    }
  }
};

// How a search goes.
struct Options {
  int64_t classes = 0, width = 0, most = 0;       // most: classes that are looked at in a step
  int32_t blank = -1, end = -1, space = -1;       // end: of nets with a step for each character and no blank
  bool logs = false;                              // what is fed are logarithms
  bool spaces = false;                            // spaces in front, at the end and beside another one are no characters
  double least = 0, margin = 0;                   // probabilities, of a class and of a prefix in proportion to the best one, that are kept
  const Trie* words = nullptr;                    // of words as classes
  const int32_t* word = nullptr;                  // for each of its nodes: the token of the word that ends here; -1: none does
  bool closed = false;                            // no other words are written
  const NGrams* model = nullptr;                  // of words, or of characters where there are `tokens`
  const int32_t* tokens = nullptr;                // of the classes
  int32_t sentence = 0;                           // the token for the end of a text
  double alpha = 0, beta = 0, unknown = 0;        // weight of log p, what is added for each token, and for each that the model lacks (token 0)
};

struct Found {
  std::vector<int32_t> classes, steps;
  double score, log_p;  // with the language model, and without
};

class Search {
 public:
  explicit Search(const Options& how) : how_(how), bound_(std::exp(std::max(how.beta, 0.0) + std::max(how.unknown, 0.0))) {
    row_.resize(how.classes);
    prefixes_.push_back(Prefix{});
    if (how.model) prefixes_[0].state = how.model->context(2);  // behind <s>, token 1
    Beam start;
    start.node = 0;
    start.blank = start.best_blank = 1;
    beams_.push_back(start);
    prefixes_[0].slot = 0;
  }

  template <class T>
  void feed(const T* rows, int64_t count) {
    for (int64_t t = 0; t < count && !beams_.empty(); t++, rows += how_.classes) {
      for (int64_t c = 0; c < how_.classes; c++) {
        const double x = rows[c];
        row_[c] = how_.logs ? (x >= log_least_ || c == how_.blank || c == how_.end ? std::exp(x) : 0) : x;
        if (!(row_[c] >= 0 && row_[c] <= kMost)) row_[c] = 0;
      }
      advance();
    }
  }

  // The n best texts, best first. `whole`: nothing follows; otherwise words may be cut off.
  std::vector<Found> best(int64_t n, bool whole) const {
    struct Text {
      int32_t node, times;
      double score, log_p;
    };
    std::vector<Text> texts;
    if (how_.end >= 0) {
      for (const Finished& f : finished_) texts.push_back({f.node, f.times, f.score, f.log_p});
    } else {
      for (const Beam& b : beams_) {
        const Prefix& p = prefixes_[b.node];
        texts.push_back({b.node, b.times(), 0, std::log(b.both()) + scale_ - p.sum});
      }
      if (how_.spaces) join_spaces(texts);
      std::erase_if(texts, [&](Text& text) {
        double delta = 0;
        const bool cut = whole && !ending(prefixes_[text.node], delta);
        text.score = text.log_p + prefixes_[text.node].sum + delta;
        return cut;
      });
    }
    std::stable_sort(texts.begin(), texts.end(), [](const Text& a, const Text& b) { return a.score > b.score; });
    std::vector<Found> found;
    for (const Text& text : texts) {
      if (static_cast<int64_t>(found.size()) == n) break;
      Found one{{}, {}, text.score, text.log_p};
      int32_t time = text.times;
      for (int32_t node = text.node; node; node = prefixes_[node].parent, time = time < 0 ? -1 : times_[time].before) {
        one.classes.push_back(prefixes_[node].symbol);
        one.steps.push_back(time < 0 ? -1 : times_[time].step);
      }
      std::reverse(one.classes.begin(), one.classes.end());
      std::reverse(one.steps.begin(), one.steps.end());
      found.push_back(std::move(one));
    }
    return found;
  }

 private:
  static constexpr double kMost = 1e6, kLn10 = 2.302585092994045684;

  // A text: its last class, and the text before it.
  struct Prefix {
    int32_t parent = -1, symbol = -1, child = -1, sibling = -1;  // child: the one made last; sibling: the one made before it
    int32_t word = 0, state = 0;                                 // of the word that it ends in; -1: one that is not in the tree
    int32_t slot = -1, after = -1;                               // its beam; the state behind a space, once it is asked for
    double factor = 1, sum = 0, ended = 0;                       // of the language model: for the last class; ln of all; ln for a space
  };
  // Probabilities of the paths that write a prefix and end in a blank, or in its last class: sums, and the best of each with its times.
  struct Beam {
    int32_t node = -1, times_blank = -1, times_open = -1;
    double blank = 0, open = 0, best_blank = 0, best_open = 0;
    double both() const { return blank + open; }
    double best() const { return std::max(best_blank, best_open); }
    int32_t times() const { return best_open > best_blank ? times_open : times_blank; }
  };
  struct Next {
    int32_t word, state;
    double delta;
  };
  // A beam of the next step: of a prefix that is there, or of one that is still to be made.
  struct Candidate {
    Beam beam;
    int32_t parent = -1, symbol = -1;
    bool entered = false;  // the best path writes the last class now
    Next next{};
  };
  struct Time {
    int32_t step, before;
  };
  struct Finished {
    int32_t node, times;
    double score, log_p;
  };

  // ln of what the language model says of the word that a prefix ends in; `state` becomes that behind it.
  double word_end(const Prefix& p, int32_t& state) const {
    if (!how_.model || how_.tokens || !how_.words || p.word == 0) return 0;
    const int32_t token = p.word > 0 && how_.word[p.word] > 0 ? how_.word[p.word] : 0;
    return how_.alpha * kLn10 * how_.model->step(state, token) + how_.beta + (token == 0 && p.word > 0 ? how_.unknown : 0);
  }
  bool word_ends(const Prefix& p) const { return p.word >= 0 && how_.word[p.word] >= 0; }

  // What a class adds behind a prefix; false where nothing goes on so.
  bool follow(Prefix& p, int32_t c, Next& next) const {
    next = {p.word, p.state, 0};
    if (how_.tokens) {
      const int32_t token = how_.tokens[c];
      next.delta = how_.alpha * kLn10 * how_.model->step(next.state, token) + how_.beta + (token == 0 ? how_.unknown : 0);
    }
    if (!how_.words) return true;
    if (c == how_.space && (!how_.closed || word_ends(p))) {
      next.word = 0;
      if (!how_.tokens && how_.model) {
        if (p.after < 0) {
          p.after = p.state;
          p.ended = word_end(p, p.after);
        }
        next.state = p.after;
        next.delta += p.ended;
      }
      return true;
    }
    if (p.word < 0) return true;
    next.word = how_.words->child(p.word, c);
    if (next.word >= 0) return true;
    if (!how_.tokens) next.delta += how_.unknown;
    return !how_.closed;
  }

  // What the end of the text adds behind a prefix; false where it is no whole text.
  bool ending(const Prefix& p, double& delta) const {
    if (how_.closed && p.parent >= 0 && !word_ends(p)) return false;
    int32_t state = p.state;
    delta = word_end(p, state);
    if (how_.model) delta += how_.alpha * kLn10 * how_.model->step(state, how_.sentence);
    return true;
  }

  // Texts that differ by a space at the end are one.
  template <class Text>
  void join_spaces(std::vector<Text>& texts) const {
    std::vector<Text> made;
    for (Text text : texts) {
      if (prefixes_[text.node].symbol == how_.space && text.node) {
        text.node = prefixes_[text.node].parent;
        if (text.times >= 0) text.times = times_[text.times].before;
      }
      auto same = std::find_if(made.begin(), made.end(), [&](const Text& each) { return each.node == text.node; });
      if (same == made.end()) {
        made.push_back(text);
        continue;
      }
      if (text.log_p > same->log_p) same->times = text.times;
      same->log_p = log_add(same->log_p, text.log_p);
    }
    texts = std::move(made);
  }
  static double log_add(double a, double b) {
    const double high = std::max(a, b);
    return high == -std::numeric_limits<double>::infinity() ? high : high + std::log1p(std::exp(std::min(a, b) - high));
  }

  bool is_space(const Prefix& p) const { return p.symbol == how_.space || p.parent < 0; }

  // The classes that are looked at, likeliest first.
  void choose() {
    likely_.clear();
    int32_t high = -1;
    for (int32_t c = 0; c < how_.classes; c++) {
      if (c == how_.blank || c == how_.end || row_[c] <= 0) continue;
      if (row_[c] > how_.least) likely_.push_back(c);
      if (high < 0 || row_[c] > row_[high]) high = c;
    }
    if (likely_.empty() && high >= 0) likely_.push_back(high);
    const auto likelier = [this](int32_t a, int32_t b) { return row_[a] > row_[b] || (row_[a] == row_[b] && a < b); };
    if (static_cast<int64_t>(likely_.size()) > how_.most) {
      std::nth_element(likely_.begin(), likely_.begin() + how_.most, likely_.end(), likelier);
      likely_.resize(how_.most);
    }
    std::sort(likely_.begin(), likely_.end(), likelier);
    if (is_likely_.size() != row_.size()) is_likely_.assign(row_.size(), 0);
    for (int32_t c : likely_) is_likely_[c] = 1;
  }

  void advance() {
    choose();
    candidates_.clear();
    if (how_.end >= 0) {
      finish();
    } else {
      stay();
    }
    double high = 0;
    for (const Candidate& c : candidates_) high = std::max(high, c.beam.both());
    least_ = high * how_.margin;
    if (static_cast<int64_t>(candidates_.size()) >= how_.width) narrow();
    for (size_t i = 0; i < beams_.size(); i++) extend(static_cast<int32_t>(i));
    for (int32_t c : likely_) is_likely_[c] = 0;
    select();
    step_++;
  }

  // Prefixes that stay as they are, and those among them that another one becomes.
  void stay() {
    const double blank = how_.blank >= 0 ? row_[how_.blank] : 0;
    children_.assign(beams_.size(), -1);
    brothers_.assign(beams_.size(), -1);
    for (size_t i = 0; i < beams_.size(); i++) {
      const Beam& b = beams_[i];
      const Prefix& p = prefixes_[b.node];
      Candidate made;
      made.beam.node = b.node;
      made.beam.blank = b.both() * blank;
      made.beam.best_blank = b.best() * blank;
      made.beam.times_blank = b.times();
      made.beam.times_open = b.times_open;
      const bool skips = how_.spaces && is_space(p);  // a further space is no character
      if (p.parent < 0) {
        if (skips && how_.space >= 0) made.beam.blank += b.both() * row_[how_.space], made.beam.best_blank = b.best() * std::max(blank, row_[how_.space]);
      } else {
        made.beam.open = (skips ? b.both() : b.open) * row_[p.symbol];
        made.beam.best_open = (skips ? b.best() : b.best_open) * row_[p.symbol];
        if (skips) made.beam.times_open = b.times();
        const int32_t from = prefixes_[p.parent].slot;
        if (from >= 0) {
          brothers_[i] = children_[from];
          children_[from] = static_cast<int32_t>(i);
          if (is_likely_[p.symbol]) {
            const Beam& before = beams_[from];
            const bool twice = prefixes_[before.node].symbol == p.symbol;
            const double factor = row_[p.symbol] * p.factor, best = (twice ? before.best_blank : before.best()) * factor;
            made.beam.open += (twice ? before.blank : before.both()) * factor;
            if (best > made.beam.best_open) {
              made.beam.best_open = best;
              made.beam.times_open = twice ? before.times_blank : before.times();
              made.entered = true;
            }
          }
        }
      }
      candidates_.push_back(made);
    }
  }

  // Leaves as many candidates as there are places; a new one must be better than the least of them.
  void narrow() {
    const auto better = [](const Candidate& a, const Candidate& b) { return a.beam.both() > b.beam.both(); };
    const auto last = candidates_.begin() + (how_.width - 1);
    std::nth_element(candidates_.begin(), last, candidates_.end(), better);
    least_ = std::max(least_, last->beam.both());
    candidates_.resize(how_.width);
  }

  // Prefixes that are a class longer.
  void extend(int32_t from) {
    const Beam& b = beams_[from];
    Prefix& p = prefixes_[b.node];
    const double both = b.both() * bound_;
    for (int32_t c : likely_) {
      if (both * row_[c] <= least_) return;  // so it is for all that follow
      if (c == how_.space && how_.spaces && is_space(p)) continue;
      bool there = false;
      if (how_.end < 0)
        for (int32_t i = children_[from]; i >= 0 && !there; i = brothers_[i]) there = prefixes_[beams_[i].node].symbol == c;
      if (there) continue;
      const bool twice = how_.end < 0 && p.symbol == c;
      double gained = (twice ? b.blank : b.both()) * row_[c];
      if (gained * bound_ <= least_) continue;
      Candidate made;
      if (!follow(p, c, made.next)) continue;
      made.next.delta = std::clamp(made.next.delta, -1e4, 300.0);  // whatever a model says, probabilities stay finite
      const double factor = std::exp(made.next.delta);
      gained *= factor;
      if (gained <= least_) continue;
      made.beam.open = gained;
      made.beam.best_open = (twice ? b.best_blank : b.best()) * row_[c] * factor;
      made.beam.times_open = twice ? b.times_blank : b.times();
      made.parent = b.node;
      made.symbol = c;
      made.entered = true;
      candidates_.push_back(made);
      if (static_cast<int64_t>(candidates_.size()) > 2 * how_.width + 256) narrow();
    }
  }

  // Texts that end here, of nets with a class for the end.
  void finish() {
    const double p_end = row_[how_.end];
    for (const Beam& b : beams_) {
      const Prefix& p = prefixes_[b.node];
      double delta = 0;
      if (!(p_end > 0) || !ending(p, delta)) continue;
      const double score = std::log(b.both() * p_end) + scale_;
      finished_.push_back({b.node, b.times(), score + delta, score - p.sum});
    }
    if (static_cast<int64_t>(finished_.size()) > 2 * how_.width) {
      std::stable_sort(finished_.begin(), finished_.end(), [](const Finished& a, const Finished& b) { return a.score > b.score; });
      finished_.resize(how_.width);
    }
  }

  // The best candidates become the beams.
  void select() {
    order_.clear();
    for (size_t i = 0; i < candidates_.size(); i++)
      if (candidates_[i].beam.both() > 0) order_.emplace_back(candidates_[i].beam.both(), static_cast<int32_t>(i));
    const auto better = [](const std::pair<double, int32_t>& a, const std::pair<double, int32_t>& b) {
      return a.first > b.first || (a.first == b.first && a.second < b.second);
    };
    if (static_cast<int64_t>(order_.size()) > how_.width) {
      std::nth_element(order_.begin(), order_.begin() + how_.width, order_.end(), better);
      order_.resize(how_.width);
    }
    std::sort(order_.begin(), order_.end(), better);
    for (const Beam& b : beams_) prefixes_[b.node].slot = -1;
    beams_.clear();
    if (order_.empty()) return;
    const double high = order_[0].first, proportion = 1 / high;
    scale_ += std::log(high);
    for (const auto& [value, i] : order_) {
      if (value < high * how_.margin) break;
      Candidate& c = candidates_[i];
      if (c.beam.node < 0) c.beam.node = make(c);
      if (c.entered) {
        times_.push_back({step_, c.beam.times_open});
        c.beam.times_open = static_cast<int32_t>(times_.size()) - 1;
      }
      c.beam.blank *= proportion, c.beam.open *= proportion;
      c.beam.best_blank *= proportion, c.beam.best_open *= proportion;
      prefixes_[c.beam.node].slot = static_cast<int32_t>(beams_.size());
      beams_.push_back(c.beam);
    }
    if (prefixes_.size() + times_.size() > room_) collect();
  }

  // The prefix of a candidate; one that was there before is the same again, so that those which begin with it know it.
  int32_t make(const Candidate& c) {
    for (int32_t i = prefixes_[c.parent].child; i >= 0; i = prefixes_[i].sibling)
      if (prefixes_[i].symbol == c.symbol) return i;
    Prefix p;
    p.parent = c.parent, p.symbol = c.symbol, p.word = c.next.word, p.state = c.next.state;
    p.factor = std::exp(c.next.delta);
    p.sum = prefixes_[c.parent].sum + c.next.delta;
    p.sibling = prefixes_[c.parent].child;
    prefixes_.push_back(p);
    return prefixes_[c.parent].child = static_cast<int32_t>(prefixes_.size()) - 1;
  }

  // Leaves out what no beam needs any more. What stands before a prefix, or a time, has a lower number.
  void collect() {
    std::vector<int32_t> prefix(prefixes_.size(), -1), time(times_.size(), -1);
    const auto mark = [&](int32_t node, int32_t last) {
      for (; node >= 0 && prefix[node] < 0; node = prefixes_[node].parent) prefix[node] = 0;
      for (; last >= 0 && time[last] < 0; last = times_[last].before) time[last] = 0;
    };
    for (const Beam& b : beams_) mark(b.node, b.times_blank), mark(b.node, b.times_open);
    for (const Finished& f : finished_) mark(f.node, f.times);
    int32_t kept = 0;
    for (size_t i = 0; i < prefixes_.size(); i++) {
      if (prefix[i] < 0) continue;
      Prefix p = prefixes_[i];
      p.child = -1;
      if (p.parent >= 0) {
        p.parent = prefix[p.parent];
        p.sibling = prefixes_[p.parent].child;
        prefixes_[p.parent].child = kept;
      }
      prefixes_[kept] = p;
      prefix[i] = kept++;
    }
    prefixes_.resize(kept);
    kept = 0;
    for (size_t i = 0; i < times_.size(); i++) {
      if (time[i] < 0) continue;
      times_[kept] = {times_[i].step, times_[i].before < 0 ? -1 : time[times_[i].before]};
      time[i] = kept++;
    }
    times_.resize(kept);
    const auto moved = [&](int32_t last) { return last < 0 ? -1 : time[last]; };
    for (Beam& b : beams_) b.node = prefix[b.node], b.times_blank = moved(b.times_blank), b.times_open = moved(b.times_open);
    for (Finished& f : finished_) f.node = prefix[f.node], f.times = moved(f.times);
    room_ = std::max(room_, 2 * (prefixes_.size() + times_.size()));
  }

  const Options how_;
  const double bound_, log_least_ = how_.least > 0 ? std::log(how_.least) : -std::numeric_limits<double>::infinity();
  double scale_ = 0, least_ = 0;  // least_: what a new candidate must exceed
  int32_t step_ = 0;
  size_t room_ = 1 << 16;
  std::vector<Prefix> prefixes_;
  std::vector<Time> times_;
  std::vector<Beam> beams_;
  std::vector<Finished> finished_;
  std::vector<Candidate> candidates_;
  std::vector<std::pair<double, int32_t>> order_;
  std::vector<int32_t> likely_, children_, brothers_;
  std::vector<uint8_t> is_likely_;
  std::vector<double> row_;
};

}  // namespace pdl::beams
