// Params: the parameters of one equation, erased. A primitive declares them as a plain struct
//
//   struct Broadcast { Shape shape; Shape dimensions; };
//
// and everything that an IR needs of them comes by reflection of its members: equality and hash
// (for CSE and caches), text and parsing (for printed jaxprs), and the jaxprs inside (for passes).
// Values are immutable and shared; a Params is one pointer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

#include "telamon/config.hpp"
#include "telamon/detail/read_value.hpp"
#include "telamon/detail/value.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {

class Jaxpr;
class Params;

/// The parameters of a primitive that has none.
struct NoParams {
  bool operator==(const NoParams&) const = default;
};

/// A parameter as text: its name and its value.
using ParamText = std::pair<std::string, std::string>;

/// The parameters of an equation as text, to be parsed.
struct ParamsText {
  std::vector<ParamText> fields = {};
  std::vector<std::string> ignored = {};  ///< names that may be given although there is no member
  JaxprReader read_jaxpr = {};            ///< for jaxpr-valued members
};

namespace detail {

struct ParamsNode;

/// What is particular to one parameter struct.
struct ParamsTable {
  const std::type_info* type;
  bool (*equal)(const ParamsNode&, const ParamsNode&);
  std::size_t (*hash)(const ParamsNode&);
  void (*append_fields)(const ParamsNode&, std::vector<ParamText>&);
  void (*collect_jaxprs)(const ParamsNode&, std::vector<Jaxpr>&);       // null: holds none
  Params (*replace_jaxprs)(const ParamsNode&, std::span<const Jaxpr>);  // null: holds none
  void (*destroy)(const ParamsNode*);
};

struct ParamsNode {
  const ParamsTable* table;
  bool immortal = false;  // nodes of empty structs are constants: no allocation, no counting
  mutable std::atomic<std::uint32_t> references{1};
  mutable std::atomic<std::size_t> hash{0};  // 0: not computed yet
};

template <class P>
struct ParamsHolder : ParamsNode {
  constexpr ParamsHolder(const ParamsTable* t, bool constant, P&& v)
      : ParamsNode{t, constant}, value(std::move(v)) {}
  P value;
};

template <class P>
struct ParamsTableOf {
  static const ParamsTable table;
};
template <class P>
inline constexpr const ParamsTable* params_table = &ParamsTableOf<P>::table;

/// Structs without members have one constant node per type.
template <class P>
inline constinit const ParamsHolder<P> constant_params{params_table<P>, true, P{}};

[[noreturn]] TELAMON_API void wrong_params_type(const std::type_info& wanted,
                                                const std::type_info& held);
[[noreturn]] TELAMON_API void wrong_jaxpr_count(std::size_t wanted, std::size_t given);

}  // namespace detail

class TELAMON_API Params {
 public:
  /// NoParams.
  Params() noexcept : node_(&detail::constant_params<NoParams>) {}
  Params(const Params& o) noexcept : node_(o.node_) { retain(); }
  Params(Params&& o) noexcept : node_(std::exchange(o.node_, &detail::constant_params<NoParams>)) {}
  Params& operator=(Params o) noexcept {
    std::swap(node_, o.node_);
    return *this;
  }
  ~Params() { release(); }

  template <class P>
  static Params of(P params) {
    if constexpr (std::is_empty_v<P>) return Params(&detail::constant_params<P>);
    else
      return Params(new detail::ParamsHolder<P>(detail::params_table<P>, false, std::move(params)));
  }

  /// Reads a parameter struct from texts such as fields() gives, in any order. A missing parameter
  /// keeps the member's default; an unknown one is a ParseError unless it is ignored.
  template <class P>
  static Params parse(const ParamsText& text);

  /// The parameter struct; an InternalError when it is of another type.
  template <class P>
  const P& as() const {
    if (!holds<P>()) detail::wrong_params_type(typeid(P), *node_->table->type);
    return static_cast<const detail::ParamsHolder<P>*>(node_)->value;
  }
  template <class P>
  bool holds() const {
    return node_->table == detail::params_table<P> || *node_->table->type == typeid(P);
  }
  std::type_index type() const { return *node_->table->type; }

