// Texts to tokens: WordPiece after BERT's normalisation, and byte-level BPE after GPT-2's or Llama 3's split. Texts are read as Python holds them, so that
// places are code points. What characters are and become is in tables that the caller makes (pdl_nlp/tokenizers/unicode.py).
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <queue>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "hashing.h"

namespace pdl::tokens {

constexpr uint32_t kPoints = 0x110000, kReplacement = 0xFFFD;

// The code points of a Python string: 1, 2 or 4 bytes each.
struct Text {
  const void* data;
  int64_t size;
  int kind;
  uint32_t operator[](int64_t i) const {
    if (kind == 1) return static_cast<const uint8_t*>(data)[i];
    if (kind == 2) return static_cast<const uint16_t*>(data)[i];
    return static_cast<const uint32_t*>(data)[i];
  }
};

struct Token {
  int32_t id, begin, end, word;
};

// A map from pairs of 32 bits to values, with open addressing.
template <class V>
class PairMap {
 public:
  void reserve(size_t n) {
    size_t size = 16;
    while (size < n * 2) size *= 2;
    slots_.assign(size, Slot{kEmpty, V{}});
  }
  // Where the value of a key is or, if `add`, will be; null where it is not there. More than were reserved must not be added.
  const V* find(uint32_t a, uint32_t b) const {
    const uint64_t key = static_cast<uint64_t>(a) << 32 | b;
    for (size_t i = place(key);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == key) return &slots_[i].value;
      if (slots_[i].key == kEmpty) return nullptr;
    }
  }
  V& at(uint32_t a, uint32_t b, const V& fresh) {
    const uint64_t key = static_cast<uint64_t>(a) << 32 | b;
    for (size_t i = place(key);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == key) return slots_[i].value;
      if (slots_[i].key == kEmpty) {
        slots_[i] = Slot{key, fresh};
        return slots_[i].value;
      }
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~0ull;
  struct Slot {
    uint64_t key;
    V value;
  };
  size_t place(uint64_t key) const {
    key *= 0x9E3779B97F4A7C15ull;
    return (key ^ key >> 32) & (slots_.size() - 1);
  }
  std::vector<Slot> slots_{Slot{kEmpty, V{}}};
};

// Tokens that are found in a text before all else, the longest at each place.
class Added {
 public:
  void add(const Text& text, int32_t id, bool left, bool right) {
    Entry entry{{}, id, left, right};
    for (int64_t i = 0; i < text.size; i++) entry.points.push_back(text[i]);
    first_[entry.points[0] & 255] = true;
    entries_.push_back(entry);
    std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.points.size() > b.points.size(); });
  }
  // Calls plain(begin, end) for what is between them, and found(id, begin, end) for each, in order.
  template <class Space, class Plain, class Found>
  void split(const Text& text, const Space& is_space, const Plain& plain, const Found& found) const {
    int64_t from = 0;
    if (!entries_.empty()) {
      for (int64_t i = 0; i < text.size;) {
        const Entry* entry = first_[text[i] & 255] ? at(text, i) : nullptr;
        if (!entry) {
          i++;
          continue;
        }
        int64_t begin = i, end = i + static_cast<int64_t>(entry->points.size());
        if (entry->left) while (begin > from && is_space(text[begin - 1])) begin--;
        if (entry->right) while (end < text.size && is_space(text[end])) end++;
        if (begin > from) plain(from, begin);
        found(entry->id, begin, end);
        from = i = end;
      }
    }
    if (from < text.size) plain(from, text.size);
  }

 private:
  struct Entry {
    std::vector<uint32_t> points;
    int32_t id;
    bool left, right;  // takes white space on this side, too
  };
  const Entry* at(const Text& text, int64_t i) const {
    for (const Entry& entry : entries_) {
      const int64_t n = static_cast<int64_t>(entry.points.size());
      int64_t k = 0;
      if (i + n <= text.size) while (k < n && text[i + k] == entry.points[k]) k++;
      if (k == n) return &entry;
    }
    return nullptr;
  }
  std::vector<Entry> entries_;
  bool first_[256] = {};
};

