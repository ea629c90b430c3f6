// custom_jvp: a function with a rule for its derivative.
//
//   auto log1pexp = tl::custom_jvp([](Array x) { return tl::log1p(tl::exp(x)); },
//                                  [](Array x, Array dx) {
//                                    return std::pair{log1pexp(x), dx * (1 - 1 / (1 + tl::exp(x)))};
//                                  });
//
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "telamon/detail/custom_state.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

template <class F, class Rule, int... Nondiff>
class CustomJvp {
 public:
  CustomJvp(F f, Rule rule, CustomOptions options)
      : state_(std::make_shared<State>(std::move(options), std::move(f), std::move(rule))) {
    using Signature = signature_of<F>;
    if constexpr (!std::is_void_v<Signature>) check_signature(std::type_identity<Signature>{});
  }
  // No moves: a moved-from one is a copy, and stays valid.
  CustomJvp(const CustomJvp&) = default;
  CustomJvp& operator=(const CustomJvp&) = default;
  using signature = signature_of<F>;
  bool identity(KeyBuilder& key) const { return state_->identity(key); }

  template <class... X>
  auto operator()(const X&... x) const {
    return call(bind_args<F>(x...));
  }

 private:
  using State = CustomState<F, Rule>;

  // The rule of a function of one argument may take that argument and its tangent bare.
  template <class Args>
  static constexpr bool takes_bare = [] {
    if constexpr (std::tuple_size_v<Args> != 1 || std::is_void_v<signature_of<Rule>>) return false;
    else
      return std::is_invocable_v<Rule&, std::tuple_element_t<0, Args>&,
                                 std::tuple_element_t<0, Args>&>;
  }();

  template <class R, class... P>
  static void check_signature(std::type_identity<R(P...)>) {
    check_rule<std::tuple<typename BoundParameter<P>::type...>>();
  }
  template <class Args>
  static constexpr bool check_rule() {
    using Result = ReturnedBy<F, Args>;
    static_assert(Pytree<Result>, "custom_jvp: the function must return a pytree");
    (void)std::integer_sequence<std::size_t, argument_index<Args, Nondiff>()...>{};
    constexpr bool callable = takes_bare<Args> || std::is_invocable_v<Rule&, Args&, Args&>;
    static_assert(callable,
                  "custom_jvp: the rule must be callable as rule(primals, tangents) with two "
                  "std::tuples of the function's arguments (or, for a function of one argument, as "
                  "rule(x, dx))");
    if constexpr (takes_bare<Args>) {
      using X = std::tuple_element_t<0, Args>;
      check_result<std::decay_t<std::invoke_result_t<Rule&, X&, X&>>, Result>();
    } else if constexpr (callable) {
      check_result<std::decay_t<std::invoke_result_t<Rule&, Args&, Args&>>, Result>();
    }
    return true;
  }
  template <class Got, class Result>
  static constexpr void check_result() {
    static_assert(std::is_convertible_v<Got, std::pair<Result, Result>>,
                  "custom_jvp: the rule must return std::pair{result, tangent of the result}, both "
                  "of the type that the function returns");
  }

  template <class Args>
  auto call(const Args& args) const {
    using Result = ReturnedBy<F, Args>;
    static_assert(check_rule<Args>());
    Arrays leaves;
    flatten_into(args, leaves, "custom_jvp", "args");
    std::optional<Result> prototype;
    const State& state = *state_;
    CustomJvpCall c;
    c.name = state.options.name;
    c.symbolic_zeros = state.options.symbolic_zeros;
    c.fun = [&](std::span<const Array> xs) {
      Args traced = with_leaves(args, xs);
      Result result = returned_by(*state.f, traced);
      Arrays outs;
      flatten_into(result, outs, "the result of a custom_jvp function");
      prototype.emplace(without_leaves(std::move(result)));
      return outs;
    };
    c.rule = [&](std::span<const Array> x, std::span<const Tangent> dx) {
      return apply_rule<Result>(state, args, x, dx, &prototype);
    };
    c.durable = [&] {
      return JvpRule::make(
          state.options.name + "_jvp", "jvp " + state.key + structure_key(args), [&] {
            return FlatJvpRule([s = state_, a = without_leaves(args)](std::span<const Array> x,
                                                                      std::span<const Tangent> dx) {
              return apply_rule<Result>(*s, a, x, dx, nullptr);
            });
          });
    };
    const Arrays outs = custom_jvp_arrays(c, leaves);
    return with_leaves(std::move(*prototype), outs);
  }

  template <class Result, class Args>
  static JvpResult apply_rule(const State& state, const Args& args, std::span<const Array> primals,
                              std::span<const Tangent> tangents, std::optional<Result>* prototype) {
    Args x = with_leaves(args, primals);
    Args dx = with_leaves(
        args, rule_tangents(state.options.name, tangents, differentiable_leaves<Nondiff...>(args),
                            state.options.symbolic_zeros));
    const std::pair<Result, Result> out = [&] {
      if constexpr (takes_bare<Args>)
        return (*std::get<0>(state.rules))(std::get<0>(x), std::get<0>(dx));
      else return (*std::get<0>(state.rules))(x, dx);
    }();
    check_same_structure("custom_jvp: the result and the tangent that the rule of " +
                             state.options.name + " gives must have one structure",
                         out.first, out.second);
    Arrays results;
    flatten_into(out.first, results, "the result of a custom_jvp rule");
    if (prototype) prototype->emplace(without_leaves(out.first));
    return custom_jvp_result(state.options.name, std::move(results), leaves_or_empty(out.second));
  }

  std::shared_ptr<State> state_;
};

}  // namespace detail

/// f with a rule for its derivative: rule(primals, tangents) -> std::pair{f(primals), tangent}, with
/// tuples of all arguments; for a function of one argument also rule(x, dx). Tangents have the types
/// of the arguments: static values are the arguments' own, those of integer leaves are float0.
///   auto f = tl::custom_jvp([](Array x, int n) { return tl::integer_pow(x, n); },
///                           [](std::tuple<Array, int> p, std::tuple<Array, int> t) { ... });
/// Arguments whose numbers are given (`custom_jvp<0>`) are not differentiated: their tangents are
/// empty Arrays, and a tangent that is not zero is a TypeError.
template <int... Nondiff, class F, class Rule>
auto custom_jvp(F f, Rule rule, CustomOptions options = {}) {
  return detail::CustomJvp<F, Rule, Nondiff...>(std::move(f), std::move(rule), std::move(options));
}

}  // namespace v1
}  // namespace telamon