  /// Member by member; see telamon/detail/value.hpp for how each kind compares.
  bool operator==(const Params& o) const;
  std::size_t hash() const;

  /// The members as text, sorted by name.
  std::vector<ParamText> fields() const;
  /// "axes=(0,) dtype=f32", or "" without members.
  std::string to_string() const;

  /// The jaxprs among the members, in member order.
  std::vector<Jaxpr> jaxprs() const;
  bool has_jaxprs() const { return node_->table->collect_jaxprs != nullptr; }
  /// The same parameters with these jaxprs in place of jaxprs().
  Params with_jaxprs(const std::vector<Jaxpr>& jaxprs) const;

 private:
  explicit Params(const detail::ParamsNode* node) noexcept : node_(node) {}
  void retain() const {
    if (!node_->immortal) node_->references.fetch_add(1, std::memory_order_relaxed);
  }
  void release() const {
    if (!node_->immortal && node_->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
      node_->table->destroy(node_);
  }
  const detail::ParamsNode* node_;
};
TELAMON_API std::ostream& operator<<(std::ostream& os, const Params& params);

namespace detail {

template <class P>
const P& held(const ParamsNode& node) {
  return static_cast<const ParamsHolder<P>&>(node).value;
}

template <class P>
void append_fields(const ParamsNode& node, std::vector<ParamText>& out) {
  for_each_field(held<P>(node), [&](std::string_view name, const auto& member) {
    std::string text;
    append_value(text, member);
    out.emplace_back(name, std::move(text));
  });
}

template <class P>
void collect_jaxprs(const ParamsNode& node, std::vector<Jaxpr>& out) {
  visit_jaxprs(held<P>(node), [&](const auto& jaxpr) { out.push_back(jaxpr); });
}

template <class P, class J>  // J is Jaxpr, which need not be complete yet
Params replace_jaxprs(const ParamsNode& node, std::span<const J> jaxprs) {
  P copy = held<P>(node);
  std::size_t count = 0;
  visit_jaxprs(copy, [&](auto& jaxpr) {
    if (count < jaxprs.size()) jaxpr = jaxprs[count];
    ++count;
  });
  if (count != jaxprs.size()) wrong_jaxpr_count(count, jaxprs.size());
  return Params::of(std::move(copy));
}

template <class P>
consteval ParamsTable make_params_table() {
  ParamsTable table{
      .type = &typeid(P),
      .equal = [](const ParamsNode& a,
                  const ParamsNode& b) { return value_equal(held<P>(a), held<P>(b)); },
      .hash = [](const ParamsNode& node) { return value_hash(held<P>(node)); },
      .append_fields = &append_fields<P>,
      .collect_jaxprs = nullptr,
      .replace_jaxprs = nullptr,
      .destroy = [](const ParamsNode* node) { delete static_cast<const ParamsHolder<P>*>(node); },
  };
  if constexpr (holds_jaxpr<P>()) {
    table.collect_jaxprs = &collect_jaxprs<P>;
    table.replace_jaxprs = &replace_jaxprs<P, Jaxpr>;
  }
  return table;
}

template <class P>
constinit const ParamsTable ParamsTableOf<P>::table = make_params_table<P>();

/// A ParseError unless `name` is among the ignored ones.
TELAMON_API void check_ignored(std::string_view name, const ParamsText& text,
                               std::span<const std::string_view> known);

}  // namespace detail

template <class P>
Params Params::parse(const ParamsText& text) {
  P params{};
  for (const auto& given : text.fields) {
    const auto& name = given.first;
    bool found = false;
    for_each_field(params, [&](std::string_view field, auto& member) {
      if (field != name) return;
      found = true;
      detail::TextReader in(given.second, name);
      detail::read_value(in, member, text.read_jaxpr);
      in.expect_end();
    });
    if (!found) detail::check_ignored(name, text, detail::field_names_of<P>);
  }
  return of(std::move(params));
}

}  // namespace v1
}  // namespace telamon