// What becomes of a code point: itself or another one (bits 0-20), with flags; or kSeveral with a place in a list (bits 0-19) of so many
// (bits 20-25), none for those that are left out.
enum Plan : uint32_t { kSpace = 1u << 21, kAlone = 1u << 22, kSeveral = 1u << 31 };

class WordPiece {
 public:
  Added added;

  WordPiece(const uint32_t* plan, const uint32_t* several, int64_t count, int32_t unknown, int64_t longest)
      : plan_(plan, plan + kPoints), several_(several, several + count), unknown_(unknown), longest_(longest) {}

  void reserve(int64_t points) { nodes_.reserve(static_cast<size_t>(points) + 16); }
  // A token that begins a word, or with `within` one that goes on in it, from its code point `from` on.
  void add(const Text& text, int64_t from, int32_t id, bool within) {
    uint32_t node = within;
    Child* last = nullptr;
    for (int64_t i = from; i < text.size; i++) {
      last = &nodes_.at(node, text[i], Child{0, -1});
      if (!last->node) last->node = ++count_;
      node = last->node;
    }
    if (last && last->id < 0) last->id = id;
  }

  void encode(const Text& text, std::vector<Token>& out) const {
    std::vector<Point> word;
    int32_t number = 0;
    const auto flush = [&] {
      if (!word.empty()) pieces(word, number++, out);
      word.clear();
    };
    const auto take = [&](uint32_t c, int64_t i) {
      if (c & kSpace) return flush();
      if (c & kAlone) flush();
      word.push_back(Point{c & 0x1FFFFF, static_cast<int32_t>(i)});
      if (c & kAlone) flush();
    };
    added.split(
        text, [&](uint32_t c) { return (plan_[c] & (kSpace | kSeveral)) == kSpace; },
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; i++) {
            const uint32_t p = plan_[text[i]];
            if (!(p & kSeveral)) {
              take(p, i);
            } else {
              const uint32_t* each = several_.data() + (p & 0xFFFFF);
              for (uint32_t k = 0; k < (p >> 20 & 63); k++) take(each[k], i);
            }
          }
          flush();
        },
        [&](int32_t id, int64_t begin, int64_t end) {
          out.push_back(Token{id, static_cast<int32_t>(begin), static_cast<int32_t>(end), number++});
        });
  }

 private:
  struct Point {
    uint32_t c;
    int32_t at;
  };
  struct Child {
    uint32_t node;
    int32_t id;
  };

  // The longest token that fits, again and again; a word that has none at some place is unknown as a whole.
  void pieces(const std::vector<Point>& word, int32_t number, std::vector<Token>& out) const {
    const size_t n = word.size(), before = out.size();
    size_t i = static_cast<int64_t>(n) > longest_ ? n + 1 : 0;
    while (i < n) {
      uint32_t node = i > 0;
      int32_t id = -1;
      size_t end = i;
      for (size_t k = i; k < n; k++) {
        const Child* child = nodes_.find(node, word[k].c);
        if (!child) break;
        if (child->id >= 0) id = child->id, end = k + 1;
        node = child->node;
      }
      if (id < 0) break;
      out.push_back(Token{id, word[i].at, word[end - 1].at + 1, number});
      i = end;
    }
    if (i != n) {
      out.resize(before);
      out.push_back(Token{unknown_, word[0].at, word[n - 1].at + 1, number});
    }
  }

  std::vector<uint32_t> plan_, several_;
  PairMap<Child> nodes_;
  uint32_t count_ = 1;  // nodes 0 and 1 are the roots: of what begins a word, of what goes on in one
  int32_t unknown_;
  int64_t longest_;
};

// The bytes of a code point in UTF-8; surrogates, which no text has, are replaced.
inline int utf8(uint32_t c, uint8_t* to) {
  if (c < 0x80) return to[0] = static_cast<uint8_t>(c), 1;
  if (c < 0x800) return to[0] = static_cast<uint8_t>(0xC0 | c >> 6), to[1] = static_cast<uint8_t>(0x80 | (c & 63)), 2;
  if (c >= 0xD800 && c < 0xE000) c = kReplacement;
  if (c < 0x10000)
    return to[0] = static_cast<uint8_t>(0xE0 | c >> 12), to[1] = static_cast<uint8_t>(0x80 | (c >> 6 & 63)),
           to[2] = static_cast<uint8_t>(0x80 | (c & 63)), 3;
  return to[0] = static_cast<uint8_t>(0xF0 | c >> 18), to[1] = static_cast<uint8_t>(0x80 | (c >> 12 & 63)),
         to[2] = static_cast<uint8_t>(0x80 | (c >> 6 & 63)), to[3] = static_cast<uint8_t>(0x80 | (c & 63)), 4;
}

