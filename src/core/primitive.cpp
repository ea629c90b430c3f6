// The registry of primitives, and their lazily built rule tables.
#include "telamon/primitive.hpp"

#include <algorithm>
#include <mutex>
#include <set>

#include "core/concrete.hpp"
#include "core/replaced_rules.hpp"
#include "core/trace.hpp"
#include "interpreters/interpreters.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace {

// Leaked, and made on first use: primitives register themselves during static initialisation.
struct Registry {
  std::mutex mutex;
  std::vector<const PrimitiveBase*> primitives;
  std::vector<const detail::RuleTable*> retired;  // of destroyed primitives
  std::set<const PrimitiveBase*> extended;        // by rules, since they were made
};
Registry& registry() {
  static auto* const r = new Registry;
  return *r;
}

}  // namespace

PrimitiveBase::PrimitiveBase(const char* name, Builder build)
    : name_(name), build_(std::move(build)) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  // No exception: this may be before main.
  name_taken_ = std::any_of(r.primitives.begin(), r.primitives.end(),
                            [&](const PrimitiveBase* p) { return p->name() == this->name(); });
  r.primitives.push_back(this);
}

// Only primitives with less than static storage duration (in tests) leave the registry in practice.
// The table itself is never destroyed: equations of longer-lived jaxprs may still refer to it.
PrimitiveBase::~PrimitiveBase() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  std::erase(r.primitives, this);
  r.retired.push_back(table_.load(std::memory_order_acquire));
}

const detail::RuleTable& PrimitiveBase::rules() const {
  if (const detail::RuleTable* table = table_.load(std::memory_order_acquire)) return *table;
  auto built = std::make_unique<detail::RuleTable>(build_());
  detail::derive_missing_rules(*built);
  detail::RuleTable* expected = nullptr;
  if (table_.compare_exchange_strong(expected, built.get(), std::memory_order_acq_rel))
    return *built.release();
  return *expected;  // another thread was faster
}

detail::RuleTable& PrimitiveBase::mutable_rules() const {
  {
    const std::lock_guard lock(registry().mutex);
    registry().extended.insert(this);
  }
  return const_cast<detail::RuleTable&>(rules());
}

void PrimitiveBase::add_lowering(std::string platform, Lowering lowering) const {
  detail::RuleTable& table = mutable_rules();
  table.lower[std::move(platform)] = std::move(lowering);
  detail::derive_missing_rules(table);
}

bool detail::has_replaced_rules(const PrimitiveBase& primitive) {
  const std::lock_guard lock(registry().mutex);
  return registry().extended.contains(&primitive);
}

bool PrimitiveBase::has_rule(std::string_view rule) const {
  const detail::RuleTable& t = rules();
  if (rule == "impl") return static_cast<bool>(t.impl);
  if (rule == "abstract_eval") return static_cast<bool>(t.abstract_eval);
  if (rule == "jvp") return static_cast<bool>(t.jvp);
  if (rule == "transpose") return static_cast<bool>(t.transpose);
  if (rule == "batch") return static_cast<bool>(t.batch);
  if (rule == "partial_eval") return static_cast<bool>(t.partial_eval);
  if (rule == "partial_eval_values") return static_cast<bool>(t.partial_eval_values);
  if (rule == "dce") return static_cast<bool>(t.dce);
  if (rule == "lower") return !t.lower.empty();
  throw ValueError("has_rule: no rule is called '" + std::string(rule) + "'");
}

std::vector<const PrimitiveBase*> PrimitiveBase::all() {
  Registry& r = registry();
  std::vector<const PrimitiveBase*> sorted;
  {
    const std::lock_guard lock(r.mutex);
    sorted = r.primitives;
  }
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->name() < b->name(); });
  return sorted;
}

const PrimitiveBase* PrimitiveBase::find(std::string_view name) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  for (const PrimitiveBase* p : r.primitives) {
    if (p->name() == name) return p;
  }
  return nullptr;
}

Emitter::~Emitter() = default;

Array Tangent::instantiate() const {
  if (!is_zero()) return value_;
  if (aval_.dtype == DType::float0) { throw InternalError("a zero of dtype float0 has no array"); }
  // A literal and an equation, not a constant array: under a trace nothing is captured.
  const Array zero = detail::full_of({{}, aval_.dtype, aval_.weak_type}, 0);
  if (aval_.shape.empty()) return zero;
  return broadcast_in_dim_p.bind1({.shape = aval_.shape, .broadcast_dimensions = {}}, {zero});
}

}  // namespace v1
}  // namespace telamon
