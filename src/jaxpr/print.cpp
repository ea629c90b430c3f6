// The text of a jaxpr.
//
//   jaxpr   ::= { lambda binder, ... . let eqn ... in ( atom, ... ) }
//   eqn     ::= binder ... = primitive{effect} [ param ... ] atom ... jaxpr ...
//   binder  ::= var:aval          aval ::= f64[2,3] | ~f32[] (weak)
//   atom    ::= var | literal     literal ::= 2.0 | 2 | True | nan | 2.0:f32 | 2.0:~f32
//   param   ::= name=value, sorted by name; jaxprs are left out here and follow the operands
//
// Effect braces and parameter brackets are there when there is something to put in. Undecorated
// literals are f64, i64 and bool. parse.cpp reads all of this back.
#include "jaxpr/print.hpp"

#include <algorithm>
#include <array>
#include <ostream>

#include "jaxpr/literal.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/detail/text.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

constexpr std::array<std::string_view, 6> kReserved = {"in",  "let",    "nan",
                                                       "inf", "lambda", "jaxpr"};

// Nested jaxprs are printed after the operands. Within the parameters an empty jaxpr, whose text
// occurs in no other value, shows where they were.
const std::string& placeholder() {
  static const auto* const text = new std::string(Jaxpr().to_string());
  return *text;
}

Params with_placeholders(const Params& params) {
  if (!params.has_jaxprs()) return params;
  return params.with_jaxprs(std::vector<Jaxpr>(params.jaxprs().size()));
}

// "(E, E, E)" of placeholders E only.
bool is_jaxpr_sequence(std::string_view text) {
  const std::string& one = placeholder();
  if (text.empty() || text.front() != '(') return false;
  text.remove_prefix(1);
  bool any = false;
  while (text.starts_with(one)) {
    any = true;
    text.remove_prefix(one.size());
    if (text.starts_with(", ")) text.remove_prefix(2);
  }
  return any && (text == ")" || text == ",)");
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Options that are off are not worth a line, when reading the text back switches them off again.
bool is_off(std::string_view text) { return text == "False" || text == "None" || text == "''"; }

// 'f' -> f
std::string unquoted(const std::string& text) {
  if (text.size() < 3 || text.front() != '\'') return text;
  const std::string word = text.substr(1, text.size() - 2);
  return is_plain_word(word) ? word : text;
}

std::vector<ParamText> printed_fields(const PrimitiveBase& primitive, const Params& params) {
  std::vector<ParamText> all = with_placeholders(params).fields();
  std::vector<ParamText> defaults;
  const auto is_default = [&](const ParamText& f) {
    return std::find(defaults.begin(), defaults.end(), f) != defaults.end();
  };
  if (std::any_of(all.begin(), all.end(), [](const ParamText& f) {
        return is_off(f.second) || f.second == placeholder();
      })) {
    if (const auto& parse = primitive.rules().parse_params) defaults = parse({}).fields();
  }
  const bool one_sequence = std::count_if(all.begin(), all.end(), [](const ParamText& f) {
                              return is_jaxpr_sequence(f.second);
                            }) == 1;
  std::vector<ParamText> printed;
  for (ParamText& field : all) {
    auto& [name, text] = field;
    // A member that may be without a jaxpr says that it has one.
    if (text == placeholder() && (defaults.empty() || is_default(field))) continue;
    if (one_sequence && is_jaxpr_sequence(text)) continue;
    if (is_off(text) && is_default(field)) continue;
    text = unquoted(replace_all(std::move(text), placeholder(), kNestedJaxpr));
    printed.push_back(std::move(field));
  }
  return printed;
}

// " [ name=f num_consts=0 ]"; without nested jaxprs one parameter per line, aligned.
void append_params(std::string& out, const PrimitiveBase& primitive, const Params& params) {
  const std::vector<ParamText> fields = printed_fields(primitive, params);
  if (fields.empty()) return;
  out += " [ ";
  const std::string separator = params.has_jaxprs() ? " " : "\n" + std::string(out.size(), ' ');
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) out += separator;
    out += fields[i].first + "=" + fields[i].second;
  }
  out += " ]";
}

std::string binder_text(const Jaxpr& jaxpr, Var v) {
  // Programs made by hand may lack the type; typecheck_jaxpr prints them too.
  return var_name(v) + ":" + (v < jaxpr.num_vars() ? jaxpr.aval(v).to_string() : "?");
}

std::string_view effect_text(Effect effect) {
  switch (effect) {
    case Effect::none: return "";
    case Effect::unordered: return "{unordered}";
    case Effect::ordered: return "{ordered}";
  }
  return "";
}

}  // namespace

std::string var_name(Var v) {
  std::string name;
  for (int n = v; n >= 0; n = n / 26 - 1)
    name.insert(name.begin(), static_cast<char>('a' + n % 26));
  if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end()) name += '_';
  return name;
}

std::string atom_text(const Atom& atom) {
  return atom.is_var() ? var_name(atom.var()) : literal_text(atom.literal());
}

bool is_plain_word(std::string_view text) {
  if (text.empty() || text == "None" || text == "True" || text == "False" || text == "null")
    return false;
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return is_letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
           return is_letter(c) || (c >= '0' && c <= '9');
         });
}

std::string indent(std::string_view text, std::size_t columns) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == '\n') out.append(columns, ' ');
  }
  return out;
}

std::string first_lines(std::string_view text, std::size_t count) {
  std::size_t end = 0;
  for (std::size_t line = 0; line < count; ++line) {
    end = text.find('\n', end);
    if (end == std::string_view::npos) return std::string(text);
    ++end;
  }
  return std::string(text.substr(0, end)) + "...";
}

std::string eqn_text(const Jaxpr& jaxpr, const Eqn& eqn) {
  std::string out;
  for (const Var v : eqn.outputs) out += binder_text(jaxpr, v) + " ";
  if (!eqn.outputs.empty()) out += "= ";
  const std::string_view name = eqn.primitive->name();
  if (is_plain_word(name)) out += name;
  else append_quoted(out, name);
  out += effect_text(eqn.effect);
  append_params(out, *eqn.primitive, eqn.params);
  for (const Atom& in : eqn.inputs) out += " " + atom_text(in);
  for (const Jaxpr& nested : eqn.params.jaxprs()) out += "\n  " + indent(nested.to_string(), 2);
  return out;
}

}  // namespace detail

std::string Jaxpr::to_string() const {
  return detail::naming_lack_of_memory("printing a jaxpr", [&] {
    std::string out = "{ lambda ";
    for (Var v = 0; v < num_inputs(); ++v) {
      if (v > 0) out += ", ";
      out += detail::binder_text(*this, v);
    }
    out += " .\n  let ";
    for (std::size_t i = 0; i < eqns().size(); ++i) {
      if (i > 0) out += "\n      ";
      out += detail::indent(detail::eqn_text(*this, eqns()[i]), 6);
    }
    out += "\n  in ( ";
    for (std::size_t i = 0; i < outs().size(); ++i) {
      if (i > 0) out += ", ";
      out += detail::atom_text(outs()[i]);
    }
    return out + " ) }";
  });
}

std::ostream& operator<<(std::ostream& os, const Jaxpr& jaxpr) { return os << jaxpr.to_string(); }
std::ostream& operator<<(std::ostream& os, const ClosedJaxpr& closed) {
  return os << closed.to_string();
}

}  // namespace v1
}  // namespace telamon
