// What the rules of cond, while and scan share.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "interpreters/interpreters.hpp"
#include "runtime/backend.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {

using Mask = std::vector<bool>;

/// A program to be run many times on concrete arrays.
class Program {
 public:
  explicit Program(const Jaxpr& jaxpr, std::string name);
  Arrays operator()(const Arrays& inputs) const;

 private:
  std::shared_ptr<const runtime::Executable> executable_;
};

/// Dense versions of concrete arrays.
Arrays dense(std::span<const Array> arrays);

/// Runs an `impl` rule within compiled code, as a function over buffers.
template <class P>
Lowering run_by_impl(Arrays (*impl)(const P&, std::span<const Array>));
/// The part of it that does not depend on the parameters.
Arrays arrays_of(std::span<const BufferView> views);
void copy_to(std::span<const Array> arrays, std::span<const MutableBufferView> views);

/// TypeError unless the avals are of the given types: "scan: operand 2 of type f32[] cannot be
/// passed to an input of type f64[]".
void check_operands(std::string_view name, std::span<const Aval> in,
                    const std::vector<Aval>& expected);
/// TypeError that says what is wrong with the jaxprs of an equation.
[[noreturn]] void bad_jaxpr(std::string_view name, const std::string& problem);
std::string avals_text(std::span<const Aval> avals);

template <class P>
Lowering run_by_impl(Arrays (*impl)(const P&, std::span<const Array>)) {
  return call<P>(
      [impl](const P& p, std::span<const BufferView> in, std::span<const MutableBufferView> out) {
        copy_to(impl(p, arrays_of(in)), out);
      });
}

}  // namespace control_flow
}  // namespace v1
}  // namespace telamon
