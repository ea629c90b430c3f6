// The keys of the disk cache.
#include <llvm-c/Core.h>
#include <llvm/Support/BLAKE3.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_map>

#include "compiler/llvm_session.hpp"
#include "compiler/program_store.hpp"
#include "core/build_id.hpp"
#include "core/concrete.hpp"
#include "core/replaced_lowering.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using runtime::disk_cache::Key;

// What is left of programs after lowering. Others may have rules of users.
// clang-format off
constexpr std::string_view kOperations[] = {
    "abs", "acos", "acosh", "add", "and", "asin", "asinh", "atan", "atan2", "atanh",
    "bitcast_convert_type", "broadcast_in_dim", "cbrt", "ceil", "clamp", "clz", "concatenate",
    "cond", "convert_element_type", "copy", "cos", "cosh", "cummax", "cummin", "cumprod", "cumsum",
    "div", "dot_general", "dynamic_slice", "dynamic_update_slice", "eq", "erf", "erf_inv", "erfc",
    "exp", "exp2", "expm1", "floor", "gather", "ge", "gt", "integer_pow", "iota", "is_finite", "le",
    "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "nextafter", "not",
    "optimization_barrier", "or", "pad", "population_count", "pow", "reduce_and", "reduce_max",
    "reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "reduce_xor", "rem", "reshape", "rev",
    "round", "rsqrt", "scan", "scatter", "scatter_add", "select_n", "shift_left",
    "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh", "slice", "sort", "sqrt",
    "square", "stop_gradient", "sub", "tan", "tanh", "threefry2x32", "transpose", "while", "xor"};
// clang-format on

/// What is hashed, as bytes. Every part says its length, so no two programs give the same.
class Bytes {
 public:
  /// Seven bits in a byte, the last of which is below 128: most numbers are small.
  void number(std::int64_t n) {
    auto rest = static_cast<std::uint64_t>(n);
    for (; rest >= 128; rest >>= 7) byte(static_cast<int>(rest % 128 + 128));
    byte(static_cast<int>(rest));
  }
  void byte(int n) { bytes_ += static_cast<char>(n); }
  void text(std::string_view s) {
    number(static_cast<std::int64_t>(s.size()));
    bytes_ += s;
  }
  void raw(const void* from, std::size_t size) {
    bytes_.append(static_cast<const char*>(from), size);
  }
  Key hash() const {
    return llvm::BLAKE3::hash<std::tuple_size_v<Key>>(
        {reinterpret_cast<const std::uint8_t*>(bytes_.data()), bytes_.size()});
  }

 private:
  std::string bytes_;
};

/// The variables that may change what is compiled: all of the library's but these.
bool is_setting(std::string_view variable) {
  constexpr std::string_view kOthers[] = {
      "TELAMON_CACHE_", "TELAMON_LOG=",      "TELAMON_NUM_THREADS=", "TELAMON_PROFILE=",
      "TELAMON_CHECK_", "TELAMON_PERF_MAP=", "TELAMON_EXPLAIN_"};
  return variable.starts_with("TELAMON_") &&
         std::none_of(std::begin(kOthers), std::end(kOthers),
                      [&](std::string_view other) { return variable.starts_with(other); });
}

void add_settings(Bytes& out, const std::string& build) {
  out.text(build);
  std::set<std::string_view> settings;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    if (is_setting(*variable)) settings.insert(*variable);
  }
  out.number(static_cast<std::int64_t>(settings.size()));
  for (const std::string_view s : settings) out.text(s);
}

/// A program as bytes. Variables are numbered in order of appearance, so names do not matter.
class ProgramBytes {
 public:
  explicit ProgramBytes(Bytes& out) : out_(out) {}

  /// False when the program cannot be known by its text.
  bool add(const Jaxpr& jaxpr) {
    out_.number(jaxpr.num_inputs());
    out_.number(jaxpr.num_vars());
    for (const Aval& aval : jaxpr.avals()) add(aval);
    out_.number(static_cast<std::int64_t>(jaxpr.eqns().size()));
    for (const Eqn& eqn : jaxpr.eqns()) {
      if (!add(eqn)) return false;
    }
    out_.number(jaxpr.num_outputs());
    for (const Atom& a : jaxpr.outs()) add(a);
    return true;
  }