enum Class : uint8_t { kOther, kLetter, kNumber, kWhite };

// The end of the part of a text that begins at i, of those that GPT-2's expression finds:
// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
template <class At>
int64_t part_end(const At& at, const uint8_t* classes, int64_t i, int64_t end) {
  const uint32_t c = at(i);
  if (c == '\'' && i + 1 < end) {
    const uint32_t a = at(i + 1), b = i + 2 < end ? at(i + 2) : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return i + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return i + 3;
  }
  int64_t k = i + (c == ' ' && i + 1 < end && classes[at(i + 1)] != kWhite);
  const uint8_t kind = classes[at(k)];
  if (kind != kWhite) {
    while (++k < end && classes[at(k)] == kind) {}
    return k;
  }
  while (++k < end && classes[at(k)] == kWhite) {}
  return k < end && k - i > 1 ? k - 1 : k;  // the last one belongs to what follows
}

// The same of the expression of Llama 3, in which at most `most` = 3 numbers stand together (Qwen 2: 1):
// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <class At>
int64_t part_end(const At& at, const uint8_t* classes, int64_t i, int64_t end, int64_t most) {
  const auto kind = [&](int64_t k) { return classes[at(k)]; };
  const auto lower = [&](int64_t k) { const uint32_t c = k < end ? at(k) : 0; return c >= 'A' && c <= 'Z' ? c + 32 : c == 0x17F ? 's' : c; };
  const auto breaks = [&](int64_t k) { return at(k) == '\r' || at(k) == '\n'; };
  const auto run = [&](int64_t k, uint8_t of) { while (k < end && kind(k) == of) k++; return k; };
  if (at(i) == '\'') {
    const uint32_t a = lower(i + 1), b = lower(i + 2);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return i + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return i + 3;
  }
  if (kind(i) == kNumber) return std::min(run(i, kNumber), i + most);
  if (kind(i) == kLetter || (!breaks(i) && i + 1 < end && kind(i + 1) == kLetter)) return run(i + 1, kLetter);
  int64_t k = i + (at(i) == ' ' && i + 1 < end && kind(i + 1) == kOther);
  if (kind(k) == kOther) {
    k = run(k, kOther);
    while (k < end && breaks(k)) k++;
    return k;
  }
  const int64_t white = run(i, kWhite);
  for (k = white; k > i; k--) if (breaks(k - 1)) return k;
  return white < end && white - i > 1 ? white - 1 : white;
}

class BytePair {
 public:
  Added added;

  // prefix: a space is put before a text that begins with none; split: by GPT-2's expression, or where `numbers` is not 0 by
  // Llama 3's with at most so many numbers together; trim: offsets leave out spaces, but for one that the first token begins
  // with, if `keep`
  BytePair(const uint8_t* classes, const int32_t* bytes, bool prefix, bool split, int64_t numbers, bool trim, bool keep)
      : classes_(classes, classes + kPoints), bytes_(bytes, bytes + 256), prefix_(prefix), split_(split), numbers_(numbers), trim_(trim), keep_(keep),
        cache_(kCached) {}

  void reserve(int64_t merges) { merges_.reserve(static_cast<size_t>(merges)); }
  void merge(uint32_t a, uint32_t b, uint32_t rank, uint32_t made) { merges_.at(a, b, Merge{rank, made}); }
  // A part that is these bytes is the token `id`, whatever the merges make of it.
  void whole(const char* bytes, size_t size, int32_t id) { whole_.emplace(std::string(bytes, size), id); }
  // How many spaces a token begins and ends with.
  void spaces(const int32_t* leading, const int32_t* trailing, int64_t n) {
    leading_.assign(leading, leading + n);
    trailing_.assign(trailing, trailing + n);
  }

