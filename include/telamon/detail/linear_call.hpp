// linear_call and custom_vmap: what their primitives carry, over flat lists of arrays.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "telamon/detail/flat.hpp"
#include "telamon/detail/rule_handle.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {

/// A call that is linear in its last operands and whose transpose is given. Operands: what the callee
/// captured, what the transpose captured, residuals, linear operands. The callee takes its captured
/// values, residuals and linear operands; the transpose its captured values, residuals and cotangents.
struct LinearCallParams {
  Jaxpr callee, transpose;
  int num_callee_consts = 0, num_transpose_consts = 0, num_res = 0;
};
extern TELAMON_API const Primitive<LinearCallParams> linear_call_p;

namespace detail {

/// A batching rule: size of the batch, which operands are mapped (along axis 0), the operands; gives
/// the results and whether each is mapped (along axis 0).
struct MappedResults {
  Arrays values;
  std::vector<bool> mapped;
};
using FlatVmapRule = Function<MappedResults(std::int64_t size, const std::vector<bool>& mapped,
                                            std::span<const Array>)>;
using VmapRule = RuleHandle<FlatVmapRule>;

}  // namespace detail

/// A call that brings its batching rule.
struct CustomVmapParams {
  Jaxpr call;
  detail::VmapRule rule;
  std::string name;
  int num_consts = 0;
};
extern TELAMON_API const Primitive<CustomVmapParams> custom_vmap_call_p;

namespace detail {

TELAMON_API Arrays linear_call_arrays(const FlatFunction& callee, const FlatFunction& transpose,
                                      std::span<const Array> residuals,
                                      std::span<const Array> linear);
TELAMON_API Arrays custom_vmap_arrays(const FlatFunction& f, const Function<VmapRule()>& rule,
                                      std::span<const Array> args, const std::string& name);

/// x for each of `size` examples, along axis 0.
TELAMON_API Array mapped_at_front(const Array& x, std::int64_t size);

/// A function as a program with the traced inexact values that it captured taken out.
struct ConvertedClosure {
  Jaxpr jaxpr;                   ///< of all captured values, then the arguments
  Arrays kept;                   ///< those captured values that stay
  std::vector<bool> is_hoisted;  ///< of all captured values
  Arrays hoisted;
  TELAMON_API Arrays call(std::span<const Array> args, std::span<const Array> values) const;
};
TELAMON_API ConvertedClosure convert_closure(const FlatFunction& f, std::span<const Array> args);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
