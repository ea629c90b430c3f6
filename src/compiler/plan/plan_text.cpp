// A plan in words: its steps with the places of values, the equations of each kernel, and memory.
#include <algorithm>
#include <locale>
#include <map>
#include <sstream>

#include "compiler/plan/plan.hpp"
#include "core/counted.hpp"
#include "jaxpr/print.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

std::string spaces(int n) { return std::string(static_cast<std::size_t>(n), ' '); }

std::string value_text(const Plan& plan, int v) {
  return std::to_string(v) + ':' + plan.values[static_cast<std::size_t>(v)].aval.to_string();
}

// "kernel reduction add_tanh_reduce_max (64, 10)"
std::string heading(const Step& s) {
  static constexpr const char* kKinds[] = {"kernel", "call",   "copy",   "fill",
                                           "loop",   "branch", "repeat", "tiles"};
  static constexpr const char* kKernels[] = {"loop",    "reduction", "dot",
                                             "emitted", "update",    "cells"};
  std::string text = kKinds[static_cast<int>(s.kind)];
  if (s.kind == Step::Kind::host) return text + ' ' + s.name;
  if (s.kind != Step::Kind::kernel) return text;
  return text + ' ' + kKernels[static_cast<int>(s.kernel.kind)] +
         (s.kernel.linear ? " linear " : " ") + s.kernel.name + ' ' + s.kernel.shape.to_string();
}

void print_values(std::ostream& os, const Plan& plan, const std::vector<int>& values) {
  for (const int v : values) {
    os << ' ' << value_text(plan, v);
    const Location at = plan.values[static_cast<std::size_t>(v)].location;
    switch (at.kind) {
      case Location::Kind::argument: os << "@arg" << at.index; break;
      case Location::Kind::result: os << "@result" << at.index; break;
      case Location::Kind::in_result: {
        const auto [result, offset] = plan.in_result(at);
        os << "@result" << result << '+' << offset;
        break;
      }
      case Location::Kind::arena: os << "@" << at.index; break;
      case Location::Kind::chunk: os << "@chunk" << at.index; break;
      default: break;
    }
  }
}

void print_steps(std::ostream& os, const Plan& plan, const std::vector<Step>& steps, int indent) {
  for (const Step& s : steps) {
    os << spaces(indent) << heading(s) << " reads";
    print_values(os, plan, s.reads);
    os << " writes";
    print_values(os, plan, s.writes);
    if (s.kind == Step::Kind::loop && s.trips >= 0) os << " trips " << s.trips;
    for (const Step::Row& r : s.rows) {
      os << " row " << r.view << " of " << r.base;
      if (r.first != 0 || r.every != 1) os << " from " << r.first << " by " << r.every;
    }
    for (const Step::Carry& c : s.carries)
      os << " carry " << c.in << "->" << c.out << " from " << c.init << " to " << c.first;
    if (s.kind == Step::Kind::tiles)
      os << " of " << s.grain << (s.by_columns ? " columns" : " rows");
    else if (s.grain > 0) os << " in chunks of " << s.grain;
    os << '\n';
    for (const auto& body : s.bodies) print_steps(os, plan, body, indent + 2);
  }
}

void print_equations(std::ostream& os, const Plan& plan, const Step& s, int indent) {
  const Jaxpr& jaxpr = plan.scopes[static_cast<std::size_t>(s.scope)].jaxpr;
  std::set<int> equations = s.kernel.members;
  for (const int e : {s.eqn, s.kernel.eqn}) {
    if (e >= 0) equations.insert(e);
  }
  for (const int e : equations) {
    const std::string text = detail::eqn_text(jaxpr, jaxpr.eqns()[static_cast<std::size_t>(e)]);
    os << spaces(indent) << detail::indent(text, static_cast<std::size_t>(indent)) << '\n';
  }
}

void print_fused(std::ostream& os, const Plan& plan, const std::vector<Step>& steps, int indent) {
  for (const Step& s : steps) {
    const bool tiles = s.kind == Step::Kind::tiles;  // made of kernels when these had their places
    if (!tiles) {
      os << spaces(indent) << heading(s) << '\n';
      print_equations(os, plan, s, indent + 4);
    }
    for (const auto& body : s.bodies) print_fused(os, plan, body, indent + (tiles ? 0 : 2));
  }
}

