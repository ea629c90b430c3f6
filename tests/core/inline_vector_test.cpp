// InlineVector beside std::vector: the same calls give the same elements, inside and on the heap.
#include "telamon/detail/inline_vector.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

namespace {

using telamon::detail::InlineVector;
using Strings = InlineVector<std::string, 2>;
using Numbers = InlineVector<std::int64_t, 4>;

const std::string kLong = "a text that does not fit into a string object";

TEST(InlineVector, HoldsWhatItIsMadeOf) {
  EXPECT_TRUE(Strings().empty());
  EXPECT_EQ(Strings(3, kLong), (Strings{kLong, kLong, kLong}));
  const std::vector<std::string> from{"a", kLong, "c"};
  EXPECT_EQ(Strings(from.begin(), from.end()), (Strings{"a", kLong, "c"}));
  EXPECT_EQ(Strings(from), (Strings{"a", kLong, "c"}));
  EXPECT_NE((Numbers{1, 2}), (Numbers{1, 2, 3}));
  EXPECT_NE((Numbers{1, 2}), (Numbers{1, 3}));
}

template <class List> void copies_and_moves(const List& full, const List& other) {
  List copy(full);
  EXPECT_EQ(copy, full);
  List moved(std::move(copy));
  EXPECT_EQ(moved, full);
  EXPECT_TRUE(copy.empty());  // NOLINT(bugprone-use-after-move): what is left is stated
  copy = other;
  EXPECT_EQ(copy, other);
  copy = std::move(moved);
  EXPECT_EQ(copy, full);
  const List& self = copy;
  copy = self;
  EXPECT_EQ(copy, full);
}
TEST(InlineVector, CopiesAndMoves) {
  for (const std::size_t n : {0U, 1U, 2U, 3U, 9U}) {
    for (const std::size_t m : {0U, 2U, 5U}) {
      copies_and_moves(Strings(n, kLong), Strings(m, "b"));
      copies_and_moves(Numbers(n, 7), Numbers(m, -1));
    }
  }
}

// A list that was long has memory of its own, which a copy must not share.
TEST(InlineVector, CopiesWhatWasLong) {
  Numbers was_long{1, 2, 3, 4, 5, 6};
  was_long.resize(2);
  Numbers copy(was_long);
  copy[0] = 7;
  copy.push_back(3);
  EXPECT_EQ(copy, (Numbers{7, 2, 3}));
  EXPECT_EQ(was_long, (Numbers{1, 2}));
  Numbers assigned{9};
  assigned = was_long;
  assigned[1] = 8;
  EXPECT_EQ(assigned, (Numbers{1, 8}));
  EXPECT_EQ(was_long, (Numbers{1, 2}));
}

TEST(InlineVector, TakesItsOwnElementWhenItGrows) {
  Strings list{kLong, "b"};
  list.push_back(list[0]);
  EXPECT_EQ(list, (Strings{kLong, "b", kLong}));
  Numbers numbers{1, 2, 3, 4};
  numbers.push_back(numbers.back());
  EXPECT_EQ(numbers, (Numbers{1, 2, 3, 4, 4}));
}

TEST(InlineVector, GrowsByOneOfItsElements) {
  Strings list{kLong, "b"};
  list.resize(5, list[0]);
  EXPECT_EQ(list, (Strings{kLong, "b", kLong, kLong, kLong}));
  list.assign(3, list[1]);
  EXPECT_EQ(list, (Strings{"b", "b", "b"}));
}

/// Its second copy throws.
struct Fragile {
  std::shared_ptr<int> held;
  int* copies;
  Fragile(std::shared_ptr<int> h, int* c) : held(std::move(h)), copies(c) {}
  Fragile(const Fragile& o) : held(o.held), copies(o.copies) {
    if (++*copies > 1) throw std::bad_alloc();
  }
  Fragile(Fragile&&) noexcept = default;
  Fragile& operator=(Fragile&&) noexcept = default;
  Fragile& operator=(const Fragile&) = delete;
  ~Fragile() = default;
};
TEST(InlineVector, DestroysWhatItHasWhenACopyFails) {
  using List = InlineVector<Fragile, 1>;
  const auto held = std::make_shared<int>(1);
  int copies = -100;
  List from;
  for (int i = 0; i < 3; ++i) from.push_back(Fragile(held, &copies));
  EXPECT_EQ(held.use_count(), 4);
  copies = 0;
  EXPECT_THROW(static_cast<void>(List(from)), std::bad_alloc);
  copies = 0;
  EXPECT_THROW(static_cast<void>(List(from.begin(), from.end())), std::bad_alloc);
  EXPECT_EQ(held.use_count(), 4);
}

// Random calls of all that changes a list.
template <class List, class Make> void behaves_as_vector(Make make) {
  using T = typename List::value_type;
  std::mt19937 random(1);
  for (int run = 0; run < 200; ++run) {
    List list;
    std::vector<T> model;
    for (int step = 0; step < 30; ++step) {
      const T x = make(static_cast<int>(random() % 100));
      const std::size_t at = random() % (model.size() + 1);
      const auto place = static_cast<std::ptrdiff_t>(at);
      switch (random() % 9) {
        case 0:
        case 1: list.push_back(x), model.push_back(x); break;
        case 2: list.insert(list.begin() + at, x), model.insert(model.begin() + place, x); break;
        case 3: {
          const std::vector<T> some(random() % 4, x);
          list.insert(list.begin() + at, some.begin(), some.end());
          model.insert(model.begin() + place, some.begin(), some.end());
          break;
        }
        case 4:
          if (at == model.size()) break;
          list.erase(list.begin() + at), model.erase(model.begin() + place);
          break;
        case 5:
          list.erase(list.begin() + at, list.end());
          model.erase(model.begin() + place, model.end());
          break;
        case 6: list.resize(at + 1, x), model.resize(at + 1, x); break;
        case 7:
          if (model.empty()) break;
          list.pop_back(), model.pop_back();
          break;
        default: list.assign(at, x), model.assign(at, x); break;
      }
      ASSERT_EQ(std::vector<T>(list.begin(), list.end()), model)
          << "run " << run << ", step " << step;
    }
  }
}
TEST(InlineVector, BehavesAsAVector) {
  behaves_as_vector<Strings>([](int i) { return kLong + std::to_string(i); });
  behaves_as_vector<Numbers>([](int i) { return std::int64_t{i}; });
}

// Each element is destroyed once: the last owner of a pointer is the test.
TEST(InlineVector, DestroysItsElements) {
  const auto counted = std::make_shared<int>(1);
  {
    InlineVector<std::shared_ptr<int>, 2> list(5, counted), inside(2, counted);
    list.erase(list.begin() + 1);
    inside = std::move(list);
    list = InlineVector<std::shared_ptr<int>, 2>(1, counted);
    EXPECT_EQ(counted.use_count(), 6);
  }
  EXPECT_EQ(counted.use_count(), 1);
}

}  // namespace