  // Which merges are left out: each with probability `share` whenever it could be made.
  struct Dropout {
    double share;
    uint64_t seed, drawn = 0;
    bool operator()() { return static_cast<double>(hashing::of_number(drawn++, seed) >> 11) * 0x1p-53 < share; }
  };

  void encode(const Text& text, std::vector<Token>& out) { encode(text, out, nullptr); }
  // The same with merges left out (BPE-dropout: Provilkov, Emelianenko & Voita, arXiv 1910.13267); a seed gives the same tokens again.
  void encode(const Text& text, std::vector<Token>& out, double share, uint64_t seed) {
    Dropout drop{share, seed};
    encode(text, out, &drop);
  }

 private:
  void encode(const Text& text, std::vector<Token>& out, Dropout* drop) {
    const size_t first = out.size();
    int32_t number = 0;
    std::unique_lock<std::mutex> own(mutex_, std::try_to_lock);  // the cache is that of one thread at a time; another does without
    std::vector<uint8_t> bytes;
    std::vector<Symbol> symbols;
    added.split(
        text, [&](uint32_t c) { return classes_[c] == kWhite; },
        [&](int64_t begin, int64_t end) {
          const bool prefix = prefix_ && text[begin] != ' ';
          const int64_t from = begin - prefix;
          const auto at = [&](int64_t i) { return i < begin ? static_cast<uint32_t>(' ') : text[i]; };
          for (int64_t i = from; i < end;) {
            const int64_t to = !split_    ? end
                               : numbers_ ? part_end(at, classes_.data(), i, end, numbers_)
                                          : part_end(at, classes_.data(), i, end);
            bytes.clear();
            for (int64_t k = i; k < to; k++) {
              uint8_t made[4];
              const int n = utf8(at(k), made);
              bytes.insert(bytes.end(), made, made + n);
            }
            drop ? split_word(bytes, symbols, *drop) : word(bytes, symbols, own.owns_lock());
            place(bytes, symbols, i, begin, number++, first, out);
            i = to;
          }
        },
        [&](int32_t id, int64_t begin, int64_t end) {
          int64_t left = begin, right = end;
          while (left < end && classes_[text[left]] == kWhite) left++;
          while (right > begin && classes_[text[right - 1]] == kWhite) right--;
          out.push_back(Token{id, static_cast<int32_t>(begin), static_cast<int32_t>(end), number++});
          if (trim_) trim(out.back(), out.size() - 1 == first, static_cast<int32_t>(left - begin), static_cast<int32_t>(end - right));
        });
  }

  struct Merge {
    uint32_t rank, made;
  };
  struct Symbol {
    int32_t id, end;  // behind its last byte
  };
  static constexpr size_t kCached = 1 << 14, kLongest = 24, kMost = 8;
  struct Known {
    uint8_t size = 0, count = 0, bytes[kLongest];
    uint8_t ends[kMost];
    int32_t ids[kMost];
  };

  // The offsets of the tokens that a part has, the first code point of which is i; one that is before `begin` is the added space.
  void place(const std::vector<uint8_t>& bytes, const std::vector<Symbol>& symbols, int64_t i, int64_t begin, int32_t number,
             size_t first, std::vector<Token>& out) const {
    int64_t at = i - 1;
    int32_t k = 0;
    for (const Symbol& symbol : symbols) {
      int64_t from = at;
      bool fresh = true;
      for (; k < symbol.end; k++) {
        if ((bytes[k] & 0xC0) != 0x80) at++;
        if (fresh) from = at, fresh = false;
      }
      if (symbol.id < 0) continue;
      const int64_t left = std::max(from, begin), right = std::max(at, begin);
      out.push_back(Token{symbol.id, static_cast<int32_t>(left), static_cast<int32_t>(right + 1), number});
      if (trim_) trim(out.back(), out.size() - 1 == first, leading_[symbol.id], trailing_[symbol.id]);
    }
  }

  // Leaves the spaces that a token begins and ends with out of its place, as HF's ByteLevel processor does.
  void trim(Token& token, bool first, int32_t leading, int32_t trailing) const {
    if (leading == 1 && keep_ && (first || token.begin == 0)) leading = 0;
    token.begin = std::min(token.begin + leading, token.end);
    if (trailing && token.end >= trailing) token.end = std::max(token.end - trailing, token.begin);
  }

