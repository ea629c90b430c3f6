// The jaxpr itself: construction, equality up to renaming, hashing, memos.
#include "telamon/jaxpr.hpp"

#include <atomic>
#include <cstring>

#include "core/concrete.hpp"
#include "jaxpr/memos.hpp"
#include "jaxpr/typecheck.hpp"
#include "telamon/detail/hash.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {

using detail::combine_hash;

// ---- Atom --------------------------------------------------------------------------------------

bool Atom::operator==(const Atom& o) const {
  if (var_ != o.var_) return false;
  if (is_var() || literal_.is_same(o.literal_)) return true;
  if (!(literal_.aval() == o.literal_.aval())) return false;
  return std::memcmp(detail::data_of<std::byte>(literal_), detail::data_of<std::byte>(o.literal_),
                     size_of(literal_.dtype())) == 0;
}

std::size_t Atom::hash() const {
  if (is_var()) return detail::mix_bits(static_cast<std::uint64_t>(var_));
  const std::string_view bits(detail::data_of<char>(literal_), size_of(literal_.dtype()));
  return combine_hash(literal_.aval().hash(), detail::hash_bytes(bits));
}

// ---- The node ----------------------------------------------------------------------------------

namespace detail {

/// The program itself, which detached handles share.
struct JaxprBody {
  int num_inputs = 0;
  std::vector<Aval> avals;
  std::vector<Eqn> eqns;
  Atoms outs;
  Effect effect = Effect::none;
  mutable std::atomic<std::size_t> hash{0};  // 0: not computed yet
};

struct JaxprNode {
  explicit JaxprNode(std::shared_ptr<const JaxprBody> b) : body(std::move(b)) {}

  const std::shared_ptr<const JaxprBody> body;
  mutable Memos memos;
};

namespace {

#if defined(TELAMON_DEBUG_CHECKS)
constexpr bool kCheckBinding = true;
#else
constexpr bool kCheckBinding = false;
#endif

// Locations are left out: two programs are equal if they do the same.
bool same_eqn(const Eqn& a, const Eqn& b) {
  return a.primitive == b.primitive && a.effect == b.effect &&
         a.outputs.size() == b.outputs.size() && a.inputs == b.inputs && a.params == b.params;
}

std::size_t hash_eqn(const Eqn& eqn) {
  std::size_t h = combine_hash(std::hash<const void*>{}(eqn.primitive), eqn.params.hash());
  for (const Atom& in : eqn.inputs) h = combine_hash(h, in.hash());
  return combine_hash(h, eqn.outputs.size());
}

std::size_t hash_body(const JaxprBody& body) {
  std::size_t h = static_cast<std::size_t>(body.num_inputs);
  for (const Aval& aval : body.avals) h = combine_hash(h, aval.hash());
  for (const Eqn& eqn : body.eqns) h = combine_hash(h, hash_eqn(eqn));
  for (const Atom& out : body.outs) h = combine_hash(h, out.hash());
  return h == 0 ? 1 : h;
}

}  // namespace
}  // namespace detail

// ---- Jaxpr -------------------------------------------------------------------------------------

Jaxpr::Jaxpr() {
  // Leaked: parameter structs at namespace scope hold empty jaxprs.
  static const auto* const empty = new std::shared_ptr<const detail::JaxprNode>(
      std::make_shared<detail::JaxprNode>(std::make_shared<detail::JaxprBody>()));
  node_ = *empty;
}

Jaxpr::Jaxpr(int num_inputs, std::vector<Aval> avals, std::vector<Eqn> eqns, Atoms outs) {
  auto body = std::make_shared<detail::JaxprBody>();
  body->num_inputs = num_inputs;
  body->avals = std::move(avals);
  body->eqns = std::move(eqns);
  body->outs = std::move(outs);
  for (const Eqn& eqn : body->eqns) body->effect = join(body->effect, eqn.effect);
  node_ = std::make_shared<detail::JaxprNode>(std::move(body));
  if (detail::kCheckBinding) detail::check_binding(*this);
}

Jaxpr Jaxpr::detached() const {
  return detail::naming_lack_of_memory(
      "detached", [&] { return Jaxpr(std::make_shared<detail::JaxprNode>(node_->body)); });
}

int Jaxpr::num_inputs() const { return node_->body->num_inputs; }
int Jaxpr::num_vars() const { return static_cast<int>(node_->body->avals.size()); }
const std::vector<Aval>& Jaxpr::avals() const { return node_->body->avals; }
const std::vector<Eqn>& Jaxpr::eqns() const { return node_->body->eqns; }
const Atoms& Jaxpr::outs() const { return node_->body->outs; }
Effect Jaxpr::effect() const { return node_->body->effect; }

std::vector<Aval> Jaxpr::out_avals() const {
  return detail::naming_lack_of_memory("out_avals", [&] {
    std::vector<Aval> avals;
    avals.reserve(outs().size());
    for (const Atom& out : outs()) avals.push_back(aval(out));
    return avals;
  });
}

bool Jaxpr::operator==(const Jaxpr& o) const {
  if (node_->body == o.node_->body) return true;
  const detail::JaxprBody &a = *node_->body, &b = *o.node_->body;
  const std::size_t ha = a.hash.load(std::memory_order_relaxed),
                    hb = b.hash.load(std::memory_order_relaxed);
  if (ha != 0 && hb != 0 && ha != hb) return false;
  if (a.num_inputs != b.num_inputs || a.eqns.size() != b.eqns.size() || a.avals != b.avals ||
      a.outs != b.outs) {
    return false;
  }
  for (std::size_t i = 0; i < a.eqns.size(); ++i) {
    if (!detail::same_eqn(a.eqns[i], b.eqns[i])) return false;
  }
  return true;
}

std::size_t Jaxpr::hash() const {
  const detail::JaxprBody& body = *node_->body;
  std::size_t h = body.hash.load(std::memory_order_relaxed);
  if (h == 0) {
    h = detail::hash_body(body);
    body.hash.store(h, std::memory_order_relaxed);
  }
  return h;
}

std::shared_ptr<const void> Jaxpr::memo_find(std::string_view key, std::type_index type) const {
  return node_->memos.find(key, type);
}

std::shared_ptr<const void> Jaxpr::memo_publish(std::string_view key, std::type_index type,
                                                std::shared_ptr<const void> value) const {
  return node_->memos.publish(key, type, std::move(value));
}

}  // namespace v1
}  // namespace telamon
