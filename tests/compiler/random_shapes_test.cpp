// Random programs of what moves elements and adds them up: changes of shape and order, parts with and without steps,
// columns that are computed and put side by side, paddings, folds, products, reads and writes at places, loops and
// branches; over shapes of long and of very short axes, of numbers of several types; plain, mapped, differentiated, donated
// to, and without one of the optimisations. Numbers are whole and stay small, so that no sum rounds, in whatever order
// it is taken: what is compiled gives the numbers of eager programs, and no others (but for derivatives of extremes that
// several elements share). A program that fails is made shorter as long as it does, and printed.
#include <algorithm>
#include <optional>
#include <random>

#include "core/environment.hpp"
#include "support.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {
namespace {

/// Numbers and the largest that any of them may be.
struct Value {
  Array x;
  double bound;
};

/// How a program is run.
struct Way {
  bool mapped, differentiated;
};

class RandomShapes {
 public:
  /// A step draws from a generator of its own, so that those that are left out change no other's draws.
  struct Step {
    unsigned seed;
    bool left_out = false;
  };

  RandomShapes(unsigned seed, Way way) : is_differentiated_(way.differentiated) {
    random_.seed(seed);
    // A few are larger than the second cache.
    if (below(30) == 0) most_ = 1'500'000;
    dtype_ = kTypes[below(is_differentiated_ ? 3 : 4)];
    const Shape first = some_shape();
    inputs_.push_back(whole(first, seed));
    inputs_.push_back(whole(below(2) == 0 ? first : some_shape(), seed + 1));
    const std::size_t steps = 3 + below(10);
    for (std::size_t i = 0; i < steps; ++i) steps_.push_back({static_cast<unsigned>(random_())});
    results_ = 1 + below(3);
  }

  const Arrays& inputs() const { return inputs_; }
  std::vector<Step>& steps() { return steps_; }

  /// The same steps each time it is called anew, whatever the numbers are.
  Arrays operator()(std::span<const Array> in) {
    values_.clear();
    for (const Array& x : in) values_.push_back({x, 3});
    for (const Step& step : steps_) {
      if (step.left_out) continue;
      random_.seed(step.seed);
      Value made = value();
      if (made.x.size() <= most_) values_.push_back(std::move(made));
    }
    Arrays results;
    for (std::size_t i = 0; i < results_; ++i) {
      results.push_back(values_[values_.size() - 1 - std::min(2 * i, values_.size() - 1)].x);
    }
    return results;
  }

 private:
  static constexpr DType kTypes[] = {DType::f32, DType::f32, DType::f64, DType::i32};
  static constexpr DType kOthers[] = {DType::f32, DType::f64, DType::i8,  DType::i32,
                                      DType::i64, DType::f16, DType::bf16};
  static constexpr std::int64_t kShort[] = {1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17};
  static constexpr std::int64_t kLong[] = {18, 24, 33, 64, 65, 100, 130, 300, 1030};

