// grad and value_and_grad: gradients of scalar-valued functions, of the type of the argument.
#pragma once

#include <tuple>
#include <utility>

#include "telamon/detail/call.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/lax.hpp"
#include "telamon/tree.hpp"

namespace telamon {
inline namespace v1 {

struct GradOptions {
  /// Integer and bool leaves get float0 cotangents instead of a TypeError.
  bool allow_int = false;
};

namespace detail {

enum class GradForm { grad, value_and_grad };

/// Whether this is a pair of an Array and what goes along with it.
template <class Result, class = void>
inline constexpr bool has_aux = false;
template <class Result>
inline constexpr bool has_aux<Result, std::enable_if_t<std::tuple_size<Result>::value == 2>> =
    std::is_convertible_v<std::tuple_element_t<0, Result>, Array>;

/// The callable behind grad, value_and_grad and their aux forms.
template <GradForm Form, bool Aux, class F, int... Argnums>
class Gradient {
  template <class Args> using Selected =
      std::tuple<std::tuple_element_t<argument_index<Args, Argnums>(), Args>...>;
  static constexpr const char* kName = Form == GradForm::grad ? "grad" : "value_and_grad";

 public:
  Gradient(F f, GradOptions options, SourceLocation where)
      : f_(std::move(f)), options_(options), where_(where) {}

  template <class... X>
  auto operator()(const X&... x) const {
    return in_transform(kName, where_, [&] { return compute(bind_args<F>(x...)); });
  }

  using signature = signature_of<F>;  ///< for its parameters; the result type differs
  bool identity(KeyBuilder& key) const {
    key.add(options_.allow_int);
    return code_identity(*f_, key);
  }

  template <class Args>
  auto compute(const Args& args) const {
    (detail::check_differentiable<argument_index<Args, Argnums>(), Args>(), ...);
    using Result = ReturnedBy<F, Args>;
    constexpr bool fits = Aux ? has_aux<Result> : std::is_convertible_v<Result, Array>;
    static_assert(fits || !Aux,
                  "the aux form of grad needs a function that returns std::pair{Array, aux}");
    static_assert(fits || Aux,
                  "grad needs a function that returns one scalar Array; return "
                  "std::pair{Array, aux} and use grad_aux or value_and_grad_aux for more");
    if constexpr (fits) return gradient_of<Result>(args);
  }

 private:
  template <class Result, class Args>
  auto gradient_of(const Args& args) const {
    const Selected<Args> selected{std::get<argument_index<Args, Argnums>()>(args)...};
    Arrays primals;
    check_no_empty_leaf(args, kName, "args");
    flatten_into(selected, primals, kName);
    std::optional<Result> prototype;
    const auto f = [&](std::span<const Array> leaves) {
      Args all = args;
      assign(all, with_leaves(selected, leaves), std::make_index_sequence<sizeof...(Argnums)>());
      Result result = returned_by(*f_, all);
      Arrays outs;
      if constexpr (Aux) {
        outs.push_back(Array(std::get<0>(result)));
        flatten_into(std::get<1>(result), outs, kName, "aux");
        prototype.emplace(without_leaves(std::move(result)));
      } else {
        outs.push_back(Array(result));
      }
      return outs;
    };
    ValueAndGradient out =
        value_and_grad_arrays(f, primals, options_.allow_int, leaf_names(selected), kName);
    auto gradients = with_leaves(selected, out.gradients);
    auto gradient = [&] {
      if constexpr (sizeof...(Argnums) == 1) return std::get<0>(std::move(gradients));
      else return std::move(gradients);
    }();
    if constexpr (Aux) {
      auto aux =
          with_leaves(std::get<1>(*prototype), std::span<const Array>(out.results).subspan(1));
      if constexpr (Form == GradForm::grad) return std::pair{std::move(gradient), std::move(aux)};
      else return std::pair{std::pair{out.results[0], std::move(aux)}, std::move(gradient)};
    } else {
      if constexpr (Form == GradForm::grad) return gradient;
      else return std::pair{out.results[0], std::move(gradient)};
    }
  }

  template <class Args, std::size_t... K>
  static void assign(Args& all, Selected<Args> selected, std::index_sequence<K...>) {
    ((std::get<argument_index<Args, Argnums>()>(all) = std::move(std::get<K>(selected))), ...);
  }

  Callee<F> f_;
  GradOptions options_;
  SourceLocation where_;  // where the gradient was asked for
};

template <GradForm Form, bool Aux, int... Argnums, class F>
auto make_gradient(F f, GradOptions options, SourceLocation where) {
  if constexpr (sizeof...(Argnums) == 0)
    return Gradient<Form, Aux, F, 0>(std::move(f), options, where);
  else return Gradient<Form, Aux, F, Argnums...>(std::move(f), options, where);
}

}  // namespace detail

/// The gradient of a scalar-valued function with respect to argument 0, or to those named:
///   auto g = tl::grad(loss)(model, x, y);                 // of the type of model
///   auto [gm, gx] = tl::grad<0, 1>(loss)(model, x, y);    // a std::tuple
/// Negative numbers count from the end. TypeError when the result is no real scalar or a
/// differentiated leaf is an integer.
template <int... Argnums, class F>
auto grad(F f, GradOptions options = {}, SourceLocation where = SourceLocation::current()) {
  return detail::make_gradient<detail::GradForm::grad, false, Argnums...>(std::move(f), options,
                                                                          where);
}
/// std::pair{value, gradient}.
template <int... Argnums, class F>
auto value_and_grad(F f, GradOptions options = {},
                    SourceLocation where = SourceLocation::current()) {
  return detail::make_gradient<detail::GradForm::value_and_grad, false, Argnums...>(std::move(f),
                                                                                    options, where);
}
/// For functions that return std::pair{value, aux}: std::pair{gradient, aux}.
template <int... Argnums, class F>
auto grad_aux(F f, GradOptions options = {}, SourceLocation where = SourceLocation::current()) {
  return detail::make_gradient<detail::GradForm::grad, true, Argnums...>(std::move(f), options,
                                                                         where);
}
/// For functions that return std::pair{value, aux}: std::pair{std::pair{value, aux}, gradient}.
template <int... Argnums, class F>
auto value_and_grad_aux(F f, GradOptions options = {},
                        SourceLocation where = SourceLocation::current()) {
  return detail::make_gradient<detail::GradForm::value_and_grad, true, Argnums...>(std::move(f),
                                                                                   options, where);
}

/// x, any pytree, with arrays that count as constants: their derivative is zero.
///   loss = tl::sum(tl::square(prediction - tl::stop_gradient(target)));
template <class T>
T stop_gradient(const T& x, SourceLocation where = SourceLocation::current()) {
  return detail::in_call("stop_gradient", where, [&] {
    detail::check_no_empty_leaf(x, "stop_gradient");
    return tree_map([](const Array& leaf) { return lax::stop_gradient(leaf); }, x);
  });
}

}  // namespace v1
}  // namespace telamon
