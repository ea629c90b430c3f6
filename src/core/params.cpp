// Params: the untemplated half.
#include "telamon/params.hpp"

#include <algorithm>
#include <ostream>

#include "core/counted.hpp"
#include "telamon/detail/hash.hpp"
#include "telamon/detail/text.hpp"

namespace telamon {
inline namespace v1 {

bool Params::operator==(const Params& o) const {
  if (node_ == o.node_) return true;
  // Each library has its own table of a type; where they differ names tell.
  if (node_->table != o.node_->table && *node_->table->type != *o.node_->table->type) return false;
  const std::size_t a = node_->hash.load(std::memory_order_relaxed);
  const std::size_t b = o.node_->hash.load(std::memory_order_relaxed);
  if (a != 0 && b != 0 && a != b) return false;
  return node_->table->equal(*node_, *o.node_);
}

std::size_t Params::hash() const {
  std::size_t h = node_->hash.load(std::memory_order_relaxed);
  if (h == 0) {
    h = node_->table->hash(*node_);  // the type's would be that of its name, read byte by byte
    if (h == 0) h = 1;
    node_->hash.store(h, std::memory_order_relaxed);
  }
  return h;
}

std::vector<ParamText> Params::fields() const {
  std::vector<ParamText> out;
  node_->table->append_fields(*node_, out);
  std::sort(out.begin(), out.end());
  return out;
}

std::string Params::to_string() const {
  std::string out;
  for (const auto& [name, text] : fields()) {
    if (!out.empty()) out += ' ';
    out += name;
    out += '=';
    out += text;
  }
  return out;
}

std::ostream& operator<<(std::ostream& os, const Params& params) {
  return os << params.to_string();
}

namespace detail {

std::uint64_t next_identity() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void wrong_params_type(const std::type_info& wanted, const std::type_info& held) {
  throw InternalError("parameters of type " + type_name(held.name()) + " were read as " +
                      type_name(wanted.name()));
}

void wrong_jaxpr_count(std::size_t wanted, std::size_t given) {
  throw InternalError("with_jaxprs: the parameters hold " + counted(wanted, "jaxpr") + ", not " +
                      std::to_string(given));
}

void check_ignored(std::string_view name, const ParamsText& text,
                   std::span<const std::string_view> known) {
  if (std::find(text.ignored.begin(), text.ignored.end(), name) != text.ignored.end()) return;
  std::string message = "unknown parameter '" + std::string(name) + "'; the parameters are";
  if (known.empty()) message += " none";
  const char* separator = " ";
  for (std::string_view k : known) {
    message += separator;
    message += k;
    separator = ", ";
  }
  throw ParseError(message);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