  bool is_large() const { return most_ > 30'000; }
  std::size_t below(std::size_t n) { return random_() % n; }
  std::int64_t less(std::int64_t n) {
    return static_cast<std::int64_t>(below(static_cast<std::size_t>(n)));
  }
  template <class T, std::size_t n> T pick(const T (&all)[n]) { return all[below(n)]; }
  const Value& any() {
    return values_[values_.size() - 1 - below(std::min<std::size_t>(3, values_.size()))];
  }
  const Value& other() { return values_[below(values_.size())]; }

  Shape some_shape() {
    Shape shape;
    const std::size_t rank = 1 + below(4), long_axis = below(3) == 0 ? below(rank) : 0;
    for (std::size_t d = 0; d < rank; ++d)
      shape.push_back(d == long_axis ? pick(kLong) * (is_large() ? 1 + less(40) : 1)
                                     : pick(kShort));
    return shape.num_elements() > most_ ? Shape{18, pick(kShort)} : shape;
  }
  Array whole(const Shape& shape, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<double> numbers(static_cast<std::size_t>(shape.num_elements()));
    for (double& v : numbers) v = static_cast<double>(random() % 7) - 3;
    return lax::convert_element_type(Array(numbers, shape), dtype_);
  }
  static std::size_t rank(const Array& x) { return static_cast<std::size_t>(x.ndim()); }
  std::int64_t axis_of(const Array& x) { return less(x.ndim()); }

  /// The value, or its numbers cut off where `bound` is more than is exact.
  static Value small(const Value& v, double bound) {
    return bound < most_exact(v.x.dtype()) ? v : cut(v);
  }
  static Value cut(const Value& v) {
    return {lax::clamp(number(-3, v.x.dtype()), v.x, number(3, v.x.dtype())), 3};
  }
  static double most_exact(DType dtype) {
    switch (dtype) {
      case DType::f64: return 0x1p45;
      case DType::f32: return 0x1p22;
      case DType::f16: return 0x1p9;
      case DType::bf16: return 0x1p6;
      default: return 0x1p1000;  // integers wrap
    }
  }
  static Array number(double v, DType dtype) { return lax::full({}, dtype, v); }
  static Value as(const Value& v, DType dtype) {
    if (v.x.dtype() == dtype) return v;
    const double most = dtype == DType::i8 ? 100 : is_float(dtype) ? most_exact(dtype) : 0x1p30;
    const Value w = v.bound < most ? v : cut(v);
    return {lax::convert_element_type(w.x, dtype), w.bound};
  }

  Value value() {
    const Value& v = any();
    if (v.x.size() == 0)
      return {lax::pad(v.x, number(2, v.x.dtype()),
                       std::vector<std::array<std::int64_t, 3>>(rank(v.x), {1, 1, 0})),
              std::max(v.bound, 2.0)};
    switch (below(24)) {
      case 0: return {in_other_shape(v.x), v.bound};
      case 1: return {in_other_order(v.x), v.bound};
      case 2: return {part(v.x, true), v.bound};
      case 3: return {part(v.x, false), v.bound};
      case 4:
      case 5: return columns(v);
      case 6: return side_by_side(v);
      case 7: return padded(v);
      case 8: return repeated(v);
      case 9:
      case 10: return folded(v);
      case 11: return product(v);
      case 12: return outer(v);
      case 13: return at_places(v);
      case 14: return chosen(v);
      case 15: return moved(v);
      case 16: return as(v, below(2) == 0 ? dtype_ : kOthers[below(is_differentiated_ ? 5 : 7)]);
      case 17: return looped(v);
      case 18: return counted(v);
      case 19: return branched(v);
      default: return together(v);
    }
  }

  Array in_other_shape(const Array& x) {
    Shape shape = x.shape();
    const std::size_t kind = below(4);
    if (kind == 0 && shape.size() > 1) {  // two axes become one
      const std::size_t d = below(shape.size() - 1);
      shape[d] *= shape[d + 1];
      shape.erase(d + 1);
    } else if (kind == 1 && !shape.empty()) {  // one becomes two
      const std::size_t d = below(shape.size());
      std::vector<std::int64_t> divisors;
      for (std::int64_t k = 1; k <= shape[d]; ++k) {
        if (shape[d] % k == 0) divisors.push_back(k);
      }
      const std::int64_t k = divisors[below(divisors.size())];
      shape[d] /= k;
      shape.insert(d + below(2), k);
    } else if (kind == 2 && shape.size() < 5) {
      shape.insert(below(shape.size() + 1), 1);
    } else {
      std::int64_t n = x.size();
      shape = {};
      for (std::int64_t k : {pick(kShort), pick(kShort)}) {
        if (n % k == 0) {
          shape.push_back(k);
          n /= k;
        }
      }
      shape.insert(below(shape.size() + 1), n);
    }
    return lax::reshape(x, shape);
  }
  Array in_other_order(const Array& x) {
    if (x.ndim() == 0) return x;
    if (below(4) == 0) return lax::rev(x, {axis_of(x)});
    Shape order;
    for (std::int64_t d = 0; d < x.ndim(); ++d) order.push_back(d);
    std::shuffle(order.begin(), order.end(), random_);
    return lax::transpose(x, order);
  }
  Array part(const Array& x, bool of_all_axes) {
    if (x.ndim() == 0) return x;
    Shape from(rank(x), 0), to = x.shape(), steps(rank(x), 1);
    const std::size_t one = below(rank(x));
    for (std::size_t d = 0; d < rank(x); ++d) {
      if (of_all_axes ? below(3) == 0 : d != one) continue;
      from[d] = below(2) == 0 ? 0 : less(to[d]);
      to[d] = below(2) == 0 ? to[d] : from[d] + 1 + less(to[d] - from[d]);
      if (below(3) == 0) steps[d] = 1 + less(3);
    }
    return lax::slice(x, from, to, steps);
  }
  /// Columns of one value or several, computed with each other and put side by side, or above each other.
  Value columns(const Value& v) {
    if (v.x.ndim() == 0) return v;
    const std::int64_t axis = below(3) == 0 ? axis_of(v.x) : v.x.ndim() - 1, n = v.x.shape(axis);
    std::vector<Value> made;
    const std::size_t count = 1 + below(below(4) == 0 ? 16 : 4);
    for (std::size_t i = 0; i < count; ++i) {
      Value c{lax::index_in_dim(v.x, less(n), axis), v.bound};
      if (below(3) != 0) {
        const Value d{lax::index_in_dim(v.x, less(n), axis), v.bound};
        c = arithmetic(c, d);
      }
      if (below(4) == 0) c = {lax::full_like(c.x, static_cast<double>(less(3))), 3};
      if (!made.empty() && below(3) == 0) c = arithmetic(made[below(made.size())], c);
      made.push_back(c);
    }
    Arrays all;
    double bound = 0;
    for (const Value& m : made) {
      all.push_back(m.x);
      bound = std::max(bound, m.bound);
    }
    const std::int64_t to = below(3) == 0 ? less(all[0].ndim() + 1) : all[0].ndim();
    return {lax::stack(all, to), bound};
  }
  Value side_by_side(const Value& v) {
    if (v.x.ndim() == 0) return v;
    const std::int64_t axis = axis_of(v.x);
    Arrays parts;
    double bound = v.bound;
    for (std::size_t more = 1 + below(4); more > 0; --more) {
      const Value w = below(2) == 0 ? as(other(), v.x.dtype()) : v;
      const Array x = fits(w.x, v.x, axis) ? w.x : v.x;
      bound = std::max(bound, w.bound);
      const std::int64_t from = below(2) * less(x.shape(axis)),
                         to = from + 1 + less(x.shape(axis) - from);
      parts.push_back(below(3) == 0 ? x : lax::slice_in_dim(x, from, to, 1, axis));
    }
    return {lax::concatenate(parts, axis), bound};
  }
  static bool fits(const Array& a, const Array& b, std::int64_t but_for) {
    if (a.ndim() != b.ndim()) return false;
    for (std::int64_t d = 0; d < a.ndim(); ++d) {
      if (d != but_for && a.shape(d) != b.shape(d)) return false;
    }
    return a.shape(but_for) > 0;
  }
  Value padded(const Value& v) {
    std::vector<std::array<std::int64_t, 3>> config(rank(v.x));
    for (std::size_t d = 0; d < rank(v.x); ++d) {
      if (below(2) == 0) continue;
      const std::int64_t n = v.x.shape(static_cast<std::int64_t>(d)),
                         interior = below(3) == 0 ? 1 + less(2) : 0;
      const std::int64_t spread = n + (n - 1) * interior;
      config[d] = {less(5) - 1, less(5) - 1, interior};
      if (config[d][0] + config[d][1] + spread < 1) config[d][1] = 1;
    }
    return {lax::pad(v.x, number(static_cast<double>(less(2)), v.x.dtype()), config),
            std::max(v.bound, 1.0)};
  }
  Value repeated(const Value& v) {
    Shape shape = v.x.shape(), from;
    const std::size_t at = below(shape.size() + 1);
    for (std::size_t d = 0; d < shape.size(); ++d)
      from.push_back(static_cast<std::int64_t>(d < at ? d : d + 1));
    if (shape.size() > 4) return v;
    shape.insert(at, pick(kShort));
    if (shape.num_elements() > most_) return v;
    return {lax::broadcast_in_dim(v.x, shape, from), v.bound};
  }
  Value folded(Value v) {
    if (v.x.ndim() == 0) return v;
    Shape axes;
    for (std::int64_t d = 0; d < v.x.ndim(); ++d) {
      if (below(2) == 0) axes.push_back(d);
    }
    if (axes.empty()) axes.push_back(axis_of(v.x));
    const std::int64_t axis = axes[0];
    const auto most = static_cast<double>(v.x.size());
    switch (below(8)) {
      case 0: return {lax::reduce_max(v.x, axes), v.bound};
      case 1: return {lax::reduce_min(v.x, axes), v.bound};
      case 2: {
        const Array places =
            below(2) == 0 ? lax::argmax(v.x, axis, DType::i32) : lax::argmin(v.x, axis, DType::i32);
        return as({places, static_cast<double>(v.x.shape(axis))}, v.x.dtype());
      }
      case 3:
        v = small(v, v.bound * most);
        return {lax::cumsum(v.x, axis, below(2) == 0), v.bound * most};
      case 4: return {lax::cummax(v.x, axis, below(2) == 0), v.bound};
      case 5: {
        v = small(v, v.bound * most);
        const Array sums = lax::reduce_sum(v.x, axes);
        return {lax::expand_dims(sums, axes), v.bound * most};
      }
      default: v = small(v, v.bound * most); return {lax::reduce_sum(v.x, axes), v.bound * most};
    }
  }
  /// Of axes that have the same length, some of which both keep.
  Value product(Value v) {
    Value w = as(other(), v.x.dtype());
    DotDimensionNumbers dims;
    std::vector<bool> taken(rank(w.x));
    std::int64_t terms = 1, size = 1;
    for (std::int64_t i = 0; i < v.x.ndim(); ++i) {
      bool found = false;
      for (std::int64_t k = 0; k < w.x.ndim() && !found; ++k) {
        const std::int64_t j = (k + i) % w.x.ndim();
        if (taken[static_cast<std::size_t>(j)] || v.x.shape(i) != w.x.shape(j) || below(4) == 0)
          continue;
        taken[static_cast<std::size_t>(j)] = found = true;
        if (below(3) == 0) {
          dims.lhs_batch.push_back(i);
          dims.rhs_batch.push_back(j);
          size *= v.x.shape(i);
        } else {
          dims.lhs_contracting.push_back(i);
          dims.rhs_contracting.push_back(j);
          terms *= v.x.shape(i);
        }
      }
      if (!found) size *= v.x.shape(i);
    }
    for (std::int64_t j = 0; j < w.x.ndim(); ++j) {
      if (!taken[static_cast<std::size_t>(j)]) size *= w.x.shape(j);
    }
    if (size > most_ || size * terms > 100 * most_) return v;
    const double sum = v.bound * w.bound * static_cast<double>(terms);
    v = small(v, sum);
    w = small(w, sum);
    return {lax::dot_general(v.x, w.x, dims), v.bound * w.bound * static_cast<double>(terms)};
  }
  Value outer(const Value& v) {
    const Value w = as(other(), v.x.dtype());
    if (v.x.ndim() == 0 || v.x.ndim() > 3) return v;
    // a[..., i] b[..., j], or all of each with all of the other.
    const bool alike = w.x.shape() == v.x.shape();
    if (!alike && w.x.ndim() > 1) return v;
    Shape shape = v.x.shape(), left, right;
    for (std::int64_t d = 0; d < v.x.ndim(); ++d) left.push_back(d);
    if (alike) {
      right = left;
      right[right.size() - 1] = v.x.ndim();
      shape.push_back(w.x.shape(w.x.ndim() - 1));
    } else {
      for (std::int64_t d = 0; d < w.x.ndim(); ++d) {
        right.push_back(v.x.ndim() + d);
        shape.push_back(w.x.shape(d));
      }
    }
    if (shape.num_elements() > most_) return v;
    return arithmetic({lax::broadcast_in_dim(v.x, shape, left), v.bound},
                      {lax::broadcast_in_dim(w.x, shape, right), w.bound});
  }
  /// Reads and writes at places that are counted, or are numbers of a value.
  Value at_places(const Value& v) {
    if (v.x.ndim() == 0) return v;
    const std::int64_t axis = axis_of(v.x), n = v.x.shape(axis);
    if (below(3) == 0) {
      const Array start = below(2) == 0
                              ? lax::full({}, DType::i32, static_cast<double>(less(n + 2) - 1))
                              : a_place();
      const std::int64_t size = 1 + less(n);
      const Array found = lax::dynamic_slice_in_dim(v.x, start, size, axis);
      if (below(2) == 0) return {found, v.bound};
      return {lax::dynamic_update_slice_in_dim(v.x, in_place(found), start, axis), v.bound};
    }
    Array places = lax::iota(DType::i32, {pick(kShort)}, 0);
    if (below(2) == 0) places = lax::rev(places, {0});
    if (below(2) == 0)
      places = places * static_cast<int>(1 + less(3)) + static_cast<int>(less(4) - 2);
    if (below(2) == 0) places = places + lax::broadcast_in_dim(a_place(), places.shape(), {});
    places = lax::clamp(lax::full({}, DType::i32, 0), places,
                        lax::full({}, DType::i32, static_cast<double>(n - 1)));
    const Array found = take(v.x, places, axis);
    if (below(2) == 0 || axis != 0) return {found, v.bound};
    const Value sum = small(v, v.bound * 20);
    const Array more = take(sum.x, places, axis);
    return below(2) == 0 ? Value{sum.x.at(places).add(more), sum.bound * 20}
                         : Value{sum.x.at(places).multiply(number(1, sum.x.dtype())), sum.bound};
  }
  Array a_place() {
    const Array& x = other().x;
    if (x.size() == 0) return lax::full({}, DType::i32, 1);
    const Array flat = lax::reshape(x, {x.size()});
    return lax::convert_element_type(lax::index_in_dim(flat, less(x.size()), 0), DType::i32);
  }
  Array in_place(const Array& x) { return below(2) == 0 ? x : lax::rev(x, {axis_of(x)}); }
  Value chosen(const Value& v) {
    const Value w = with_shape(other(), v.x);
    if (v.x.ndim() == 0) return w;
    const Array places = lax::iota(DType::i32, v.x.shape(), axis_of(v.x));
    const auto at = static_cast<double>(less(6));
    Array which;
    switch (below(4)) {
      case 0: which = lax::lt(places, lax::full_like(places, at)); break;
      case 1: which = lax::eq(places, lax::iota(DType::i32, v.x.shape(), axis_of(v.x))); break;
      case 2:
        which = lax::eq(lax::rem(places, lax::full_like(places, 2)),
                        lax::full_like(places, at < 3 ? 0 : 1));
        break;
      default: which = lax::lt(v.x, w.x);
    }
    return {lax::select(which, v.x, w.x), std::max(v.bound, w.bound)};
  }
  Value moved(const Value& v) {
    if (v.x.ndim() == 0) return v;
    const std::int64_t axis = axis_of(v.x), n = v.x.shape(axis), by = less(n);
    if (below(4) == 0) return {lax::sort(v.x, axis), v.bound};
    const Array turned = lax::concatenate(
        Arrays{lax::slice_in_dim(v.x, by, n, 1, axis), lax::slice_in_dim(v.x, 0, by, 1, axis)},
        axis);
    if (below(2) == 0) return {turned, v.bound};
    return arithmetic({turned, v.bound}, v);
  }
  Value together(const Value& v) {
    return below(2) == 0 ? arithmetic(v, with_shape(other(), v.x))
                         : arithmetic(with_shape(other(), v.x), v);
  }

  // ---- loops and branches, of a few steps on what they are given and a value from outside

  Value steps(std::vector<Value> given, unsigned seed) {
    const std::mt19937 before = random_;
    random_.seed(seed);
    std::swap(values_, given);
    ++depth_;
    for (std::size_t n = 1 + below(3); n > 0; --n) {
      Value made = value();
      if (made.x.size() <= most_ / 10) values_.push_back(std::move(made));
    }
    Value last = values_.back();
    --depth_;
    std::swap(values_, given);
    random_ = before;
    return last;
  }
  Value looped(const Value& v) {
    if (v.x.ndim() == 0 || v.x.shape(0) > 70 || depth_ > 1) return v;
    const auto seed = static_cast<unsigned>(random_());
    const bool reverse = below(2) == 0;
    const Value w = other(), init = cut({lax::index_in_dim(v.x, 0), v.bound});
    double bound = 0;
    const auto step = [&](Array carry, Array row) {
      const Value made = steps({{carry, 3}, w, {row, v.bound}}, seed);
      bound = made.bound;
      return std::pair(cut(with_shape(made, carry)).x, made.x);
    };
    const auto [carry, rows] = scan(step, init.x, v.x, {.reverse = reverse});
    if (below(3) == 0 || rows.size() > most_) return {carry, 3};
    return {rows, bound};
  }
  Value counted(const Value& v) {
    if (depth_ > 1 || v.x.size() > most_ / 10) return v;
    const auto seed = static_cast<unsigned>(random_());
    const std::int64_t trips = less(6);
    const Value w = other();
    const auto step = [&](Array i, Array carry) {
      return cut(with_shape(steps({{i, 6}, w, {carry, 3}}, seed), carry)).x;
    };
    return {fori_loop(0, trips, step, cut(v).x), 3};
  }
  Value branched(const Value& v) {
    if (depth_ > 1) return v;
    const auto one = static_cast<unsigned>(random_()), two = static_cast<unsigned>(random_());
    const Value w = other();
    const auto branch = [&](unsigned seed) {
      return [&, seed](Array x) { return cut(with_shape(steps({w, {x, v.bound}}, seed), x)).x; };
    };
    return {cond(lax::lt(a_place(), 1), branch(one), branch(two), v.x), 3};
  }

  /// v, repeated or folded so that it has the shape of `like`: axes from behind that are as long.
  static Value with_shape(const Value& of, const Array& like) {
    Value v = as(of, like.dtype());
    const std::int64_t less_axes = v.x.ndim() - like.ndim();
    Shape away;
    for (std::int64_t d = 0; d < v.x.ndim(); ++d) {
      if (d < less_axes || (v.x.shape(d) != like.shape(d - less_axes))) away.push_back(d);
    }
    Shape kept;
    for (std::int64_t d = 0; d < v.x.ndim(); ++d) {
      if (std::find(away.begin(), away.end(), d) == away.end()) kept.push_back(d - less_axes);
    }
    if (!away.empty())
      v.x = v.x.size() == 0 ? lax::reduce_sum(v.x, away) : lax::reduce_max(v.x, away);
    return {lax::broadcast_in_dim(v.x, like.shape(), kept), v.bound};
  }
  Value arithmetic(Value a, Value b) {
    switch (below(8)) {
      case 0:
      case 1: {
        const double bound = a.bound * b.bound;
        a = small(a, bound);
        b = small(b, bound);
        return {lax::mul(a.x, b.x), a.bound * b.bound};
      }
      case 2: return {lax::max(a.x, b.x), std::max(a.bound, b.bound)};
      case 3:
        return {lax::select(lax::lt(a.x, b.x), b.x, lax::neg(a.x)), std::max(a.bound, b.bound)};
      case 4:
      case 5: {
        const double bound = a.bound + b.bound;
        a = small(a, bound);
        b = small(b, bound);
        return {lax::sub(a.x, b.x), a.bound + b.bound};
      }
      default: {
        const double bound = a.bound + b.bound;
        a = small(a, bound);
        b = small(b, bound);
        return {lax::add(a.x, b.x), a.bound + b.bound};
      }
    }
  }

  std::mt19937 random_;
  DType dtype_ = DType::f32;
  Arrays inputs_;
  std::vector<Step> steps_;
  std::size_t results_ = 1;
  std::int64_t most_ = 30'000;  // elements
  bool is_differentiated_;      // by numbers of more bits than small floats have
  int depth_ = 0;               // of loops and branches
  std::vector<Value> values_;
};

/// What is different: the first element of a result that is not what it should be.
std::optional<std::string> difference(const Arrays& got, const Arrays& want, bool is_exact) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::string result = "result " + std::to_string(i) + ": ";
    if (got[i].shape() != want[i].shape() || got[i].dtype() != want[i].dtype()) {
      return result + got[i].aval().to_string() + ", not " + want[i].aval().to_string();
    }
    const auto g = got[i].to_vector<double>(), w = want[i].to_vector<double>();
    double most = 1;
    for (const double x : w) most = std::max(most, std::abs(x));
    for (std::size_t k = 0; k < w.size(); ++k) {
      if (g[k] == w[k] || (std::isnan(g[k]) && std::isnan(w[k]))) continue;
      if (!is_exact && std::abs(g[k] - w[k]) <= 0.02 + 1e-4 * most) continue;
      return result + "element " + std::to_string(k) + " of " + want[i].aval().to_string() +
             " is " + std::to_string(g[k]) + ", not " + std::to_string(w[k]);
    }
  }
  return std::nullopt;
}

