// custom_vjp: a function with rules for reverse mode.
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

/// The arguments that bwd gives cotangents for: those that hold Arrays, less those in Nondiff.
template <class Args, int... Nondiff>
consteval auto cotangent_arguments() {
  constexpr std::size_t n = std::tuple_size_v<Args>;
  constexpr auto wanted = []<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<bool, n>{
        (holds_array<std::tuple_element_t<I, Args>>() && !is_nondiff<Args, Nondiff...>(I))...};
  }(std::make_index_sequence<n>());
  constexpr std::size_t count = [&] {
    std::size_t c = 0;
    for (const bool w : wanted) c += w;
    return c;
  }();
  std::array<std::size_t, count> indices{};
  std::size_t next = 0;
  for (std::size_t i = 0; i < n; ++i)
    if (wanted[i]) indices[next++] = i;
  return indices;
}

template <class F, class Fwd, class Bwd, int... Nondiff>
class CustomVjp {
 public:
  CustomVjp(F f, Fwd fwd, Bwd bwd, CustomOptions options)
      : state_(std::make_shared<State>(std::move(options), std::move(f), std::move(fwd),
                                       std::move(bwd))) {
    using Signature = signature_of<F>;
    if constexpr (!std::is_void_v<Signature>) check_signature(std::type_identity<Signature>{});
  }
  // No moves: a moved-from one is a copy, and stays valid.
  CustomVjp(const CustomVjp&) = default;
  CustomVjp& operator=(const CustomVjp&) = default;
  using signature = signature_of<F>;
  bool identity(KeyBuilder& key) const { return state_->identity(key); }

  template <class... X>
  auto operator()(const X&... x) const {
    return call(bind_args<F>(x...));
  }

 private:
  using State = CustomState<F, Fwd, Bwd>;
  template <class Args> using FwdOf =
      std::decay_t<decltype(std::apply(std::declval<Fwd&>(), std::declval<Args&>()))>;
  template <class Args>
  static constexpr bool fwd_callable = []<class... A>(std::type_identity<std::tuple<A...>>) {
    return std::is_invocable_v<Fwd&, A&...>;
  }(std::type_identity<Args>{});
  template <class Args>
  static constexpr auto arguments = cotangent_arguments<Args, Nondiff...>();
  template <class Args, std::size_t... K>
  static std::type_identity<std::tuple<std::tuple_element_t<arguments<Args>[K], Args>...>>
      cotangent_types(std::index_sequence<K...>);
  template <class Args> using Cotangents = typename decltype(cotangent_types<Args>(
      std::make_index_sequence<arguments<Args>.size()>()))::type;

  template <class R, class... P>
  static void check_signature(std::type_identity<R(P...)>) {
    check_rules<std::tuple<typename BoundParameter<P>::type...>>();
  }
  template <class Args>
  static constexpr bool check_rules() {
    using Result = ReturnedBy<F, Args>;
    static_assert(Pytree<Result>, "custom_vjp: the function must return a pytree");
    static_assert(fwd_callable<Args>, "custom_vjp: fwd must take the arguments of the function");
    if constexpr (fwd_callable<Args>) {
      using Forward = FwdOf<Args>;
      static_assert(is_pair<Forward>, "custom_vjp: fwd must return std::pair{result, residuals}");
      if constexpr (is_pair<Forward>) check_backward<Args, Forward, Result>();
    }
    return true;
  }
  template <class Args, class Forward, class Result>
  static constexpr void check_backward() {
    using Residuals = typename Forward::second_type;
    static_assert(std::is_convertible_v<typename Forward::first_type, Result>,
                  "custom_vjp: the first part of what fwd returns must be of the type that the "
                  "function returns");
    static_assert(Pytree<Residuals>, "custom_vjp: the residuals that fwd returns must be a pytree");
    constexpr bool callable = std::is_invocable_v<Bwd&, const Residuals&, const Result&>;
    static_assert(callable,
                  "custom_vjp: bwd must be callable as bwd(residuals, cotangent), the cotangent "
                  "being of the type that the function returns");
    if constexpr (callable) {
      using Got = std::decay_t<std::invoke_result_t<Bwd&, const Residuals&, const Result&>>;
      static_assert(is_tuple<Got>,
                    "custom_vjp: bwd must return a std::tuple with one cotangent for each argument "
                    "that holds Arrays, also when that is only one");
      if constexpr (is_tuple<Got>) {
        static_assert(std::is_convertible_v<Got, Cotangents<Args>>,
                      "custom_vjp: bwd must return a std::tuple with one cotangent, of the "
                      "argument's type, for each argument that holds Arrays (less nondiff ones)");
      }
    }
  }

