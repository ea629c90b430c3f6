// jvp, linearize, vjp and linear_transpose: derivatives at a point as linear maps.
#pragma once

#include <tuple>
#include <utility>

#include "telamon/detail/call.hpp"
#include "telamon/detail/located.hpp"
#include "telamon/detail/out_of_memory.hpp"

namespace telamon {
inline namespace v1 {

/// Pushes tangents forward: (f(x...), J(x...) dx...). Primals and tangents are tuples of arguments
/// of the same structure, shapes and dtypes; a tangent of an integer leaf may be an empty Array.
///   auto [y, dy] = tl::jvp(f, std::tuple{x}, std::tuple{dx});
template <class F, class... X, class... DX>
auto jvp(F f, const std::tuple<X...>& primals, const std::tuple<DX...>& tangents,
         SourceLocation where = SourceLocation::current()) {
  return detail::in_transform("jvp", where, [&] {
    static_assert(sizeof...(X) == sizeof...(DX), "jvp: give as many tangents as primals");
    const auto bind = [](const auto&... a) { return bind_args<F>(a...); };
    const auto args = std::apply(bind, primals);
    const auto dargs = std::apply(bind, tangents);
    detail::check_same_structure("jvp", args, dargs);
    Arrays x;
    detail::flatten_into(args, x, "jvp", "args");
    detail::TreeCall call(f, args);
    const detail::PushedForward out = detail::jvp_arrays(
        call.flat(), x, detail::leaves_or_empty(dargs), detail::leaf_names(args));
    return std::pair{call.result(out.primals), call.result(out.tangents)};
  });
}

/// The same for a function that returns std::pair{result, aux}: std::tuple{result, tangents of the
/// result, aux}; aux is not differentiated.
template <class F, class... X, class... DX>
auto jvp_aux(F f, const std::tuple<X...>& primals, const std::tuple<DX...>& tangents,
             SourceLocation where = SourceLocation::current()) {
  auto [y, dy] = jvp(std::move(f), primals, tangents, where);
  return std::tuple{std::move(y.first), std::move(dy.first), std::move(y.second)};
}

/// The tangent map at a point: dy = f_lin(dx...). Does none of the primal work again.
template <class Result, class... X>
class TangentMap {
 public:
  using signature = Result(const X&...);  ///< without the default argument, for transformations

  TangentMap(detail::LinearMap map, std::tuple<X...> args, Result result)
      : map_(std::move(map)), args_(std::move(args)), result_(std::move(result)) {}
  // No moves: a moved-from one is a copy, and stays valid.
  TangentMap(const TangentMap&) = default;
  TangentMap& operator=(const TangentMap&) = default;
  Result operator()(const X&... tangents, SourceLocation where = SourceLocation::current()) const {
    return detail::in_transform("linearize", where, [&] {
      const std::tuple<X...> dargs{tangents...};
      detail::check_same_structure("linearize", args_, dargs);
      return detail::with_leaves(result_, map_.apply(detail::leaves_or_empty(dargs)));
    });
  }
  /// (consts, tangents) -> tangents, for inspection.
  const Jaxpr& jaxpr() const { return map_.jaxpr(); }

 private:
  detail::LinearMap map_;
  std::tuple<X...> args_;
  Result result_;
};

/// The cotangent map at a point: std::tuple of one cotangent per argument = pullback(ct).
template <class Result, class Args>
class Pullback {
 public:
  using signature = Args(const Result&);  ///< without the default argument, for transformations

  /// `transform` and `complaint` are for errors: "vjp", and how an unfit cotangent is called.
  Pullback(detail::LinearMap map, Args args, Result result, const char* transform,
           const char* complaint)
      : map_(std::move(map)),
        args_(std::move(args)),
        result_(std::move(result)),
        transform_(transform),
        complaint_(complaint) {}
  // No moves: a moved-from one is a copy, and stays valid.
  Pullback(const Pullback&) = default;
  Pullback& operator=(const Pullback&) = default;
  Args operator()(const Result& cotangent, SourceLocation where = SourceLocation::current()) const {
    return detail::in_transform(transform_, where, [&] {
      detail::check_same_structure(complaint_, result_, cotangent);
      return detail::with_leaves(args_,
                                 map_.transpose(detail::leaves_or_empty(cotangent), complaint_));
    });
  }

 private:
  detail::LinearMap map_;
  Args args_;
  Result result_;
  const char* transform_;
  const char* complaint_;
};

namespace detail {
inline constexpr const char* kVjpComplaint =
    "unexpected type (e.g. shape/dtype) for argument to VJP function";

template <class F, class... X>
auto linearize_call(SourceLocation where, F& f, const char* name, const X&... x) {
  return in_transform(name, where, [&] {
    auto args = bind_args<F>(x...);
    Arrays primals;
    flatten_into(args, primals, name, "args");
    TreeCall call(f, args);
    LinearizedArrays lin = linearize_arrays(call.flat(), primals, name);
    return std::tuple{call.result(lin.primals), std::move(lin.map), without_leaves(std::move(args)),
                      call.prototype()};
  });
}

struct Linearize {
  template <class F, class... X>
  static auto call(SourceLocation where, F f, const X&... x) {
    auto [y, map, args, result] = linearize_call(where, f, "linearize", x...);
    return std::pair{std::move(y), TangentMap{std::move(map), std::move(args), std::move(result)}};
  }
};

struct Vjp {
  template <class F, class... X>
  static auto call(SourceLocation where, F f, const X&... x) {
    auto [y, map, args, result] = linearize_call(where, f, "vjp", x...);
    return std::pair{std::move(y), Pullback{std::move(map), std::move(args), std::move(result),
                                            "vjp", kVjpComplaint}};
  }
};

struct VjpAux {
  template <class F, class... X>
  static auto call(SourceLocation where, F f, const X&... x) {
    auto [y, map, args, result] = linearize_call(where, f, "vjp", x...);
    return std::pair{std::move(y), Pullback{std::move(map), std::move(args),
                                            std::move(result.first), "vjp", kVjpComplaint}};
  }
};

struct LinearTranspose {
  template <class F, class... X>
  static auto call(SourceLocation where, F f, const X&... example) {
    return in_transform("linear_transpose", where, [&] {
      auto args = bind_args<F>(example...);
      Arrays leaves;
      flatten_into(args, leaves, "linear_transpose", "args");
      std::vector<Aval> avals;
      for (const Array& x : leaves) avals.push_back(x.aval());
      TreeCall call(f, args);
      LinearMap map = linear_map_of(call.flat(), avals);
      return Pullback{std::move(map), without_leaves(std::move(args)), call.prototype(),
                      "linear_transpose", "linear_transpose: cotangent type does not match"};
    });
  }
};

}  // namespace detail

/// (f(x...), f_lin) with f_lin(dx...) = J(x...) dx...:  auto [y, f_lin] = tl::linearize(f, x...);
inline constexpr detail::Located<detail::Linearize> linearize{};

/// (f(x...), pullback) with pullback(ct) = ct J(x...), a tuple of one cotangent per argument:
///   auto [y, pullback] = tl::vjp(f, x...);
inline constexpr detail::Located<detail::Vjp> vjp{};

/// The same for a function that returns std::pair{result, aux}: ((result, aux), pullback); aux is
/// not differentiated.
inline constexpr detail::Located<detail::VjpAux> vjp_aux{};

/// The transpose of a linear function, from example arguments of which only shapes and dtypes count:
///   auto transposed = tl::linear_transpose(f, example...);
inline constexpr detail::Located<detail::LinearTranspose> linear_transpose{};

}  // namespace v1
}  // namespace telamon
