// What the rules of cond, while and scan share.
#pragma once

#include <initializer_list>
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
  explicit Program(const Jaxpr& jaxpr, const std::string& name);
  Arrays operator()(const Arrays& inputs) const;

 private:
  Jaxpr jaxpr_;
  std::string name_;
  std::shared_ptr<const runtime::Executable> executable_;  // null: operation by operation
};

/// Dense versions of concrete arrays.
Arrays dense(std::span<const Array> arrays);

/// Runs an `impl` rule within compiled code, as a function over buffers.
template <class P>
Lowering run_by_impl(Arrays (*impl)(const P&, std::span<const Array>));
/// The part of it that does not depend on the parameters.
Arrays arrays_of(std::span<const BufferView> views);
void copy_to(std::span<const Array> arrays, std::span<const MutableBufferView> views);

/// The program whose input k is input `inputs[k]` of `jaxpr`, and result k its result `outs[k]`.
using Order = std::vector<std::size_t>;
Jaxpr rearranged(const Jaxpr& jaxpr, const Order& inputs, const Order& outs);
/// from, from + 1, ..., from + count - 1
Order counting(std::size_t from, std::size_t count);
/// The places where a mask is set; or where it is not.
Order places(const Mask& mask, bool value = true);
Order joined(std::initializer_list<Order> parts);
template <class T>
std::vector<T> taken(std::span<const T> from, const Order& order) {
  std::vector<T> out;
  out.reserve(order.size());
  for (const std::size_t i : order) out.push_back(from[i]);
  return out;
}
template <class List>
  requires(!std::is_same_v<List, std::span<const typename List::value_type>>)
List taken(const List& from, const Order& order) {
  List out;  // not by a span: a vector<bool> has none
  out.reserve(order.size());
  for (const std::size_t i : order) out.push_back(from[i]);
  return out;
}
template <class T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}
template <class T>
std::vector<T> followed_by(std::vector<T> first, const std::vector<T>& second) {
  append(first, second);
  return first;
}
/// Zeros of the aval.
Array zeros_of(const Aval& aval);
bool any_of(const Mask& mask);
/// mask |= other
void unite(Mask& mask, const Mask& other);
/// The pruned form of `jaxpr`, taking also those inputs in `used` that it does not read.
Jaxpr with_inputs(const Jaxpr& jaxpr, const DceJaxpr& pruned, const Mask& used);
/// The same as a memo of `jaxpr`, so that what is pruned twice is compiled once; `used_out` are the
/// results that `dce` keeps.
Jaxpr pruned(const Jaxpr& jaxpr, const DceJaxpr& dce, const Mask& used_in, const Mask& used_out);

/// `chosen` where the mask, whose shape leads that of both, is true, else `other`.
Array where_leading(const Array& mask, const Array& chosen, const Array& other);
/// A split in which everything stays together and waits for the unknown inputs.
PartialEvalResult unsplit(const PrimitiveBase& primitive, const Params& params,
                          const std::vector<Aval>& in_avals, const Mask& unknown_in,
                          std::size_t num_outputs);
/// `jaxpr` over inputs of the given avals, of which it reads those in `inputs`, as one call.
Jaxpr called(const Jaxpr& jaxpr, const std::vector<Aval>& avals, const Order& inputs,
             const std::string& name);

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