  template <class Args>
  auto call(const Args& args) const {
    using Result = ReturnedBy<F, Args>;
    static_assert(check_rules<Args>());
    Arrays leaves;
    flatten_into(args, leaves, "custom_vjp", "args");
    std::optional<Result> prototype;
    CustomVjpCall c;
    c.name = state_->options.name;
    c.symbolic_zeros = state_->options.symbolic_zeros;
    c.fun = [&](std::span<const Array> xs) {
      Args traced = with_leaves(args, xs);
      Result result = returned_by(*state_->f, traced);
      Arrays outs;
      flatten_into(result, outs, "the result of a custom_vjp function");
      prototype.emplace(without_leaves(std::move(result)));
      return outs;
    };
    c.fwd = [&](std::span<const Array> xs) {
      return forward<Result>(state_, args, xs, &prototype);
    };
    c.durable = [&] {
      return VjpForward::make(
          state_->options.name + "_fwd", "fwd " + state_->key + structure_key(args), [&] {
            return FlatForward([s = state_, a = without_leaves(args)](std::span<const Array> xs) {
              return forward<Result>(s, a, xs, nullptr);
            });
          });
    };
    const Arrays outs = custom_vjp_arrays(c, leaves);
    return with_leaves(std::move(*prototype), outs);
  }

  template <class Result, class Args>
  static ForwardResult forward(const std::shared_ptr<State>& state, const Args& args,
                               std::span<const Array> xs, std::optional<Result>* prototype) {
    Args traced = with_leaves(args, xs);
    auto out = std::apply(*std::get<0>(state->rules), traced);
    Result result = std::move(out.first);
    ForwardResult flat;
    flatten_into(result, flat.results, "the result of a custom_vjp fwd");
    flatten_into(out.second, flat.residuals, "the residuals of a custom_vjp fwd");
    auto residuals = without_leaves(std::move(out.second));
    result = without_leaves(std::move(result));
    if (prototype) prototype->emplace(result);
    std::vector<Aval> avals;
    std::string key = "bwd " + state->key + structure_key(args) + "/" + structure_key(result) +
                      "/" + structure_key(residuals) + "/";
    for (const Array& x : xs) {
      avals.push_back(x.aval());
      key += x.aval().to_string();
    }
    flat.bwd = VjpBackward::make(state->options.name + "_bwd", std::move(key), [&] {
      return FlatBackward([state, a = without_leaves(args), avals, residuals, result](
                              std::span<const Array> res, std::span<const Tangent> cts) {
        return backward(*state, a, avals, with_leaves(residuals, res), result, cts);
      });
    });
    return flat;
  }

  template <class Args, class Residuals, class Result>
  static std::vector<Tangent> backward(const State& state, const Args& args,
                                       const std::vector<Aval>& avals, const Residuals& residuals,
                                       const Result& prototype, std::span<const Tangent> cts) {
    const Result ct = with_leaves(
        prototype, rule_tangents(state.options.name, cts, std::vector<bool>(cts.size(), true),
                                 state.options.symbolic_zeros));
    const Cotangents<Args> out = (*std::get<1>(state.rules))(residuals, ct);
    std::vector<Array> given;  // empty: zero
    std::vector<bool> differentiated;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (add_cotangents<I>(state, args, out, given, differentiated), ...);
    }(std::make_index_sequence<std::tuple_size_v<Args>>());
    return custom_vjp_cotangents(
        state.options.name, avals, given, differentiated, [&](std::size_t leaf) {
          return tree_structure(args).leaf_paths()[leaf].to_string("output");
        });
  }
  template <std::size_t I, class Args>
  static void add_cotangents(const State& state, const Args& args, const Cotangents<Args>& out,
                             std::vector<Array>& given, std::vector<bool>& differentiated) {
    CountVisitor count;
    walk_tree(std::get<I>(args), count);
    constexpr std::size_t position = [] {
      for (std::size_t k = 0; k < arguments<Args>.size(); ++k)
        if (arguments<Args>[k] == I) return k;
      return arguments<Args>.size();
    }();
    if constexpr (position < arguments<Args>.size()) {
      const auto& entry = std::get<position>(out);
      check_same_structure("custom_vjp: output[" + std::to_string(position) +
                               "] of the bwd rule of " + state.options.name +
                               " and its argument must have one structure",
                           std::get<I>(args), entry);
      const Arrays leaves = leaves_or_empty(entry);
      given.insert(given.end(), leaves.begin(), leaves.end());
    } else {
      given.resize(given.size() + count.leaves);
    }
    differentiated.insert(differentiated.end(), count.leaves, position < arguments<Args>.size());
  }

  std::shared_ptr<State> state_;
};

}  // namespace detail

/// f with rules for reverse mode: fwd(arguments...) -> std::pair{result, residuals}, any pytree; then
/// bwd(residuals, cotangent) -> a std::tuple of one cotangent for each argument that holds Arrays,
/// less those whose numbers are given (`custom_vjp<1>`). An empty Array is a zero cotangent. Forward
/// mode through f is a TypeError.
///   auto clip = tl::custom_vjp([](Array x) { return x; },
///                              [](Array x) { return std::pair{x, std::tuple{}}; },
///                              [](std::tuple<>, Array ct) { return std::tuple{tl::clip(ct, -1, 1)}; });
template <int... Nondiff, class F, class Fwd, class Bwd>
auto custom_vjp(F f, Fwd fwd, Bwd bwd, CustomOptions options = {}) {
  return detail::CustomVjp<F, Fwd, Bwd, Nondiff...>(std::move(f), std::move(fwd), std::move(bwd),
                                                    std::move(options));
}

}  // namespace v1
}  // namespace telamon
