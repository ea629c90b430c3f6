// Pieces of printed jaxprs, for error messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// a..z, aa, ab, ...; the grammar's own words get an underscore ("in_").
std::string var_name(Var v);
std::string atom_text(const Atom& atom);
/// "c:f64[] = mul a b", then the nested jaxprs on lines of their own.
std::string eqn_text(const Jaxpr& jaxpr, const Eqn& eqn);

/// What errors show of one equation with its nested jaxprs.
inline constexpr std::size_t kMaxLines = 40;
/// So many lines of the text, and dots where there are more.
std::string first_lines(std::string_view text, std::size_t count);

/// A word that needs no quotes.
bool is_plain_word(std::string_view text);
/// Text before every line but the first.
std::string indent(std::string_view text, std::size_t columns);

/// What stands for a nested jaxpr inside a parameter that is not just one jaxpr.
inline constexpr std::string_view kNestedJaxpr = "jaxpr";

}  // namespace detail
}  // namespace v1
}  // namespace telamon
