// Branches and loops as functions of functions: compiled as branches and loops, and transformed as
// everything else is. What the bodies capture from around them, traced values included, is passed in.
//
//   auto [h, ys] = tl::scan([&](Array h, Array x) {
//     h = tl::tanh(tl::matmul(x, wx) + tl::matmul(h, wh));
//     return std::pair{h, h};
//   }, h0, xs);
//   Array y = tl::cond(x > 0, [](Array x) { return tl::sqrt(x); }, [](Array x) { return -x; }, x);
//   Array z = tl::while_loop([](Array x) { return x < 100; }, [](Array x) { return 2 * x; }, 1.0);
//
// Carries, rows and results are pytrees. Bodies are traced, not run: C++ effects in them happen once.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "telamon/detail/call.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/indexing.hpp"
#include "telamon/none.hpp"
#include "telamon/numpy.hpp"
#include "telamon/vmap.hpp"

namespace telamon {
inline namespace v1 {

struct ScanOptions {
  std::optional<std::int64_t> length = {};  ///< needed where there is nothing to scan over
  bool reverse = false;                     ///< last row first; ys keep the order of the rows
  std::int64_t unroll = 1;                  ///< a hint: steps per turn of the compiled loop
};
struct WhileOptions {
  /// The loop ends after so many steps at the latest, each example of a batch for itself. With it
  /// the loop can be differentiated in reverse mode under jit too: its residuals have a bounded size.
  std::optional<std::int64_t> max_steps = {};
  /// With max_steps = N: reverse mode keeps the carry of every sqrt(N)-th step only, and takes the
  /// steps between once more. About 2 sqrt(N) residuals instead of N, for one more pass of the loop.
  bool checkpoint = false;
};
struct ForiOptions {
  std::int64_t unroll = 1;
};
struct MapOptions {
  std::optional<std::int64_t> batch_size = {};  ///< so many rows at a time, by vmap
};
struct AssociativeScanOptions {
  bool reverse = false;
  int axis = 0;
};

namespace detail {

/// Applies a function of trees to flat leaves. `structure` describes the carry that the last call
/// returned, or a branch's whole result.
struct TracedBody {
  FlatFunction f;
  Function<TreeDef()> structure;
};
/// scan: `body` maps the leaves of carry and row to those of carry and y. Gives carry and ys.
TELAMON_API Arrays scan_arrays(const TracedBody& body, const TreeDef& carry,
                               std::span<const Array> init, std::span<const Array> xs,
                               const ScanOptions& options);
TELAMON_API Arrays while_arrays(const TracedBody& condition, const TracedBody& body,
                                const TreeDef& carry, std::span<const Array> init,
                                const WhileOptions& options);
TELAMON_API Arrays fori_arrays(const Array& lower, const Array& upper, const TracedBody& body,
                               const TreeDef& carry, std::span<const Array> init,
                               const ForiOptions& options);
/// `index` is a predicate for cond (branches: false, true), an index to be clamped for switch_.
TELAMON_API Arrays cond_arrays(bool is_switch, const Array& index,
                               std::span<const TracedBody> branches,
                               std::span<const Array> operands);
/// `combine` maps the leaves of two trees to those of one.
TELAMON_API Arrays associative_scan_arrays(const FlatFunction& combine, Arrays elems,
                                           const AssociativeScanOptions& options);
TELAMON_API std::int64_t leading_size(const char* what, std::span<const Array> xs);

template <class T>
constexpr bool is_none = std::is_same_v<std::remove_cvref_t<T>, std::nullopt_t>;

template <class T>
constexpr bool holds_two = false;
template <class A, class B>
constexpr bool holds_two<std::pair<A, B>> = true;
template <class A, class B>
constexpr bool holds_two<std::tuple<A, B>> = true;

/// The leaves of a tree; `tl::none` has none.
template <class T>
void flatten_part(const T& t, Arrays& out, const char* what) {
  if constexpr (!is_none<T>) flatten_into(t, out, what);
}
template <class T>
std::size_t count_leaves(const T& t) {
  CountVisitor count;
  walk_tree(t, count);
  return count.leaves;
}

/// A function of one tree, called with leaves; the structure and a prototype of its result stay.
template <class F, class Args>
class BodyCall {
 public:
  using Result = ReturnedBy<F, Args>;

  BodyCall(F& f, const Args& args, const char* what) : f_(f), args_(args), what_(what) {
    if (is_null_function(f)) null_function_error();
    static_assert(Pytree<Result>,
                  "a branch or a loop body must return a pytree: an Array, a container of these, "
                  "or an aggregate struct");
  }
  Arrays operator()(std::span<const Array> leaves) {
    Args args = with_leaves(args_, leaves);
    Result result = returned_by(f_, args);
    Arrays outs;
    flatten_into(result, outs, what_);
    prototype_.emplace(without_leaves(std::move(result)));
    return outs;
  }
  TracedBody body() {
    return {[this](std::span<const Array> leaves) { return (*this)(leaves); },
            [this] { return tree_structure(*prototype_); }};
  }
  Result result(std::span<const Array> leaves) const { return with_leaves(*prototype_, leaves); }

 private:
  F& f_;
  const Args& args_;
  const char* what_;
  std::optional<Result> prototype_;
};

/// The body of a scan: a function of carry and row (or of the carry alone) to a pair.
template <class F, class Args>
class ScanCall {
 public:
  using Result =
      std::remove_cvref_t<decltype(std::apply(std::declval<F&>(), std::declval<Args&>()))>;
  static_assert(holds_two<Result>,
                "the body of scan must return a pair: the carry, and what is "
                "stacked, which may be tl::none");
  using Carry = std::tuple_element_t<0, Result>;
  using Y = std::tuple_element_t<1, Result>;
  static_assert(Pytree<Carry> && (is_none<Y> || Pytree<Y>),
                "the body of scan must return a pair of pytrees: Arrays, containers of these, or "
                "aggregate structs");

  ScanCall(F& f, const Args& args) : f_(f), args_(args) {
    if (is_null_function(f)) null_function_error();
  }
  Arrays operator()(std::span<const Array> leaves) {
    Args args = with_leaves(args_, leaves);
    Result result = std::apply(f_, args);
    Arrays outs;
    flatten_into(std::get<0>(result), outs, "the carry of scan");
    flatten_part(std::get<1>(result), outs, "the second result of scan's body");
    carry_.emplace(without_leaves(std::move(std::get<0>(result))));
    if constexpr (!is_none<Y>) y_.emplace(without_leaves(std::move(std::get<1>(result))));
    return outs;
  }
  TracedBody body() {
    return {[this](std::span<const Array> leaves) { return (*this)(leaves); },
            [this] { return tree_structure(*carry_); }};
  }
  template <class C>
  std::pair<C, Y> result(const C& init, std::span<const Array> leaves) const {
    const std::size_t n = count_leaves(init);
    if constexpr (is_none<Y>) return {with_leaves(init, leaves.first(n)), none};
    else return {with_leaves(init, leaves.first(n)), with_leaves(*y_, leaves.subspan(n))};
  }

 private:
  F& f_;
  const Args& args_;
  std::optional<Carry> carry_;
  std::optional<std::conditional_t<is_none<Y>, int, Y>> y_;
};

/// The first parameter of a loop's body decides the type of the carry.
template <class F, class C>
using carry_of = std::tuple_element_t<0, bound_arguments<F, C>>;

}  // namespace detail

/// Applies f(carry, x) -> (carry, y) to one row of xs after the other; gives the final carry and the
/// stacked ys.
///   carry = init; for (i in rows) (carry, ys[i]) = f(carry, xs[i])
/// xs may be tl::none (then f takes the carry alone and `.length` says how often), and so may y. The
/// carry keeps its structure, shapes and dtypes: a TypeError names the leaf that does not.
template <class F, class C, class X>
auto scan(F f, const C& init, const X& xs, ScanOptions options = {},
          SourceLocation where = SourceLocation::current()) {
  return detail::in_call("scan", where, [&] {
    const auto args = [&] {
      if constexpr (detail::is_none<X>) return bind_args<F>(init);
      else return bind_args<F>(init, xs);
    }();
    Arrays carry, rows;
    detail::flatten_into(std::get<0>(args), carry, "scan", "init");
    if constexpr (!detail::is_none<X>) detail::flatten_into(std::get<1>(args), rows, "scan", "xs");
    detail::ScanCall call(f, args);
    const Arrays outs =
        detail::scan_arrays(call.body(), tree_structure(std::get<0>(args)), carry, rows, options);
    return call.result(std::get<0>(args), outs);
  });
}

/// Repeats carry = body(carry) as long as condition(carry) holds.
template <class Condition, class Body, class C>
auto while_loop(Condition condition, Body body, const C& init, WhileOptions options = {},
                SourceLocation where = SourceLocation::current()) {
  return detail::in_call("while_loop", where, [&] {
    const auto args = bind_args<Body>(init);
    const auto tested = bind_args<Condition>(init);
    Arrays leaves;
    detail::flatten_into(std::get<0>(args), leaves, "while_loop", "init");
    detail::BodyCall test(condition, tested, "the condition of while_loop");
    detail::BodyCall step(body, args, "the body of while_loop");
    const Arrays outs = detail::while_arrays(test.body(), step.body(),
                                             tree_structure(std::get<0>(args)), leaves, options);
    return detail::with_leaves(std::get<0>(args), outs);
  });
}

/// for (i = lower; i < upper; ++i) carry = body(i, carry). With bounds that are numbers (or arrays
/// whose value is known) it is a scan, else a while loop.
template <class Body, class C>
auto fori_loop(const Operand& lower, const Operand& upper, Body body, const C& init,
               ForiOptions options = {}) {
  return detail::in_call("fori_loop", lower.where, [&] {
    const auto args = bind_args<Body>(lower.array, init);
    Arrays leaves;
    detail::flatten_into(std::get<1>(args), leaves, "fori_loop", "init");
    detail::BodyCall step(body, args, "the body of fori_loop");
    const Arrays outs = detail::fori_arrays(lower.array, upper.array, step.body(),
                                            tree_structure(std::get<1>(args)), leaves, options);
    return detail::with_leaves(std::get<1>(args), outs);
  });
}

/// on_true(operands...) if `pred` (a scalar; numbers are true unless 0), else on_false(operands...).
/// Both are traced and must give trees of one structure, shapes and dtypes. Only one of them runs,
/// unless vmap maps the predicate.
template <class True, class False, class... X>
auto cond(const Operand& pred, True on_true, False on_false, const X&... operands) {
  return detail::in_call("cond", pred.where, [&] {
    const auto true_args = bind_args<True>(operands...);
    const auto false_args = bind_args<False>(operands...);
    Arrays leaves, other_leaves;
    detail::flatten_into(true_args, leaves, "cond", "operands");
    detail::flatten_into(false_args, other_leaves, "cond", "operands");
    if (leaves.size() != other_leaves.size())
      throw TypeError("cond: one branch takes a number as an Array that the other takes as it is");
    detail::BodyCall true_call(on_true, true_args, "a branch of cond");
    detail::BodyCall false_call(on_false, false_args, "a branch of cond");
    const detail::TracedBody branches[] = {false_call.body(), true_call.body()};
    return true_call.result(detail::cond_arrays(false, pred.array, branches, leaves));
  });
}

/// Applies branch number `index`, clamped to those there are. `branches` is a std::tuple of
/// functions, or a std::vector or std::array of functions of one type.
template <class Branches, class... X>
auto switch_(const Operand& index, Branches branches, const X&... operands) {
  return detail::in_call("switch_", index.where, [&] {
    if constexpr (requires { branches.begin(); }) {
      using F = std::remove_cvref_t<decltype(*branches.begin())>;
      const auto args = bind_args<F>(operands...);
      Arrays leaves;
      detail::flatten_into(args, leaves, "switch_", "operands");
      using Call = detail::BodyCall<F, std::remove_cvref_t<decltype(args)>>;
      std::vector<Call> calls;
      calls.reserve(branches.size());
      std::vector<detail::TracedBody> bodies;
      for (F& f : branches)
        bodies.push_back(calls.emplace_back(f, args, "a branch of switch_").body());
      const Arrays outs = detail::cond_arrays(true, index.array, bodies, leaves);
      return calls.front().result(outs);
    } else {
      return std::apply(
          [&]<class... F>(F&... f) {
            const auto all_args =
                std::make_tuple(bind_args<F>(operands...)...);  // a tuple of tuples
            Arrays leaves;
            detail::flatten_into(std::get<0>(all_args), leaves, "switch_", "operands");
            return std::apply(
                [&](const auto&... args) {
                  std::tuple<detail::BodyCall<F, std::remove_cvref_t<decltype(args)>>...> calls{
                      {f, args, "a branch of switch_"}...};
                  const std::array bodies =
                      std::apply([](auto&... call) { return std::array{call.body()...}; }, calls);
                  const Arrays outs = detail::cond_arrays(true, index.array, bodies, leaves);
                  return std::get<0>(calls).result(outs);
                },
                all_args);
          },
          branches);
    }
  });
}

/// f applied to each row of xs, one after the other; the results are stacked. With `.batch_size`, so
/// many rows at a time.
template <class F, class X>
auto map(F f, const X& xs, MapOptions options = {},
         SourceLocation where = SourceLocation::current()) {
  return detail::in_call("map", where, [&] {
    if (detail::is_null_function(f)) detail::null_function_error();
    using Row = std::tuple_element_t<0, bound_arguments<F, X>>;
    const Row rows = std::get<0>(bind_args<F>(xs));
    Arrays leaves;
    detail::flatten_into(rows, leaves, "map", "xs");
    const auto steps = [&](auto g, const Row& over) {
      const auto step = [&](std::vector<Array> unit, const Row& x) {
        auto y = g(x);
        detail::check_no_empty_leaf(y, "the function of map");
        return std::pair{std::move(unit), std::move(y)};
      };
      return scan(step, std::vector<Array>(), over).second;
    };
    const std::int64_t n = detail::leading_size("map", leaves);
    const std::int64_t size = options.batch_size.value_or(0);
    if (options.batch_size && size < 1)
      throw ValueError("map: batch_size must be positive, got " + std::to_string(size));
    if (!options.batch_size) return steps([&](const Row& x) { return f(x); }, rows);
    const auto batched = vmap([&](const Row& x) { return f(x); });
    if (n <= size) return batched(rows);
    const std::int64_t full = n / size;
    const auto in_batches = [&](const Array& x) {
      Shape shape = x.shape();
      shape[0] = size;
      shape.insert(0, full);
      return x(telamon::slice(0, full * size)).reshape(shape);
    };
    const auto flat = [&](const Array& y) {
      Shape shape = y.shape();
      shape.erase(0);
      shape[0] = full * size;
      return y.reshape(shape);
    };
    auto ys =
        tree_map(flat, steps([&](const Row& x) { return batched(x); }, tree_map(in_batches, rows)));
    if (full * size == n) return ys;
    const auto rest = batched(
        tree_map([&](const Array& x) { return x(telamon::slice(full * size, none)); }, rows));
    return tree_map([](const Array& a, const Array& b) { return concatenate({a, b}); }, ys, rest);
  });
}

/// The prefixes of elems under an associative f, in logarithmic depth:
///   result[i] = f(f(elems[0], elems[1]), ... elems[i])
/// f works on whole trees of rows at once, so it must act row by row (as operators do).
template <class F, class E>
auto associative_scan(F f, const E& elems, AssociativeScanOptions options = {},
                      SourceLocation where = SourceLocation::current()) {
  return detail::in_call("associative_scan", where, [&] {
    const auto args = bind_args<F>(elems, elems);
    const auto& tree = std::get<0>(args);
    Arrays leaves;
    detail::flatten_into(tree, leaves, "associative_scan", "elems");
    detail::BodyCall call(f, args, "the function of associative_scan");
    const auto combine = [&](std::span<const Array> both) { return call(both); };
    return detail::with_leaves(
        tree, detail::associative_scan_arrays(combine, std::move(leaves), options));
  });
}

}  // namespace v1
}  // namespace telamon
