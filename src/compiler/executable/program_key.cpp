// The keys of the disk cache.
#include <llvm-c/Core.h>
#include <llvm/Support/BLAKE3.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <unordered_map>

#include "compiler/by_primitive.hpp"
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
  /// Room for so many words, which `written` closes: many small steps of the end would be half the time of a key.
  std::uint8_t* room_for_words(std::size_t n) {
    make_room(n * sizeof(std::uint32_t));
    return end_;
  }
  static std::uint8_t* put_word(std::uint8_t* at, std::uint32_t n) {
    std::memcpy(at, &n, sizeof n);
    return at + sizeof n;
  }
  void written(std::uint8_t* end) { end_ = end; }
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
    add(jaxpr.avals());
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
  /// All of an equation but its variables and literals: said in full where it comes first, then by its number.
  struct Application {
    const PrimitiveBase* primitive;
    Params params;
    Effect effect;
    std::size_t inputs, outputs;
    std::uint32_t number;
    bool known, has_jaxprs;  // unless it is known, the program cannot be known by its text
    bool is_of(const Eqn& eqn) const {
      return primitive == eqn.primitive && inputs == eqn.inputs.size() &&
             outputs == eqn.outputs.size() && effect == eqn.effect && params == eqn.params;
    }
  };

  bool add(const Eqn& eqn) {
    const Application& applied = application(eqn);
    if (!applied.known) return false;
    std::uint8_t* end = out_.room_for_words(1 + applied.inputs);
    end = Bytes::put_word(end, applied.number);
    bool literals = false;
    for (const Atom& a : eqn.inputs) {
      end = Bytes::put_word(end, word_of(a));
      literals = literals || a.is_literal();
    }
    out_.written(end);
    if (literals) {
      for (const Atom& a : eqn.inputs)
        if (a.is_literal()) add_literal(a);
    }
    if (!applied.has_jaxprs) return true;
    const auto jaxprs = eqn.params.jaxprs();
    return std::all_of(jaxprs.begin(), jaxprs.end(), [&](const Jaxpr& j) { return add(j); });
  }

  // Long programs apply few primitives in few ways: mostly as the last time, which is seen without a hash.
  const Application& application(const Eqn& eqn) {
    const Application*& last = met_last_[eqn.primitive];
    if (last != nullptr && last->is_of(eqn)) return *last;
    const std::size_t hash =
        detail::combine_hash(std::hash<const void*>{}(eqn.primitive), eqn.params.hash());
    const auto [begin, end] = applications_.equal_range(hash);
    const auto found = std::find_if(begin, end, [&](const auto& a) { return a.second.is_of(eqn); });
    last = found != end ? &found->second : &applications_.emplace(hash, introduce(eqn))->second;
    return *last;
  }

  // The number is one that none before has, and comes once more with the variables.
  Application introduce(const Eqn& eqn) {
    Application a{.primitive = eqn.primitive,
                  .params = eqn.params,
                  .effect = eqn.effect,
                  .inputs = eqn.inputs.size(),
                  .outputs = eqn.outputs.size(),
                  .number = static_cast<std::uint32_t>(applications_.size()),
                  .known = false,
                  .has_jaxprs = eqn.params.has_jaxprs()};
    const int op = is_own_operation(*eqn.primitive) ? operation(*eqn.primitive) : -1;
    if (op < 0) return a;
    const Text t = text(*eqn.primitive, eqn.params);
    a.known = t.complete;
    out_.word(a.number);
    out_.byte(op);
    out_.text(t.fields);
    out_.byte(static_cast<int>(a.effect));
    out_.number(static_cast<std::int64_t>(a.inputs));
    out_.number(static_cast<std::int64_t>(a.outputs));
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

  static std::uint32_t word_of(const Atom& a) {
    return a.is_var() ? static_cast<std::uint32_t>(a.var()) + 1 : kLiteral;
  }
  void add(const Atom& a) {
    out_.word(word_of(a));
    if (a.is_literal()) add_literal(a);
  }
  void add_literal(const Atom& a) {
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
  // Each with how many there are of it in a row: most values are of the type of the one before.
  void add(std::span<const Aval> avals) {
    for (std::size_t i = 0; i < avals.size();) {
      std::size_t next = i + 1;
      while (next < avals.size() && is_same(avals[next], avals[i])) ++next;
      add(avals[i]);
      out_.number(static_cast<std::int64_t>(next - i));
      i = next;
    }
  }
  // For one or two sizes the call of memcmp that == makes is most of the time.
  static bool is_same(const Aval& a, const Aval& b) {
    const std::size_t rank = a.shape.size();
    if (a.dtype != b.dtype || a.weak_type != b.weak_type || rank != b.shape.size()) return false;
    const std::int64_t *x = a.shape.data(), *y = b.shape.data();
    for (std::size_t d = 0; d < rank; ++d)
      if (x[d] != y[d]) return false;
    return true;
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
  Bytes& out_;
  std::unordered_multimap<std::size_t, Application> applications_;  // by hash
  ByPrimitive<const Application*> met_last_;
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
