// What the public functions of arrays have in common.
#pragma once

#include <initializer_list>
#include <span>

#include "telamon/array.hpp"
#include "telamon/detail/out_of_memory.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// The operands of a call, whose place is that of the first.
using CallOperands = std::initializer_list<const Operand*>;

/// TypeError "matmul: operand 1 is an empty Array" for one without a value.
inline void check_operands(const char* name, CallOperands operands) {
  std::size_t i = 0;
  for (const Operand* x : operands) {
    if (!x->array.has_value()) [[unlikely]]
      empty_operand_error(name, i, (*operands.begin())->where);
    ++i;
  }
}

/// f() as a function of this name that was called with these operands: at the caller's line, and named where
/// memory runs out. None of them is empty (check_operands).
template <class F>
decltype(auto) in_call(const char* name, CallOperands operands, const F& f) {
  return in_call(name, (*operands.begin())->where, [&]() -> decltype(auto) {
    check_operands(name, operands);
    return f();
  });
}

/// The same of a function that takes a list.
template <class F>
decltype(auto) in_call(const char* name, SourceLocation where, std::span<const Array> operands,
                       const F& f) {
  return in_call(name, where, [&]() -> decltype(auto) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].has_value()) [[unlikely]]
        empty_operand_error(name, i);
    }
    return f();
  });
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