Arrays mapped_inputs(const Arrays& inputs, std::int64_t n) {
  Arrays all;
  for (const Array& x : inputs) {
    Arrays rows;
    for (std::int64_t i = 0; i < n; ++i) {
      rows.push_back(i == 0 ? x : lax::rev(i % 2 == 0 ? lax::neg(x) : x, {0}));
    }
    all.push_back(lax::stack(rows, 0));
  }
  return all;
}

Array taken(const Array& x, std::int64_t i) { return lax::index_in_dim(x, i); }

/// The derivatives of a sum of all results, each with a weight.
Program gradient(const Program& f) {
  return [f](std::span<const Array> in) {
    const auto scalar = [&](Array a, Array b) {
      Array total = lax::full({}, a.dtype(), 0);
      for (const Array& r : f(Arrays{a, b})) {
        const Array flat = lax::convert_element_type(lax::reshape(r, {r.size()}), a.dtype());
        const Array weights =
            lax::rem(lax::iota(a.dtype(), {r.size()}, 0), lax::full({r.size()}, a.dtype(), 5));
        total = total + lax::reduce_sum(flat * weights, {0});
      }
      return total;
    };
    const auto [da, db] = grad<0, 1>(scalar)(in[0], in[1]);
    return Arrays{da, db};
  };
}
Program batched(const Program& f) {
  return [f](std::span<const Array> in) {
    return vmap([&](Array a, Array b) { return f(Arrays{a, b}); })(in[0], in[1]);
  };
}