  void word(const std::vector<uint8_t>& bytes, std::vector<Symbol>& symbols, bool cached) {
    const size_t n = bytes.size();
    Known* known = nullptr;
    if (cached && n <= kLongest) {
      known = &cache_[hashing::of_bytes(reinterpret_cast<const char*>(bytes.data()), static_cast<int64_t>(n), 0) & (kCached - 1)];
      if (known->size == n && !memcmp(known->bytes, bytes.data(), n)) {
        symbols.resize(known->count);
        for (size_t i = 0; i < known->count; i++) symbols[i] = Symbol{known->ids[i], known->ends[i]};
        return;
      }
    }
    const auto found = whole_.empty() ? whole_.end() : whole_.find(std::string(bytes.begin(), bytes.end()));
    if (found != whole_.end()) {
      symbols.assign(1, Symbol{found->second, static_cast<int32_t>(n)});
    } else {
      single(bytes, symbols);
      n < 40 ? merge_few(symbols) : merge_many(symbols, [] { return false; });
    }
    if (known && symbols.size() <= kMost) {
      known->size = static_cast<uint8_t>(n), known->count = static_cast<uint8_t>(symbols.size());
      memcpy(known->bytes, bytes.data(), n);
      for (size_t i = 0; i < symbols.size(); i++)
        known->ids[i] = symbols[i].id, known->ends[i] = static_cast<uint8_t>(symbols[i].end);
    }
  }

  void split_word(const std::vector<uint8_t>& bytes, std::vector<Symbol>& symbols, Dropout& drop) const {
    single(bytes, symbols);
    merge_many(symbols, drop);
  }

  void single(const std::vector<uint8_t>& bytes, std::vector<Symbol>& symbols) const {
    symbols.resize(bytes.size());
    for (size_t i = 0; i < bytes.size(); i++) symbols[i] = Symbol{bytes_[bytes[i]], static_cast<int32_t>(i + 1)};
  }

  const Merge* merge_of(const Symbol& a, const Symbol& b) const {
    return a.id < 0 || b.id < 0 ? nullptr : merges_.find(static_cast<uint32_t>(a.id), static_cast<uint32_t>(b.id));
  }

  // Merges the pair of lowest rank, the first of several, until none is left.
  void merge_few(std::vector<Symbol>& symbols) const {
    constexpr uint32_t kNone = ~0u;
    Merge next[40];
    size_t n = symbols.size();
    for (size_t i = 0; i + 1 < n; i++) {
      const Merge* found = merge_of(symbols[i], symbols[i + 1]);
      next[i] = found ? *found : Merge{kNone, 0};
    }
    while (n > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < n; i++) if (next[i].rank < next[best].rank) best = i;
      if (next[best].rank == kNone) break;
      symbols[best] = Symbol{static_cast<int32_t>(next[best].made), symbols[best + 1].end};
      for (size_t i = best + 1; i + 1 < n; i++) symbols[i] = symbols[i + 1];
      for (size_t i = best + 1; i + 2 < n; i++) next[i] = next[i + 1];
      n--;
      for (size_t i = best ? best - 1 : 0; i <= best && i + 1 < n; i++) {
        const Merge* found = merge_of(symbols[i], symbols[i + 1]);
        next[i] = found ? *found : Merge{kNone, 0};
      }
    }
    symbols.resize(n);
  }

  // The same with a heap, for long parts, and for merges of which some are left out: one for which drop() is true waits until another was made.
  template <class Drop>
  void merge_many(std::vector<Symbol>& symbols, Drop&& drop) const {
    struct Waiting {
      uint32_t rank;
      int32_t at;
      uint32_t made;
      int32_t left, right;  // the numbers that it merges
      bool operator<(const Waiting& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
    };
    const int32_t n = static_cast<int32_t>(symbols.size());
    std::vector<int32_t> after(n), before(n);
    for (int32_t i = 0; i < n; i++) after[i] = i + 1, before[i] = i - 1;
    std::priority_queue<Waiting> queue;
    const auto look = [&](int32_t i) {
      if (i < 0 || after[i] >= n) return;
      const Symbol &a = symbols[i], &b = symbols[after[i]];
      if (const Merge* found = merge_of(a, b)) queue.push(Waiting{found->rank, i, found->made, a.id, b.id});
    };
    for (int32_t i = 0; i + 1 < n; i++) look(i);
    std::vector<Waiting> dropped;
    while (!queue.empty()) {
      const Waiting best = queue.top();
      queue.pop();
      const int32_t i = best.at;
      if (before[i] == -2 || after[i] >= n || symbols[i].id != best.left || symbols[after[i]].id != best.right) continue;
      if (drop()) {
        dropped.push_back(best);
        continue;
      }
      for (const Waiting& each : dropped) queue.push(each);
      dropped.clear();
      const int32_t gone = after[i];
      symbols[i] = Symbol{static_cast<int32_t>(best.made), symbols[gone].end};
      after[i] = after[gone];
      if (after[i] < n) before[after[i]] = i;
      before[gone] = -2;
      look(before[i]);
      look(i);
    }
    int32_t count = 0;
    for (int32_t i = 0; i < n; i = after[i]) symbols[count++] = symbols[i];
    symbols.resize(count);
  }

  std::vector<uint8_t> classes_;
  std::vector<int32_t> bytes_, leading_, trailing_;
  bool prefix_, split_;
  int64_t numbers_;
  bool trim_, keep_;
  std::unordered_map<std::string, int32_t> whole_;
  PairMap<Merge> merges_;
  std::vector<Known> cache_;
  std::mutex mutex_;
};

