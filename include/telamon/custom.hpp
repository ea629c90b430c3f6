// Functions with rules of their own: custom_jvp, custom_vjp, custom_vmap, linear_call, and
// closure_convert, which makes arguments of what a function captured.
//
//   auto log1pexp = tl::custom_jvp([](Array x) { return tl::log1p(tl::exp(x)); },
//                                  [](Array x, Array dx) {
//                                    return std::pair{log1pexp(x), dx * (1 - 1 / (1 + tl::exp(x)))};
//                                  });
//
// Without traced arguments such a function is called as it is. The rules are called when derivatives
// are taken, with known values where those are known, so `if` on values works in them; they must not
// use traced values but their arguments.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "telamon/detail/call.hpp"
#include "telamon/detail/custom_calls.hpp"
#include "telamon/detail/linear_call.hpp"

namespace telamon {
inline namespace v1 {

struct CustomOptions {
  /// What printed programs and errors call the function.
  std::string name = "f";
  /// Tangents and cotangents known to be zero are empty Arrays (`has_value()` is false) instead of
  /// arrays of zeros.
  bool symbolic_zeros = false;
};

namespace detail {

/// Which rule this is: by the code where that is known, else by the object.
template <class... F>
std::string rule_key(const void* object, const F&... f) {
  KeyBuilder key;
  KeyBuilder code;
  if ((code_identity(f, code) && ...)) {
    key.add(static_cast<const void*>(&type_tag<F...>));
    key.add_bytes(code.view().data(), code.view().size());
  } else {
    key.add(object);
    key.add(next_identity());
  }
  return std::string(key.view());
}

/// Whether argument I is among those that are not differentiated.
template <class Args, int... Nondiff>
consteval bool is_nondiff([[maybe_unused]] std::size_t i) {
  return ((argument_index<Args, Nondiff>() == i) || ...);
}

/// Of each leaf of the arguments, whether it may be differentiated: those of arguments named in
/// Nondiff may not.
template <int... Nondiff, class Args>
std::vector<bool> differentiable_leaves(const Args& args) {
  std::vector<bool> mask;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    const auto add = [&]<std::size_t K>(std::integral_constant<std::size_t, K>) {
      CountVisitor count;
      walk_tree(std::get<K>(args), count);
      mask.insert(mask.end(), count.leaves, !is_nondiff<Args, Nondiff...>(K));
    };
    (add(std::integral_constant<std::size_t, I>{}), ...);
  }(std::make_index_sequence<std::tuple_size_v<Args>>());
  return mask;
}

template <class T>
inline constexpr bool is_pair = false;
template <class A, class B>
inline constexpr bool is_pair<std::pair<A, B>> = true;

/// Text that tells the structures of arguments apart, static values included.
template <class Args>
std::string structure_key(const Args& args) {
  KeyBuilder key;
  hash_static(args, key);
  return std::string(key.view());
}

template <class F, class Rule, int... Nondiff>
class CustomJvp {
 public:
  CustomJvp(F f, Rule rule, CustomOptions options)
      : state_(std::make_shared<State>(std::move(f), std::move(rule), std::move(options))) {
    state_->key = rule_key(state_.get(), *state_->f, *state_->rule) + state_->options.name +
                  (state_->options.symbolic_zeros ? "z" : "");
    using Signature = signature_of<F>;
    if constexpr (!std::is_void_v<Signature>) check_signature(std::type_identity<Signature>{});
  }
  using signature = signature_of<F>;
  bool identity(KeyBuilder& key) const {
    key.add_string(state_->key);
    KeyBuilder unused;
    return code_identity(*state_->f, unused) && code_identity(*state_->rule, unused);
  }

  template <class... X>
  auto operator()(const X&... x) const {
    return call(bind_args<F>(x...));
  }

 private:
  struct State {
    State(F f_, Rule rule_, CustomOptions o)
        : f(std::move(f_)), rule(std::move(rule_)), options(std::move(o)) {}
    Callee<F> f;
    Callee<Rule> rule;
    CustomOptions options;
    std::string key;
  };
  template <class Args> using ResultOf =
      std::decay_t<decltype(std::apply(std::declval<F&>(), std::declval<Args&>()))>;

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
    using Result = ResultOf<Args>;
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
    using Result = ResultOf<Args>;
    static_assert(check_rule<Args>());
    Arrays leaves;
    flatten_into(args, leaves, "custom_jvp");
    std::optional<Result> prototype;
    const State& state = *state_;
    CustomJvpCall c;
    c.name = state.options.name;
    c.symbolic_zeros = state.options.symbolic_zeros;
    c.fun = [&](std::span<const Array> xs) {
      Args traced = with_leaves(args, xs);
      Result result = std::apply(*state.f, traced);
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
      if constexpr (takes_bare<Args>) return (*state.rule)(std::get<0>(x), std::get<0>(dx));
      else return (*state.rule)(x, dx);
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
      : state_(std::make_shared<State>(std::move(f), std::move(fwd), std::move(bwd),
                                       std::move(options))) {
    state_->key = rule_key(state_.get(), *state_->f, *state_->fwd, *state_->bwd) +
                  state_->options.name + (state_->options.symbolic_zeros ? "z" : "");
    using Signature = signature_of<F>;
    if constexpr (!std::is_void_v<Signature>) check_signature(std::type_identity<Signature>{});
  }
  using signature = signature_of<F>;
  bool identity(KeyBuilder& key) const {
    key.add_string(state_->key);
    KeyBuilder unused;
    return code_identity(*state_->f, unused) && code_identity(*state_->fwd, unused) &&
           code_identity(*state_->bwd, unused);
  }

  template <class... X>
  auto operator()(const X&... x) const {
    return call(bind_args<F>(x...));
  }

 private:
  struct State {
    State(F f_, Fwd fwd_, Bwd bwd_, CustomOptions o)
        : f(std::move(f_)), fwd(std::move(fwd_)), bwd(std::move(bwd_)), options(std::move(o)) {}
    Callee<F> f;
    Callee<Fwd> fwd;
    Callee<Bwd> bwd;
    CustomOptions options;
    std::string key;
  };
  template <class Args> using ResultOf =
      std::decay_t<decltype(std::apply(std::declval<F&>(), std::declval<Args&>()))>;
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
    using Result = ResultOf<Args>;
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
    using Result = ResultOf<Args>;
    static_assert(check_rules<Args>());
    Arrays leaves;
    flatten_into(args, leaves, "custom_vjp");
    std::optional<Result> prototype;
    CustomVjpCall c;
    c.name = state_->options.name;
    c.symbolic_zeros = state_->options.symbolic_zeros;
    c.fun = [&](std::span<const Array> xs) {
      Args traced = with_leaves(args, xs);
      Result result = std::apply(*state_->f, traced);
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
    auto out = std::apply(*state->fwd, traced);
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
    const Cotangents<Args> out = (*state.bwd)(residuals, ct);
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

template <class F, class Rule>
class CustomVmap {
 public:
  CustomVmap(F f, Rule rule, CustomOptions options)
      : state_(std::make_shared<State>(std::move(f), std::move(rule), std::move(options))) {
    state_->key = rule_key(state_.get(), *state_->f, *state_->rule) + state_->options.name;
  }
  using signature = signature_of<F>;
  bool identity(KeyBuilder& key) const {
    key.add_string(state_->key);
    KeyBuilder unused;
    return code_identity(*state_->f, unused) && code_identity(*state_->rule, unused);
  }

  template <class... X>
  auto operator()(const X&... x) const {
    return call(bind_args<F>(x...));
  }

 private:
  struct State {
    State(F f_, Rule rule_, CustomOptions o)
        : f(std::move(f_)), rule(std::move(rule_)), options(std::move(o)) {}
    Callee<F> f;
    Callee<Rule> rule;
    CustomOptions options;
    std::string key;
  };
  template <class Args> using Mask = std::array<bool, std::tuple_size_v<Args>>;

  template <class Args>
  auto call(const Args& args) const {
    using Result = std::decay_t<decltype(std::apply(*state_->f, std::declval<Args&>()))>;
    constexpr bool callable = []<class... A>(std::type_identity<std::tuple<A...>>) {
      return std::is_invocable_v<Rule&, std::int64_t, const Mask<Args>&, A&...>;
    }(std::type_identity<Args>{});
    static_assert(
        callable,
        "custom_vmap: the rule must be callable as rule(size, mapped, arguments...), with "
        "std::int64_t size and a std::array<bool, N> that says which arguments are mapped");
    if constexpr (callable) {
      using Got = std::decay_t<decltype(apply_rule(std::declval<const State&>(), std::int64_t(0),
                                                   std::declval<const Mask<Args>&>(),
                                                   std::declval<Args&>()))>;
      static_assert(
          std::is_convertible_v<Got, std::pair<Result, bool>>,
          "custom_vmap: the rule must return std::pair{result, whether it is mapped along "
          "axis 0}, the result of the type that the function returns");
    }
    Arrays leaves;
    flatten_into(args, leaves, "custom_vmap");
    TreeCall tree(*state_->f, args);
    const auto rule = [&] {
      return VmapRule::make(
          state_->options.name + "_vmap", "vmap " + state_->key + structure_key(args), [&] {
            return FlatVmapRule(
                [s = state_, a = without_leaves(args)](
                    std::int64_t size, const std::vector<bool>& mapped, std::span<const Array> xs) {
                  return map<Result>(*s, a, size, mapped, xs);
                });
          });
    };
    const Arrays outs = custom_vmap_arrays(tree.flat(), rule, leaves, state_->options.name);
    return tree.result(outs);
  }

  template <class Args>
  static auto apply_rule(const State& state, std::int64_t size, const Mask<Args>& mask,
                         Args& args) {
    return std::apply([&](auto&... a) { return (*state.rule)(size, mask, a...); }, args);
  }

  // The leaves of one argument are mapped together.
  template <class Result, class Args>
  static MappedResults map(const State& state, const Args& args, std::int64_t size,
                           const std::vector<bool>& mapped, std::span<const Array> xs) {
    Mask<Args> mask{};
    Arrays leaves(xs.begin(), xs.end());
    std::size_t next = 0, arg = 0;
    const auto visit = [&](const auto& tree) {
      CountVisitor count;
      walk_tree(tree, count);
      for (std::size_t i = 0; i < count.leaves; ++i) mask[arg] = mask[arg] || mapped[next + i];
      for (std::size_t i = 0; i < count.leaves; ++i, ++next) {
        if (mask[arg] && !mapped[next]) leaves[next] = mapped_at_front(leaves[next], size);
      }
      ++arg;
    };
    std::apply([&](const auto&... tree) { (visit(tree), ...); }, args);
    Args batch = with_leaves(args, leaves);
    const std::pair<Result, bool> out = apply_rule(state, size, mask, batch);
    MappedResults results;
    flatten_into(out.first, results.values, "the result of a custom_vmap rule");
    results.mapped.assign(results.values.size(), out.second);
    return results;
  }

  std::shared_ptr<State> state_;
};

/// What closure_convert makes: f with the hoisted values as a further argument.
template <class Result, class Args>
class Converted;
template <class Result, class... A>
class Converted<Result, std::tuple<A...>> {
 public:
  Converted(ConvertedClosure closure, Result prototype)
      : closure_(std::make_shared<const ConvertedClosure>(std::move(closure))),
        prototype_(std::move(prototype)) {}
  Result operator()(const A&... args, const std::vector<Array>& hoisted) const {
    Arrays leaves;
    flatten_into(std::tuple<A...>(args...), leaves, "a converted closure");
    return with_leaves(prototype_, closure_->call(leaves, hoisted));
  }

 private:
  std::shared_ptr<const ConvertedClosure> closure_;
  Result prototype_;
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

/// f with a rule for vmap: rule(size, mapped, arguments...) -> std::pair{result, is it mapped}, where
/// `mapped[i]` says whether the arrays of argument i are mapped along axis 0, all or none.
///   auto f = tl::custom_vmap(solve_one, [](std::int64_t n, std::array<bool, 2> mapped, Array a,
///                                          Array b) { return std::pair{solve_many(a, b), true}; });
/// Forward derivatives are those of f, mapped ones those of the rule; reverse mode splits f, and what
/// is left of it is mapped without the rule.
template <class F, class Rule>
auto custom_vmap(F f, Rule rule, CustomOptions options = {}) {
  return detail::CustomVmap<F, Rule>(std::move(f), std::move(rule), std::move(options));
}

/// f(residuals, x), which is linear in x, with its transpose given:
/// transpose(residuals, cotangent) -> cotangent of x. Residuals, x and results are any trees.
template <class F, class Transpose, class Residuals, class X>
auto linear_call(F f, Transpose transpose, const Residuals& residuals, const X& x) {
  using Result = std::decay_t<std::invoke_result_t<F&, const Residuals&, const X&>>;
  static_assert(std::is_invocable_r_v<X, Transpose&, const Residuals&, const Result&>,
                "linear_call: the transpose must take the residuals and a cotangent of the "
                "function's result type, and return a cotangent of the linear argument's type");
  Arrays res, linear;
  detail::flatten_into(residuals, res, "linear_call");
  detail::flatten_into(x, linear, "linear_call");
  std::optional<Result> prototype;
  const auto forward = [&](std::span<const Array> xs) {
    const Result y = f(detail::with_leaves(residuals, xs.first(res.size())),
                       detail::with_leaves(x, xs.subspan(res.size())));
    prototype.emplace(detail::without_leaves(y));
    return tree_leaves(y);
  };
  const auto backward = [&](std::span<const Array> xs) {
    const X ct = transpose(detail::with_leaves(residuals, xs.first(res.size())),
                           detail::with_leaves(*prototype, xs.subspan(res.size())));
    return tree_leaves(ct);
  };
  const Arrays outs = detail::linear_call_arrays(forward, backward, res, linear);
  return detail::with_leaves(*prototype, outs);
}

/// f with what it captured made explicit, so that it can be differentiated with respect to it:
///   auto [g, hoisted] = tl::closure_convert(f, x);      // x: an example of the argument
///   g(x, hoisted) == f(x)
/// Hoisted are the traced floating-point values; f is traced for this.
template <class F, class... X>
auto closure_convert(F f, const X&... example) {
  const auto args = bind_args<F>(example...);
  using Args = std::remove_const_t<decltype(args)>;
  using Result = std::decay_t<decltype(std::apply(f, std::declval<Args&>()))>;
  Arrays leaves;
  detail::flatten_into(args, leaves, "closure_convert");
  detail::TreeCall call(f, args);
  detail::ConvertedClosure closure = detail::convert_closure(call.flat(), leaves);
  std::vector<Array> hoisted = closure.hoisted;
  closure.hoisted.clear();
  return std::pair{detail::Converted<Result, Args>(std::move(closure), call.prototype()),
                   std::move(hoisted)};
}

}  // namespace v1
}  // namespace telamon