/// What a program gives that it should not give, with its text; nothing if it is right.
std::optional<std::string> failure_of(RandomShapes& program, Way way,
                                      const CompileOptions& options) {
  constexpr std::int64_t kRows = 3;
  Program f = [&](std::span<const Array> in) { return program(in); };
  if (way.differentiated) f = gradient(f);
  Arrays inputs = program.inputs(), want;
  if (way.mapped) {
    inputs = mapped_inputs(inputs, kRows);
    std::vector<Arrays> results;  // of each result, its rows
    for (std::int64_t i = 0; i < kRows; ++i) {
      const Arrays row = f(Arrays{taken(inputs[0], i), taken(inputs[1], i)});
      results.resize(row.size());
      for (std::size_t r = 0; r < row.size(); ++r) results[r].push_back(row[r]);
    }
    for (const Arrays& rows : results) want.push_back(lax::stack(rows, 0));
    f = batched(f);
  } else {
    want = f(inputs);
  }
  Jaxpr jaxpr;
  Compiled executable;
  std::optional<std::string> found;
  try {
    jaxpr = stage(f, inputs);
    executable = compile(jaxpr, options);
    // Derivatives of extremes are shared by all of them that are equal.
    found = difference(execute(executable, inputs), want, !way.differentiated);
    if (!found && options.donated) {
      const Arrays given = {lax::copy(inputs[0]), lax::copy(inputs[1])};
      found = difference(execute(executable, given, *options.donated), want, !way.differentiated);
      if (found) found = "donated: " + *found;
    }
  } catch (const std::exception& e) { found = e.what(); }
  if (!found) return std::nullopt;
  return *found + "\n" + jaxpr.to_string() + "\n" + (executable ? executable->text("plan") : "");
}

