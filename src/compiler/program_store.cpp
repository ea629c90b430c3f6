// What an executable is made of, as bytes and back.
#include "compiler/program_store.hpp"

#include <cstring>

#include "compiler/emit.hpp"
#include "compiler/forms.hpp"
#include "jaxpr/rewrite.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

class Writer {
 public:
  void number(std::int64_t n) { bytes_.append(reinterpret_cast<const char*>(&n), sizeof n); }
  void text(std::string_view s) {
    number(static_cast<std::int64_t>(s.size()));
    bytes_ += s;
  }
  template <class List, class Each>
  void list(const List& items, Each&& each) {
    number(static_cast<std::int64_t>(items.size()));
    for (const auto& item : items) each(item);
  }
  /// The next text begins at a multiple of 16 bytes: it is used where it lies.
  void align_text() { text(std::string((16 - bytes_.size() % 16) % 16, '\0')); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// The checksum has told that the bytes are as they were written; `good` is for what is left.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  bool good() const { return good_; }
  bool at_end() const { return good_ && rest_.empty(); }
  std::int64_t number() {
    std::int64_t n = 0;
    const std::string_view bytes = take(sizeof n);
    if (good_) std::memcpy(&n, bytes.data(), sizeof n);
    return n;
  }
  std::string_view text() { return take(static_cast<std::size_t>(number())); }
  template <class T, class Each>
  void list(std::vector<T>& items, Each&& each) {
    const std::int64_t size = number();
    for (std::int64_t i = 0; i < size && good_; ++i) items.push_back(each());
  }

 private:
  std::string_view take(std::size_t size) {
    good_ = good_ && size <= rest_.size();
    if (!good_) return {};
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  std::string_view rest_;
  bool good_ = true;
};

// ---- host steps ----------------------------------------------------------------------------------

/// The equation of a host step as a program of its own.
Jaxpr program_of(const Jaxpr& jaxpr, const Eqn& eqn) {
  detail::JaxprBuilder builder;
  Atoms inputs;
  std::vector<Aval> out_avals;
  for (const Atom& a : eqn.inputs)
    inputs.push_back(a.is_var() ? Atom::var(builder.add_input(jaxpr.aval(a))) : a);
  for (const Var v : eqn.outputs) out_avals.push_back(jaxpr.aval(v));
  Atoms outs;
  for (const Var v :
       builder.add_eqn(*eqn.primitive, eqn.params, inputs, out_avals, eqn.effect, eqn.where))
    outs.push_back(Atom::var(v));
  return builder.build(outs, detail::JaxprBuilder::DeadCode::keep).jaxpr;
}

/// The text of each host step in the order of host_steps; false when one cannot be told in a text.
bool host_programs(const Plan& plan, const std::vector<Step>& steps,
                   std::vector<std::string>& out) {
  for (const Step& s : steps) {
    if (s.kind == Step::Kind::host) {
      if (s.eqn < 0) return false;
      const Jaxpr& jaxpr = plan.scopes[static_cast<std::size_t>(s.scope)].jaxpr;
      const Jaxpr program = program_of(jaxpr, jaxpr.eqns()[static_cast<std::size_t>(s.eqn)]);
      out.push_back(program.to_string());
      if (!(parse_jaxpr(out.back()) == program)) return false;
    }
    for (const auto& body : s.bodies) {
      if (!host_programs(plan, body, out)) return false;
    }
  }
  return true;
}

HostFunction host_function_of(std::string_view text) {
  const Jaxpr program = parse_jaxpr(text);
  const Eqn& eqn = program.eqns().at(0);
  std::string name;
  // As the planner decides.
  if (form_of(program, eqn) == Form::dot) return matmul_function(program, eqn, name);
  return host_function(program, eqn);
}

void write(Writer& out, const std::vector<Location>& locations) {
  out.list(locations, [&](const Location& l) {
    out.number(static_cast<std::int64_t>(l.kind));
    out.number(l.index);
  });
}
std::vector<Location> read_locations(Reader& in) {
  std::vector<Location> locations;
  in.list(locations, [&] {
    const auto kind = static_cast<Location::Kind>(in.number());
    return Location{kind, in.number()};
  });
  return locations;
}

}  // namespace

Launch launch_of(const Plan& plan) { return {plan.arena_bytes, plan.reusable, host_steps(plan)}; }

void store_program(const runtime::disk_cache::Key& key, const Plan& plan,
                   const ExecutableInfo& info, std::string_view object) {
  std::vector<std::string> programs;
  if (!host_programs(plan, plan.steps, programs)) return;
  const Launch launch = launch_of(plan);
  Writer out;
  out.number(launch.arena_bytes);
  out.list(launch.reusable, [&](const std::vector<int>& arguments) {
    out.list(arguments, [&](int a) { out.number(a); });
  });
  out.list(programs, [&](const std::string& p) { out.text(p); });
  for (const HostStep& step : launch.host_steps) {
    write(out, step.in);
    write(out, step.out);
  }
  out.number(info.kernels);
  out.number(info.library_calls);
  out.list(info.steps, [&](const std::string& s) { out.text(s); });
  out.align_text();
  out.text(object);
  runtime::disk_cache::store(key, out.take());
}

namespace {

std::optional<StoredProgram> read_program(std::string bytes) {
  StoredProgram p;
  p.bytes = std::move(bytes);
  Reader in(p.bytes);
  p.launch.arena_bytes = in.number();
  in.list(p.launch.reusable, [&] {
    std::vector<int> arguments;
    in.list(arguments, [&] { return static_cast<int>(in.number()); });
    return arguments;
  });
  std::vector<std::string_view> programs;
  in.list(programs, [&] { return in.text(); });
  for (const std::string_view text : programs) {
    HostStep step;
    step.function = host_function_of(text);
    step.in = read_locations(in);
    step.out = read_locations(in);
    if (!step.function) break;
    p.launch.host_steps.push_back(std::move(step));
  }
  p.info.kernels = static_cast<int>(in.number());
  p.info.library_calls = static_cast<int>(in.number());
  in.list(p.info.steps, [&] { return std::string(in.text()); });
  p.info.arena_bytes = static_cast<std::size_t>(p.launch.arena_bytes);
  in.text();  // which aligns what follows
  p.object_bytes = in.text().size();
  if (in.at_end() && p.launch.host_steps.size() == programs.size()) return p;
  return std::nullopt;
}

}  // namespace

std::optional<StoredProgram> find_program(const runtime::disk_cache::Key& key) {
  std::optional<std::string> bytes = runtime::disk_cache::load(key);
  if (!bytes) return std::nullopt;
  std::string why = "it is of another form";
  try {
    if (auto program = read_program(std::move(*bytes))) return program;
  } catch (const Error& e) { why = e.what(); }
  runtime::disk_cache::reject(key, why);
  return std::nullopt;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