// Merges learned from words (Sennrich et al., arXiv 1508.07909): word w, of which there are counts[w], is symbols[starts[w]] and on, each below
// `base`. The most frequent pair becomes a symbol, again and again, until there are `most` more or no pair is there `least` times; of equal ones
// that of the smaller numbers. Triples: two symbols and what they become; one made of the same base symbols in another way is the same.
inline std::vector<int32_t> learn(const int32_t* symbols, const int64_t* starts, const int64_t* counts, int64_t words, int32_t base, int64_t most,
                                  int64_t least) {
  struct Pair {
    int64_t count = 0;
    std::vector<int32_t> where;
  };
  struct Waiting {
    int64_t count;
    uint64_t pair;
    bool operator<(const Waiting& other) const { return count != other.count ? count < other.count : pair > other.pair; }
  };
  const auto key = [](int32_t a, int32_t b) { return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b); };
  std::vector<std::vector<int32_t>> held(words), contents(base);
  std::map<std::vector<int32_t>, int32_t> known;
  for (int32_t i = 0; i < base; i++) contents[i] = {i};
  std::unordered_map<uint64_t, Pair> pairs;
  for (int64_t w = 0; w < words; w++) {
    held[w].assign(symbols + starts[w], symbols + starts[w + 1]);
    for (size_t i = 0; i + 1 < held[w].size(); i++) {
      Pair& pair = pairs[key(held[w][i], held[w][i + 1])];
      pair.count += counts[w];
      if (pair.where.empty() || pair.where.back() != w) pair.where.push_back(static_cast<int32_t>(w));
    }
  }
  std::priority_queue<Waiting> queue;
  for (const auto& [pair, info] : pairs) queue.push(Waiting{info.count, pair});
  std::vector<int32_t> made;
  for (int64_t fresh = 0; fresh < most && !queue.empty();) {
    const Waiting best = queue.top();
    queue.pop();
    const auto found = pairs.find(best.pair);
    if (found == pairs.end()) continue;
    if (found->second.count != best.count) {
      if (found->second.count > 0) queue.push(Waiting{found->second.count, best.pair});
      continue;
    }
    if (best.count < least) break;
    const int32_t a = static_cast<int32_t>(best.pair >> 32), b = static_cast<int32_t>(best.pair & 0xFFFFFFFFu);
    std::vector<int32_t> content = contents[a];
    content.insert(content.end(), contents[b].begin(), contents[b].end());
    const auto [place, is_fresh] = known.try_emplace(content, static_cast<int32_t>(contents.size()));
    const int32_t id = place->second;
    if (is_fresh) contents.push_back(std::move(content)), fresh++;
    made.insert(made.end(), {a, b, id});
    const std::vector<int32_t> where = std::move(found->second.where);
    pairs.erase(found);
    std::map<uint64_t, int64_t> changed;
    for (size_t k = 0; k < where.size(); k++) {
      const int32_t w = where[k];
      std::vector<int32_t>& word = held[w];
      const auto change = [&](int32_t x, int32_t y, int64_t by) {
        if (x == a && y == b) return;
        Pair& pair = pairs[key(x, y)];
        pair.count += by;
        if (by > 0 && (pair.where.empty() || pair.where.back() != w)) pair.where.push_back(w);
        if (by > 0) changed[key(x, y)] = 0;
      };
      for (size_t i = 0; i + 1 < word.size(); i++) {
        if (word[i] != a || word[i + 1] != b) continue;
        if (i > 0) change(word[i - 1], a, -counts[w]), change(word[i - 1], id, counts[w]);
        if (i + 2 < word.size()) change(b, word[i + 2], -counts[w]), change(id, word[i + 2], counts[w]);
        word[i] = id;
        word.erase(word.begin() + static_cast<int64_t>(i) + 1);
      }
    }
    for (const auto& [pair, none] : changed) queue.push(Waiting{pairs[pair].count, pair});
  }
  return made;
}

