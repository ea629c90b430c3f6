// jacfwd, jacrev and hessian: whole Jacobians.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

#include "telamon/detail/call.hpp"
#include "telamon/detail/out_of_memory.hpp"

namespace telamon {
inline namespace v1 {

/// The Jacobian of a function from one pytree to another: for each leaf of the result, in order, a
/// tree like the argument whose leaves have shape (result leaf) + (argument leaf).
template <class X>
struct Jacobian {
  std::vector<X> rows;
};

namespace detail {

enum class JacobianMode { forward, reverse };

template <JacobianMode Mode, class F, int Argnum>
class JacobianCall {
 public:
  JacobianCall(F f, const char* name, SourceLocation where)
      : f_(std::move(f)), name_(name), where_(where) {}
  using signature = signature_of<F>;  ///< for its parameters; the result type differs
  bool identity(KeyBuilder& key) const { return code_identity(*f_, key); }

  /// Array -> Array gives an Array; tree -> Array a tree like the argument; Array -> tree a tree like
  /// the result; tree -> tree a Jacobian.
  template <class... X>
  auto operator()(const X&... x) const {
    return in_transform(Mode == JacobianMode::forward ? "jacfwd" : "jacrev", where_, [&] {
      const auto args = bind_args<F>(x...);
      using Args = std::remove_const_t<decltype(args)>;
      constexpr std::size_t kIndex = argument_index<Args, Argnum>();
      detail::check_differentiable<kIndex, Args>();
      using In = std::tuple_element_t<kIndex, Args>;
      const std::tuple<In> selected(std::get<kIndex>(args));  // In may be a tuple itself
      const auto g = [&](const In& in) {
        Args all = args;
        std::get<kIndex>(all) = in;
        return returned_by(*f_, all);
      };
      using Out = std::decay_t<decltype(g(std::declval<const In&>()))>;
      Arrays primals;
      check_no_empty_leaf(args, name_, "args");
      flatten_into(selected, primals, name_);
      TreeCall call(g, selected);
      const JacobianArrays j = Mode == JacobianMode::forward
                                   ? jacfwd_arrays(call.flat(), primals, leaf_names(selected))
                                   : jacrev_arrays(call.flat(), primals, leaf_names(selected));
      if constexpr (std::is_convertible_v<Out, Array>) {
        return with_leaves(std::get<0>(selected), j.blocks[0]);
      } else if constexpr (std::is_same_v<In, Array>) {
        Arrays column;
        for (const Arrays& row : j.blocks) column.push_back(row[0]);
        return call.result(column);
      } else {
        Jacobian<In> jacobian;
        for (const Arrays& row : j.blocks)
          jacobian.rows.push_back(with_leaves(std::get<0>(selected), row));
        return jacobian;
      }
    });
  }

 private:
  Callee<F> f_;
  const char* name_;      // what the user called: it may be a part of hessian
  SourceLocation where_;  // where the Jacobian was asked for
};

}  // namespace detail

/// The Jacobian by forward mode: one pass per element of the argument. Good for tall Jacobians.
template <int Argnum = 0, class F>
auto jacfwd(F f, SourceLocation where = SourceLocation::current()) {
  return detail::JacobianCall<detail::JacobianMode::forward, F, Argnum>(std::move(f), "jacfwd",
                                                                        where);
}
/// The Jacobian by reverse mode: one pass per element of the result. Good for wide Jacobians.
template <int Argnum = 0, class F>
auto jacrev(F f, SourceLocation where = SourceLocation::current()) {
  return detail::JacobianCall<detail::JacobianMode::reverse, F, Argnum>(std::move(f), "jacrev",
                                                                        where);
}
/// The Hessian of a scalar-valued function: jacfwd(jacrev(f)).
template <int Argnum = 0, class F>
auto hessian(F f, SourceLocation where = SourceLocation::current()) {
  auto gradient = jacrev<Argnum>(std::move(f), where);
  return detail::JacobianCall<detail::JacobianMode::forward, decltype(gradient), Argnum>(
      std::move(gradient), "hessian", where);
}

}  // namespace v1
}  // namespace telamon