/// Some programs may take over what is given to them, and some go without one of the optimisations.
CompileOptions options_of(unsigned seed) {
  std::mt19937 random(seed);
  CompileOptions options;
  if (random() % 2 == 0) options.donated = {random() % 2 == 0, random() % 2 == 0};
  const auto words = detail::environment_words("TELAMON_DISABLE");
  if (random() % 4 == 0) options.disabled.emplace(words[random() % words.size()]);
  return options;
}

void check_programs(unsigned first, unsigned last) {
  for (unsigned seed = first; seed < last; ++seed) {
    const Way way{seed % 2 == 1, seed % 5 < 2};
    const CompileOptions options = options_of(seed);
    RandomShapes program(seed, way);
    std::optional<std::string> failure = failure_of(program, way, options);
    if (!failure) continue;
    for (bool shorter = true; shorter;) {
      shorter = false;
      for (RandomShapes::Step& step : program.steps()) {
        if (step.left_out) continue;
        step.left_out = true;
        const auto still = failure_of(program, way, options);
        if (still) {
          failure = still;
          shorter = true;
        } else {
          step.left_out = false;
        }
      }
    }
    ADD_FAILURE() << "seed " << seed
                  << (options.disabled.empty() ? "" : " without " + *options.disabled.begin())
                  << ": " << *failure;
    return;
  }
}

TEST(RandomShapes, AreCompiledRight) { check_programs(0, 120); }
TEST(RandomShapes, LONG_AreCompiledRight) { check_programs(120, 5000); }

}  // namespace
}  // namespace telamon::testing
