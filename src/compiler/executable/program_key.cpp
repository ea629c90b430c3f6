// The keys of the disk cache.
#include <llvm-c/Core.h>
#include <llvm/Support/BLAKE3.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <unordered_map>

#include "compiler/codegen/llvm_session.hpp"
#include "compiler/executable/program_store.hpp"
#include "core/build_id.hpp"
#include "core/concrete.hpp"
#include "core/environment.hpp"
#include "core/replaced_rules.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using runtime::disk_cache::Key;

// What is left of programs after lowering, of the library's own primitives. A list, since the registry does
// not tell them from those of users, whose rules no build of the library knows.
// clang-format off
constexpr std::string_view kOperations[] = {
    "abs", "acos", "acosh", "add", "and", "argmax", "argmin", "asin", "asinh", "atan", "atan2",
    "atanh", "bitcast_convert_type", "broadcast_in_dim", "cbrt", "ceil", "clamp", "clz",
    "concatenate", "cond", "convert_element_type", "copy", "cos", "cosh", "cummax", "cummin",
    "cumprod", "cumsum", "div", "dot_general", "dynamic_slice", "dynamic_update_slice", "eq",
    "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "gather", "ge", "gt",
    "integer_pow", "iota", "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min",
    "mul", "ne", "neg", "nextafter", "not", "optimization_barrier", "or", "order_statistic", "pad",
    "population_count", "pow", "reduce_and", "reduce_max", "reduce_min", "reduce_or",
    "reduce_prod", "reduce_sum", "reduce_xor", "rem", "reshape", "rev", "round", "rsqrt",
    "scan", "scatter", "scatter_add", "select_n", "shift_left", "shift_right_arithmetic",
    "shift_right_logical", "sign", "sin", "sinh", "slice", "sort", "sqrt", "square",
    "stop_gradient", "sub", "tan", "tanh", "threefry2x32", "transpose", "while", "xor"};
// clang-format on

/// What is hashed, as bytes. Every part says its length, so no two programs give the same.
class Bytes {
 public:
  /// Seven bits in a byte, the last of which is below 128: most numbers are small.
  void number(std::int64_t n) {
    make_room(10);
    auto rest = static_cast<std::uint64_t>(n);
    for (; rest >= 128; rest >>= 7) *end_++ = static_cast<std::uint8_t>(rest % 128 + 128);
    *end_++ = static_cast<std::uint8_t>(rest);
  }
  void byte(int n) {
    make_room(1);
    *end_++ = static_cast<std::uint8_t>(n);
  }
  /// Always four bytes: what is large and small by turns is quicker so.
  void word(std::uint32_t n) {
    make_room(sizeof n);
    std::memcpy(end_, &n, sizeof n);
    end_ += sizeof n;
  }
  void text(std::string_view s) {
    number(static_cast<std::int64_t>(s.size()));
    raw(s.data(), s.size());
  }
  void raw(const void* from, std::size_t size) {
    make_room(size);
    if (size > 0) std::memcpy(end_, from, size);
    end_ += size;
  }
  Key hash() const { return llvm::BLAKE3::hash<std::tuple_size_v<Key>>({bytes_.get(), size()}); }

 private:
  // No std::string: a call and a zero at the end for each byte are half the time of a key.
  void make_room(std::size_t n) {
    if (static_cast<std::size_t>(limit_ - end_) < n) [[unlikely]]
      grow(n);
  }
  void grow(std::size_t n) {
    const std::size_t old = size(), wanted = std::max<std::size_t>(2 * (old + n), 4096);
    auto grown = std::make_unique_for_overwrite<std::uint8_t[]>(wanted);
    if (old > 0) std::memcpy(grown.get(), bytes_.get(), old);
    bytes_ = std::move(grown);
    end_ = bytes_.get() + old;
    limit_ = bytes_.get() + wanted;
  }
  std::size_t size() const { return static_cast<std::size_t>(end_ - bytes_.get()); }

  std::unique_ptr<std::uint8_t[]> bytes_;
  std::uint8_t *end_ = nullptr, *limit_ = nullptr;
};

/// The variables that may change what is compiled: all of the library's but these, of which one counts by
/// its meaning.
bool is_setting(std::string_view variable) {
  constexpr std::string_view kOthers[] = {
      "TELAMON_CACHE_", "TELAMON_LOG=",      "TELAMON_NUM_THREADS=", "TELAMON_PROFILE=",
      "TELAMON_CHECK_", "TELAMON_PERF_MAP=", "TELAMON_EXPLAIN_",     "TELAMON_DISABLE="};
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
  const auto disabled = detail::environment_set("TELAMON_DISABLE");
  out.number(static_cast<std::int64_t>(disabled.size()));
  for (const std::string_view word : disabled) out.text(word);
}

/// A program as bytes. Variables are numbered in order of appearance, so names do not matter.
class ProgramBytes {
 public:
  explicit ProgramBytes(Bytes& out) : out_(out) {}

  /// False when the program cannot be known by its text.
  bool add(const Jaxpr& jaxpr) {
    out_.number(jaxpr.num_inputs());
    out_.number(jaxpr.num_vars());
    const Aval* last = nullptr;
    for (const Aval& aval : jaxpr.avals()) {
      if (last != nullptr && aval == *last) out_.byte(kSame);
      else add(aval);
      last = &aval;
    }
    out_.number(static_cast<std::int64_t>(jaxpr.eqns().size()));
    const std::span<const Eqn> eqns = jaxpr.eqns();
    for (std::size_t i = 0; i < eqns.size(); ++i) {
      if (i + kAhead < eqns.size()) fetch_literals(eqns[i + kAhead]);
      if (!add(eqns[i])) return false;
    }
    out_.number(jaxpr.num_outputs());
    for (const Atom& a : jaxpr.outs()) add(a);
    return true;
  }