 private:
  bool add(const Eqn& eqn) {
    const auto [known, fresh] = operations_.try_emplace(eqn.primitive, -1);
    if (fresh) known->second = operation(*eqn.primitive);
    if (known->second < 0) return false;
    out_.byte(known->second);
    out_.byte(static_cast<int>(eqn.effect));
    out_.number(static_cast<std::int64_t>(eqn.inputs.size()));
    for (const Atom& a : eqn.inputs) add(a);
    out_.number(static_cast<std::int64_t>(eqn.outputs.size()));
    return add(*eqn.primitive, eqn.params);
  }

  static int operation(const PrimitiveBase& primitive) {
    const auto* found =
        std::lower_bound(std::begin(kOperations), std::end(kOperations), primitive.name());
    const bool own = found != std::end(kOperations) && *found == primitive.name() &&
                     !detail::has_replaced_lowering(primitive);
    return own ? static_cast<int>(found - std::begin(kOperations)) : -1;
  }

  bool add(const PrimitiveBase& primitive, const Params& params) {
    const auto [known, fresh] = texts_.try_emplace(params);
    Text& t = known->second;
    if (fresh) t = text(primitive, params);
    if (!t.complete) return false;
    out_.text(t.fields);
    for (const Jaxpr& j : params.jaxprs()) {
      if (!add(j)) return false;
    }
    return true;
  }

  struct Text {
    std::string fields;
    bool complete = false;
  };
  // The fields with empty programs in place of those inside, if they read back as what they were.
  static Text text(const PrimitiveBase& primitive, const Params& params) {
    const Params plain = params.has_jaxprs()
                             ? params.with_jaxprs(std::vector<Jaxpr>(params.jaxprs().size()))
                             : params;
    ParamsText fields{.fields = plain.fields()};
    Text t;
    for (const auto& [name, value] : fields.fields) {
      t.fields.append(name).append(1, '=').append(value).append(1, '\0');
    }
    fields.read_jaxpr = [](std::string_view, Jaxpr& out) { out = Jaxpr(); };
    const auto& parse = primitive.rules().parse_params;
    try {
      t.complete = fields.fields.empty() || (parse && parse(fields) == plain);
    } catch (const Error&) {}  // a text that cannot be read
    return t;
  }

  void add(const Atom& a) {
    if (a.is_var()) return out_.number(a.var() + 1);
    out_.number(kLiteral);
    add(a.literal().aval());
    out_.raw(detail::data_of<char>(a.literal()), size_of(a.literal().dtype()));
  }
  void add(const Aval& aval) {
    out_.byte(static_cast<int>(aval.dtype));
    out_.byte(aval.weak_type ? 1 : 0);
    out_.number(aval.ndim());
    for (const std::int64_t d : aval.shape) out_.number(d);
  }

  static constexpr std::int64_t kLiteral = 0;  // else the number of a variable, from 1 on
  struct ParamsHash {
    std::size_t operator()(const Params& p) const { return p.hash(); }
  };

  Bytes& out_;
  std::unordered_map<const PrimitiveBase*, int> operations_;
  std::unordered_map<Params, Text, ParamsHash> texts_;
};

}  // namespace

std::span<const std::string_view> stored_operations() { return kOperations; }

const std::string& this_build() {
  static const auto* text = [] {
    unsigned major = 0, minor = 0, patch = 0;
    LLVMGetVersion(&major, &minor, &patch);
    return new std::string(std::string(detail::build_id()) + " LLVM " + std::to_string(major) +
                           "." + std::to_string(minor) + "." + std::to_string(patch) + " " +
                           target_features());
  }();
  return *text;
}

std::optional<Key> program_key(const Jaxpr& lowered, const runtime::CompileOptions& options,
                               const std::string& build) {
  Bytes bytes;
  bytes.text("program");
  add_settings(bytes, build);
  bytes.byte(options.contract ? 1 : 0);
  bytes.byte(options.profile ? 1 : 0);
  bytes.number(static_cast<std::int64_t>(options.disabled.size()));
  for (const std::string& pass : options.disabled) bytes.text(pass);
  if (!ProgramBytes(bytes).add(lowered)) return std::nullopt;
  return bytes.hash();
}

Key object_key(const std::string& ir) {
  Bytes bytes;
  bytes.text("object");
  add_settings(bytes, this_build());
  bytes.text(ir);
  return bytes.hash();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
