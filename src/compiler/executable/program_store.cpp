// What an executable is made of, as bytes and back.
#include "compiler/executable/program_store.hpp"

#include "compiler/emit/emit.hpp"
#include "compiler/executable/stored_bytes.hpp"
#include "compiler/forms.hpp"
#include "jaxpr/rewrite.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

// ---- host steps ----------------------------------------------------------------------------------

/// The equation of a host step as a program of its own.
Jaxpr program_of(const Jaxpr& jaxpr, const Eqn& eqn) {
  detail::JaxprBuilder builder;
  Atoms inputs;
  for (const Atom& a : eqn.inputs)
    inputs.push_back(a.is_var() ? Atom::var(builder.add_input(jaxpr.aval(a))) : a);
  Atoms outs;
  for (const Var v : builder.add_eqn(*eqn.primitive, eqn.params, inputs,
                                     detail::avals_of(jaxpr, eqn.outputs), eqn.effect, eqn.where))
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
      if (!(parse_jaxpr(out.back(), {}) == program)) return false;
    }
    for (const auto& body : s.bodies) {
      if (!host_programs(plan, body, out)) return false;
    }
  }
  return true;
}

HostFunction host_function_of(std::string_view text) {
  const Jaxpr program = parse_jaxpr(text, {});
  const Eqn& eqn = program.eqns().at(0);
  std::string name;
  // As the planner decides.
  if (form_of(program, eqn) == Form::dot) return matmul_function(program, eqn, name);
  return host_function(program, eqn);
}

void write(ByteWriter& out, const std::vector<Location>& locations) {
  out.list(locations, [&](const Location& l) {
    out.number(static_cast<std::int64_t>(l.kind));
    out.number(l.index);
  });
}
std::vector<Location> read_locations(ByteReader& in) {
  std::vector<Location> locations;
  in.list(locations, [&] {
    const auto kind = static_cast<Location::Kind>(in.number());
    return Location{kind, in.number()};
  });
  return locations;
}

}  // namespace

Launch launch_of(const Plan& plan) {
  return {plan.arena_bytes, plan.reusable, plan.written_after, plan.in_results, host_steps(plan)};
}

void store_program(const runtime::disk_cache::Key& key, const Plan& plan,
                   const ExecutableInfo& info, std::string_view image) {
  std::vector<std::string> programs;
  if (!host_programs(plan, plan.steps, programs)) return;
  const Launch launch = launch_of(plan);
  ByteWriter out;
  out.number(launch.arena_bytes);
  out.list(launch.reusable, [&](const std::vector<int>& arguments) {
    out.list(arguments, [&](int a) { out.number(a); });
  });
  out.list(launch.written_after, [&](std::int64_t steps) { out.number(steps); });
  out.list(launch.in_results, [&](const InResult& place) {
    out.number(place.result);
    out.number(place.offset);
  });
  out.list(programs, [&](const std::string& p) { out.text(p); });
  for (const HostStep& step : launch.host_steps) {
    write(out, step.in);
    write(out, step.out);
  }
  out.number(info.kernels);
  out.number(info.library_calls);
  out.list(info.steps, [&](const std::string& s) { out.text(s); });
  runtime::disk_cache::store(key, with_tail(image, out.take()));
}

namespace {

std::optional<StoredProgram> read_program(runtime::Pages pages) {
  const auto [image, tail] = split_tail(pages.bytes());
  StoredProgram p{.launch = {}, .info = {}, .pages = std::move(pages), .image = image};
  ByteReader in(tail);
  p.launch.arena_bytes = in.number();
  in.list(p.launch.reusable, [&] {
    std::vector<int> arguments;
    in.list(arguments, [&] { return static_cast<int>(in.number()); });
    return arguments;
  });
  in.list(p.launch.written_after, [&] { return in.number(); });
  in.list(p.launch.in_results, [&] {
    const std::int64_t result = in.number();
    return InResult{result, in.number()};
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
  if (in.at_end() && p.launch.host_steps.size() == programs.size()) return p;
  return std::nullopt;
}

}  // namespace

std::optional<StoredProgram> find_program(const runtime::disk_cache::Key& key) {
  std::optional<runtime::Pages> bytes = runtime::disk_cache::load(key);
  if (!bytes) return std::nullopt;
  std::string why = "it is of another form";
  try {
    if (auto program = read_program(std::move(*bytes))) return program;
  } catch (const OutOfMemoryError&) {  // which is no fault of the file
    throw;
  } catch (const Error& e) { why = e.what(); }
  runtime::disk_cache::reject(key, why);
  return std::nullopt;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