 private:
  /// A primitive with its parameters: said in full where it comes first, then by its number.
  struct Application {
    const PrimitiveBase* primitive;
    Params params;
    std::uint32_t number;
    bool known;  // else the program cannot be known by its text
  };

  bool add(const Eqn& eqn) {
    const Application& applied = application(*eqn.primitive, eqn.params);
    if (!applied.known) return false;
    out_.byte(static_cast<int>(eqn.effect));
    out_.number(static_cast<std::int64_t>(eqn.inputs.size()));
    for (const Atom& a : eqn.inputs) add(a);
    out_.number(static_cast<std::int64_t>(eqn.outputs.size()));
    if (!eqn.params.has_jaxprs()) return true;
    const auto jaxprs = eqn.params.jaxprs();
    return std::all_of(jaxprs.begin(), jaxprs.end(), [&](const Jaxpr& j) { return add(j); });
  }

  // Long programs apply few primitives in few ways: mostly as the last time, which is seen without a hash.
  const Application& application(const PrimitiveBase& primitive, const Params& params) {
    const auto is_it = [&](const Application& a) {
      return a.primitive == &primitive && a.params == params;
    };
    const std::size_t of_primitive = std::hash<const void*>{}(&primitive);
    const Application*& last =
        met_last_[of_primitive / alignof(PrimitiveBase) % std::size(met_last_)];
    if (last == nullptr || !is_it(*last)) {
      const std::size_t hash = detail::combine_hash(of_primitive, params.hash());
      const auto [begin, end] = applications_.equal_range(hash);
      const auto found = std::find_if(begin, end, [&](const auto& a) { return is_it(a.second); });
      if (found == end) {
        last = &applications_.emplace(hash, introduce(primitive, params))->second;
        return *last;
      }
      last = &found->second;
    }
    out_.word(last->number);
    return *last;
  }

  Application introduce(const PrimitiveBase& primitive, const Params& params) {
    Application a{&primitive, params, static_cast<std::uint32_t>(applications_.size()), false};
    const int op = is_own_operation(primitive) ? operation(primitive) : -1;
    if (op < 0) return a;
    const Text t = text(primitive, params);
    a.known = t.complete;
    out_.word(a.number);  // one that none before has
    out_.byte(op);
    out_.text(t.fields);
    return a;
  }

  static int operation(const PrimitiveBase& primitive) {
    return static_cast<int>(
        std::lower_bound(std::begin(kOperations), std::end(kOperations), primitive.name()) -
        std::begin(kOperations));
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
    if (a.is_var()) return out_.word(static_cast<std::uint32_t>(a.var()) + 1);
    out_.word(kLiteral);
    add(a.literal().aval());
    const auto* bytes = detail::data_of<char>(a.literal());
    const std::size_t size = size_of(a.literal().dtype());
    std::uint32_t word = 0;
    if (size != sizeof word) return out_.raw(bytes, size);
    std::memcpy(&word, bytes, sizeof word);  // mostly; no call for it
    out_.word(word);
  }
  void add(const Aval& aval) {
    out_.byte(2 * static_cast<int>(aval.dtype) + (aval.weak_type ? 1 : 0));
    out_.number(aval.ndim());
    for (const std::int64_t d : aval.shape) out_.number(d);
  }

  // Literals lie where the trace made them, all over the memory: to wait for one after the other takes
  // longer than all the rest. (Inline: GCC leaves out calls of functions that only fetch.)
  static constexpr std::size_t kAhead = 16;  // equations
  [[gnu::always_inline]] static void fetch_literals(const Eqn& eqn) {
    for (const Atom& a : eqn.inputs) {
      if (a.is_var()) continue;
      const auto* node = reinterpret_cast<const char*>(a.literal().node_or_null());
      __builtin_prefetch(node);
      __builtin_prefetch(node + 64);
    }
  }

  static constexpr std::uint32_t kLiteral = 0;  // else the number of a variable, from 1 on
  static constexpr int kSame = 255;             // as the aval before: no dtype
  Bytes& out_;
  std::unordered_multimap<std::size_t, Application> applications_;  // by hash
  const Application* met_last_[256] = {};
};

}  // namespace

std::span<const std::string_view> stored_operations() { return kOperations; }

bool is_own_operation(const PrimitiveBase& primitive) {
  return std::binary_search(std::begin(kOperations), std::end(kOperations), primitive.name()) &&
         !detail::has_replaced_rules(primitive);
}

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

std::optional<Key> program_key(const Jaxpr& lowered, const std::vector<bool>& donated,
                               const runtime::CompileOptions& options, const std::string& build) {
  Bytes bytes;
  bytes.text("program");
  add_settings(bytes, build);
  bytes.byte(options.contract ? 1 : 0);
  bytes.byte(options.profile ? 1 : 0);
  bytes.byte(options.donated ? 1 : 0);
  for (const bool d : donated) bytes.byte(d ? 1 : 0);  // as many as the program has inputs
  bytes.number(static_cast<std::int64_t>(options.disabled.size()));
  for (const std::string& pass : options.disabled) bytes.text(pass);
  if (!ProgramBytes(bytes).add(lowered)) return std::nullopt;
  return bytes.hash();
}

Key image_key(const std::string& ir) {
  Bytes bytes;
  bytes.text("image");
  add_settings(bytes, this_build());
  bytes.text(ir);
  return bytes.hash();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
