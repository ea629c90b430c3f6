// Random programs of loops, branches and updates over a few arrays, compiled and eager: whatever is updated in
// place, taken over or handed on, the bits are the same.
#include <random>

#include "support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

/// What the programs go on with: numbers, rows of numbers, and a count that says which.
struct State {
  Array x, m, k;
};

class Writer {
 public:
  explicit Writer(unsigned seed, int depth = 0) : random_(seed), depth_(depth) {}

  State some(State s, int steps) {
    for (int i = 0; i < steps; ++i) s = one(std::move(s));
    return s;
  }

 private:
  static constexpr int kDeepest = 2;
  int pick(std::int64_t n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  /// Programs are traced more than once, and are the same each time.
  auto inner() {
    return [seed = random_(), depth = depth_ + 1](State s) {
      return Writer(static_cast<unsigned>(seed), depth)
          .some(std::move(s), 1 + static_cast<int>(seed % 2));
    };
  }
  Array place(const State& s, std::int64_t n) {
    switch (pick(3)) {
      case 0: return (s.k * (1 + pick(5)) + pick(7)) % n;
      case 1: return arange(3) * (1 + pick(5)) + (s.k - pick(9));
      default: return s.k - pick(9);
    }
  }
  Array change(const Array& old, const Array& at, const Array& v) {
    const auto part = old.at(at);
    switch (pick(4)) {
      case 0: return part.add(v);
      case 1: return part.max(v);
      case 2: return part.multiply(v);
      default: return part.set(v);
    }
  }
  State region(State s) {
    if (depth_ >= kDeepest) return s;
    const auto body = inner(), other = inner();
    switch (pick(4)) {
      case 0:
        return fori_loop(
            0, 1 + pick(4),
            [&](Array i, State t) {
              t.k = (t.k + i) % 50;
              return body(std::move(t));
            },
            s);
      case 1: return cond(s.x(0) > 0.3, body, other, s);
      case 2: {
        const auto step = [&](State t, Array row) {
          t = body(std::move(t));
          t.x = t.x.at(t.k % t.x.shape(0)).set(row(0));
          const Array out = row * 2.0 + t.x(0);
          return std::pair{t, out};
        };
        auto [t, rows] = scan(step, s, s.m);
        t.m = rows;
        return t;
      }
      default: {
        const Array v = s.x(0);
        s.m = map([&](Array row) { return sort(row * 0.5 - v); }, s.m);
        return s;
      }
    }
  }
  State one(State s) {
    const std::int64_t n = s.x.shape(0), rows = s.m.shape(0);
    switch (pick(8)) {
      case 0: s.x = change(s.x, place(s, n), s.x(pick(n)) * 0.5); return s;
      case 1: s.m = change(s.m, place(s, rows), s.m(pick(rows)) + 0.5); return s;
      case 2: {
        const int from = pick(n), length = 1 + pick(n - from), to = pick(n - length + 1);
        s.x = s.x.at(slice(to, to + length)).set(s.x(slice(from, from + length)) * 0.75);
        return s;
      }
      case 3: s.x = roll(s.x, pick(n)); return s;
      case 4: s.k = (s.k * 3 + 1) % 50; return s;
      case 5:
        s.m = s.m.at(pick(rows), 1).set(s.x(s.k % n)).at((s.k + 1) % rows, 0).add(s.x(0));
        return s;
      default: return region(std::move(s));
    }
  }

  std::mt19937_64 random_;
  int depth_;
};

void compare(unsigned first, unsigned last) {
  for (unsigned seed = first; seed < last; ++seed) {
    SCOPED_TRACE(seed);
    const auto f = [&](std::span<const Array> a) {
      const State s = Writer(seed).some({a[0], a[1], a[2]}, 3 + static_cast<int>(seed % 4));
      return Arrays{s.x, s.m, s.k};
    };
    const std::int64_t n = 5 + seed % 9, rows = seed % 5 == 0 ? 700 : 4 + seed % 7;
    check(f, {uniform({n}, DType::f64, 0, 1), uniform({rows, 3}, DType::f64, 0, 1, 2),
              Array(static_cast<int>(seed % 11)).astype(DType::i32)});
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RandomLoops, GiveTheBitsOfEagerPrograms) { compare(0, 150); }
TEST(RandomLoops, LONG_GiveTheBitsOfEagerPrograms) { compare(150, 4000); }

}  // namespace
}  // namespace telamon::testing