/// Values by where they begin.
using ByOffset = std::multimap<std::int64_t, int>;

void print_by_offset(std::ostream& os, const Plan& plan, const ByOffset& values) {
  for (const auto& [begin, v] : values) {
    std::string from = std::to_string(begin);
    from.insert(0, from.size() < 12 ? 12 - from.size() : 0, ' ');
    os << from << ' ' << value_text(plan, v) << '\n';
  }
}

void find_in_slice(const Plan& plan, const std::vector<Step>& steps, std::set<int>& found) {
  for (const Step& s : steps) {
    for (const std::vector<int>* values : {&s.reads, &s.writes}) {
      for (const int v : *values) {
        if (plan.values[static_cast<std::size_t>(v)].location.kind == Location::Kind::chunk)
          found.insert(v);
      }
    }
    for (const auto& body : s.bodies) find_in_slice(plan, body, found);
  }
}

// Loops in chunks: the values of a chunk in its slice.
void print_slices(std::ostream& os, const Plan& plan, const std::vector<Step>& steps) {
  for (const Step& s : steps) {
    if (s.slice_bytes == 0) {
      for (const auto& body : s.bodies) print_slices(os, plan, body);
      continue;
    }
    os << "from " << s.slice << " on " << s.num_chunks() << " slices of " << s.slice_bytes
       << " bytes, one for each chunk of a loop\n";
    std::set<int> inside;
    for (const auto& body : s.bodies) find_in_slice(plan, body, inside);
    ByOffset values;
    for (const int v : inside)
      values.emplace(plan.values[static_cast<std::size_t>(v)].location.index, v);
    print_by_offset(os, plan, values);
  }
}

std::string arena_text(const Plan& plan) {
  return "arena " + detail::counted(plan.arena_bytes, "byte") + ", at least " +
         std::to_string(plan.live_bytes) + " alive at once\n";
}

// Digits without the separators of the locale that a program may have set.
std::ostringstream classic_stream() {
  std::ostringstream os;
  os.imbue(std::locale::classic());
  return os;
}

}  // namespace

std::string Plan::to_string() const {
  std::ostringstream os = classic_stream();
  print_steps(os, *this, steps, 0);
  return os.str() + arena_text(*this);
}

std::string Plan::fused_text() const {
  std::ostringstream os = classic_stream();
  print_fused(os, *this, steps, 0);
  return os.str();
}

std::string Plan::largest_text() const {
  std::string text;
  std::int64_t most = -1;
  for (const Scope& scope : scopes) {
    for (const Eqn& e : scope.jaxpr.eqns()) {
      for (const Var v : e.outputs) {
        const Aval& aval = scope.jaxpr.aval(v);
        if (scope.value_of[static_cast<std::size_t>(v)] < 0 || weight_of(aval) <= most) continue;
        most = weight_of(aval);
        text = aval.strong().to_string() + ", of " + std::string(e.primitive->name());
        if (e.where) text += " at " + e.where.to_string();
      }
    }
  }
  return text;
}

std::string Plan::memory_text() const {
  std::ostringstream os = classic_stream();
  os << arena_text(*this);
  ByOffset arena, results, before;
  for (int v = 0; v < static_cast<int>(values.size()); ++v) {
    const Location at = values[static_cast<std::size_t>(v)].location;
    if (at.kind == Location::Kind::arena) arena.emplace(at.index, v);
    if (at.kind == Location::Kind::result) results.emplace(at.index, v);
    if (at.kind == Location::Kind::in_result) before.emplace(in_result(at).result, v);
  }
  print_by_offset(os, *this, arena);
  print_slices(os, *this, steps);
  for (int r = 0; r < num_outputs; ++r) {
    os << "result " << r;
    for (auto [v, end] = results.equal_range(r); v != end; ++v)
      os << ' ' << value_text(*this, v->second);
    auto [v, end] = before.equal_range(r);
    if (v != end) os << ", before it";
    for (; v != end; ++v) {
      os << ' ' << value_text(*this, v->second) << '@'
         << in_result(values[static_cast<std::size_t>(v->second)].location).offset;
    }
    const auto& over = reusable[static_cast<std::size_t>(r)];
    if (!over.empty()) os << ", in the place of";
    for (const int argument : over) os << " arg" << argument;
    os << (over.empty() ? "\n" : " where that is donated\n");
  }
  return os.str();
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
