// checkpoint: trades memory for work in reverse mode. The backward pass computes again what the
// forward pass did not save; a policy says what may be saved.
//
//   auto layer = tl::checkpoint(apply_layer, {.policy = tl::checkpoint_policies::dots_saveable()});
//   std::cout << tl::saved_residuals(loss, params, x);     // what the backward pass keeps in memory
#pragma once

#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "telamon/detail/call.hpp"
#include "telamon/detail/located.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/detail/rule_handle.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {

/// Which intermediate values of a checkpointed function may be saved for its backward pass. Its
/// arguments always may.
class TELAMON_API CheckpointPolicy {
 public:
  enum class Kind : std::uint8_t {
    nothing_saveable,
    everything_saveable,
    dots_saveable,
    dots_with_no_batch_dims_saveable,
    save_only_these_names,
    save_anything_except_these_names,
    custom
  };
  CheckpointPolicy(Kind kind = Kind::nothing_saveable, std::vector<std::string> names = {});
  /// What `saves` answers for the equation that computes a value.
  explicit CheckpointPolicy(std::function<bool(const Eqn&)> saves);

  bool saves(const Eqn& eqn) const;
  bool operator==(const CheckpointPolicy& o) const = default;
  std::size_t hash() const;
  std::string to_string() const;  ///< "dots_saveable", "'save_only_these_names(a, b)'"
  static CheckpointPolicy from_text(std::string_view text);

 private:
  Kind kind_;
  std::vector<std::string> names_;
  detail::RuleHandle<std::function<bool(const Eqn&)>> custom_;
};
TELAMON_API std::ostream& operator<<(std::ostream& os, const CheckpointPolicy& policy);

namespace checkpoint_policies {

/// Everything is computed again.
inline CheckpointPolicy nothing_saveable() { return {}; }
/// Nothing is: as without checkpoint.
inline CheckpointPolicy everything_saveable() {
  return CheckpointPolicy::Kind::everything_saveable;
}
/// Results of matrix products are saved.
inline CheckpointPolicy dots_saveable() { return CheckpointPolicy::Kind::dots_saveable; }
/// The same, but for products with batch dimensions.
inline CheckpointPolicy dots_with_no_batch_dims_saveable() {
  return CheckpointPolicy::Kind::dots_with_no_batch_dims_saveable;
}
/// Values are saved to which `checkpoint_name` gave one of these names.
inline CheckpointPolicy save_only_these_names(std::initializer_list<std::string> names) {
  return {CheckpointPolicy::Kind::save_only_these_names, names};
}
/// All values but those named.
inline CheckpointPolicy save_anything_except_these_names(std::initializer_list<std::string> names) {
  return {CheckpointPolicy::Kind::save_anything_except_these_names, names};
}
/// A function of the equation that computes the value.
inline CheckpointPolicy saves_where(std::function<bool(const Eqn&)> saves) {
  return CheckpointPolicy(std::move(saves));
}

}  // namespace checkpoint_policies

struct CheckpointOptions {
  CheckpointPolicy policy = {};
  /// Keeps compilers from merging the second computation with the first, which would undo it.
  bool prevent_cse = true;
  /// What printed programs and errors call the function.
  std::string name = "f";
};

/// A call whose residuals are computed again by the backward pass. The first `num_consts` operands
/// are what the function captured.
struct CheckpointParams {
  Jaxpr jaxpr;
  CheckpointPolicy policy;
  bool prevent_cse = true;
  bool differentiated =
      false;  ///< holds a second computation: reads its operands through a barrier
  std::string name;
};
extern TELAMON_API const Primitive<CheckpointParams> checkpoint_p;

/// Identities: name gives policies something to refer to; optimization_barrier computes none of its
/// results before all its operands, and no pass looks through it.
struct NameParams {
  std::string name;
};
extern TELAMON_API const Primitive<NameParams> name_p;
extern TELAMON_API const Primitive<> optimization_barrier_p;

/// What a backward pass keeps, one line for each value: "f32[3] output of sin from train.cpp:31".
struct SavedResidual {
  Aval aval;
  std::string description;
};
class TELAMON_API SavedResiduals : public std::vector<SavedResidual> {
 public:
  using std::vector<SavedResidual>::vector;
  std::size_t bytes() const;
  std::string to_string() const;
};
TELAMON_API std::ostream& operator<<(std::ostream& os, const SavedResiduals& residuals);

namespace detail {

TELAMON_API Arrays checkpoint_arrays(const FlatFunction& f, std::span<const Array> args,
                                     const CheckpointOptions& options);
TELAMON_API SavedResiduals saved_residuals_arrays(const FlatFunction& f,
                                                  std::span<const Array> args,
                                                  const LeafName& leaf_name);

template <class F>
class Checkpointed {
 public:
  Checkpointed(F f, CheckpointOptions options, SourceLocation where)
      : f_(std::move(f)), options_(std::move(options)), where_(where) {}
  using signature = signature_of<F>;
  bool identity(KeyBuilder& key) const {
    key.add_string(options_.policy.to_string());
    key.add_string(options_.name);
    key.add(options_.prevent_cse);
    return code_identity(*f_, key);
  }

  template <class... X>
  auto operator()(const X&... x) const {
    return in_function("checkpoint", where_, [&] {
      const auto args = bind_args<F>(x...);
      Arrays leaves;
      flatten_into(args, leaves, "checkpoint", "args");
      TreeCall call(*f_, args);
      const Arrays outs = checkpoint_arrays(call.flat(), leaves, options_);
      return call.result(outs);
    });
  }

 private:
  Callee<F> f_;
  CheckpointOptions options_;
  SourceLocation where_;  // where it was asked for
};

struct SavedResidualsOf {
  template <class F, class... X>
  static SavedResiduals call(SourceLocation where, F f, const X&... x) {
    return in_transform("saved_residuals", where, [&] {
      const auto args = bind_args<F>(x...);
      Arrays leaves;
      flatten_into(args, leaves, "saved_residuals", "args");
      TreeCall call(f, args);
      return saved_residuals_arrays(call.flat(), leaves, leaf_names(args));
    });
  }
};

}  // namespace detail

/// f, of whose values reverse mode saves only what the policy allows (by default nothing but the
/// arguments); the backward pass computes the others again. Also under jit.
template <class F>
auto checkpoint(F f, CheckpointOptions options = {},
                SourceLocation where = SourceLocation::current()) {
  return detail::Checkpointed<F>(std::move(f), std::move(options), where);
}

/// The tree with its Arrays named, for policies and reports.
template <class T>
T checkpoint_name(const T& tree, const std::string& name,
                  SourceLocation where = SourceLocation::current()) {
  return detail::in_call("checkpoint_name", where, [&] {
    detail::check_no_empty_leaf(tree, "checkpoint_name");
    return tree_map([&](const Array& x) { return name_p.bind1({name}, {x}); }, tree);
  });
}

/// The tree itself, of which no Array is available before all are. Passes do not look through it.
template <class T>
T optimization_barrier(const T& tree, SourceLocation where = SourceLocation::current()) {
  return detail::in_call("optimization_barrier", where, [&] {
    Arrays leaves;
    detail::flatten_into(tree, leaves, "optimization_barrier");
    return leaves.empty() ? tree
                          : detail::with_leaves(tree, optimization_barrier_p.bind({}, leaves));
  });
}

/// What reverse mode through f would keep in memory:  tl::saved_residuals(f, x...).
inline constexpr detail::Located<detail::SavedResidualsOf> saved_residuals{};

}  // namespace v1
}  // namespace telamon
