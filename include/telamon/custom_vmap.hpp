// custom_vmap: a function with a rule for batches.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "telamon/detail/custom_state.hpp"
#include "telamon/detail/linear_call.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

template <class F, class Rule>
class CustomVmap {
 public:
  CustomVmap(F f, Rule rule, CustomOptions options)
      : state_(std::make_shared<State>(std::move(options), std::move(f), std::move(rule))) {}
  // No moves: a moved-from one is a copy, and stays valid.
  CustomVmap(const CustomVmap&) = default;
  CustomVmap& operator=(const CustomVmap&) = default;
  using signature = signature_of<F>;
  bool identity(KeyBuilder& key) const { return state_->identity(key); }

  template <class... X>
  auto operator()(const X&... x) const {
    return call(bind_args<F>(x...));
  }

 private:
  using State = CustomState<F, Rule>;
  template <class Args> using Mask = std::array<bool, std::tuple_size_v<Args>>;

  template <class Args>
  auto call(const Args& args) const {
    using Result = ReturnedBy<F, Args>;
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
    flatten_into(args, leaves, "custom_vmap", "args");
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
    return std::apply([&](auto&... a) { return (*std::get<0>(state.rules))(size, mask, a...); },
                      args);
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

}  // namespace detail

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

}  // namespace v1
}  // namespace telamon