// The wire format of protocol buffers, as far as messages of numbers and bytes need it.
class Message {
 public:
  Message(const uint8_t* p, const uint8_t* end) : p_(p), end_(end) {}
  // The next field: its number, and its value or the bytes that it is; false behind the last. Throws where the message is broken.
  bool next(uint64_t& field, uint64_t& value, Message& inner) {
    if (p_ == end_) return false;
    const uint64_t key = number();
    field = key >> 3, value = 0;
    const uint64_t kind = key & 7;
    if (kind == 0) return value = number(), true;
    const uint64_t size = kind == 2 ? number() : kind == 1 ? 8 : kind == 5 ? 4 : ~0ull;
    if (size > static_cast<uint64_t>(end_ - p_)) throw std::runtime_error("a broken message");
    inner = Message(p_, p_ + size);
    return p_ += size, true;
  }
  const uint8_t* begin() const { return p_; }
  const uint8_t* end() const { return end_; }

 private:
  uint64_t number() {
    uint64_t made = 0;
    for (int shift = 0; shift < 64 && p_ < end_; shift += 7) {
      const uint8_t byte = *p_++;
      made |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return made;
    }
    throw std::runtime_error("a broken message");
  }
  const uint8_t *p_, *end_;
};

// The tokens in a SentencePieceText of the library sentencepiece: text = 1, pieces = 2 of id = 2, begin = 4, end = 5 in bytes of the text.
// A word begins with a token for which `starts` is not 0.
inline void sentencepiece(const uint8_t* data, int64_t size, const uint8_t* starts, int64_t tokens, std::vector<int32_t>& places,
                          std::vector<Token>& out) {
  uint64_t field, value;
  Message whole(data, data + size), inner(nullptr, nullptr), piece(nullptr, nullptr);
  places.assign(1, 0);
  for (Message each = whole; each.next(field, value, inner);)
    if (field == 1) {
      places.clear();
      int32_t at = -1;
      for (const uint8_t* p = inner.begin(); p < inner.end(); p++) places.push_back(at += (*p & 0xC0) != 0x80);
      places.push_back(at + 1);
    }
  int32_t word = -1;
  for (Message each = whole; each.next(field, value, inner);) {
    if (field != 2) continue;
    uint64_t parts[6] = {}, number;
    while (inner.next(number, value, piece)) if (number < 6) parts[number] = value;
    if (parts[2] >= static_cast<uint64_t>(tokens) || parts[4] >= places.size() || parts[5] >= places.size())
      throw std::runtime_error("a piece outside the text or the model");
    word += starts[parts[2]] || word < 0;
    out.push_back(Token{static_cast<int32_t>(parts[2]), places[parts[4]], places[parts[5]], word});
  }
}

// The tokens of all texts into arrays.
inline void spread(const std::vector<Token>& tokens, int32_t* ids, int32_t* offsets, int32_t* words) {
  for (size_t i = 0; i < tokens.size(); i++) {
    ids[i] = tokens[i].id, words[i] = tokens[i].word;
    offsets[2 * i] = tokens[i].begin, offsets[2 * i + 1] = tokens[i].end;
  }
}

}  // namespace pdl::tokens
