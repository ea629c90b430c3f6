// Identities that passes respect: optimization_barrier and name.
#include <cstring>

#include "interpreters/interpreters.hpp"
#include "primitives/rules.hpp"
#include "telamon/checkpoint.hpp"

namespace telamon {
inline namespace v1 {
namespace {

Arrays barrier(const Arrays& x) {
  return x.empty() ? x : optimization_barrier_p.bind({}, std::span<const Array>(x));
}

// The tangents (or cotangents) pass a barrier of their own; the zeros among them need none.
std::vector<Tangent> through_barrier(std::span<const Tangent> tangents) {
  Arrays nonzero;
  for (const Tangent& t : tangents) {
    if (!t.is_zero()) nonzero.push_back(t.array());
  }
  const Arrays passed = barrier(nonzero);
  std::vector<Tangent> out;
  std::size_t next = 0;
  for (const Tangent& t : tangents) {
    if (t.is_zero()) out.push_back(t);
    else out.emplace_back(passed[next++]);
  }
  return out;
}

void copy_all(std::span<const BufferView> in, std::span<const MutableBufferView> out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    const auto bytes = static_cast<std::size_t>(in[i].size()) * size_of(in[i].dtype);
    if (bytes > 0) std::memcpy(out[i].data, in[i].data, bytes);
  }
}

}  // namespace

/// optimization_barrier(x, y, ...) = (x, y, ...). The compiler computes nothing for it: its results
/// are the memory of its operands, all of which are there before any result is used.
const Primitive<> optimization_barrier_p{
    "optimization_barrier", [] {
      return Rules<>{
          .impl = [](const NoParams&,
                     std::span<const Array> x) { return Arrays(x.begin(), x.end()); },
          .abstract_eval = [](const NoParams&, std::span<const Aval> x) -> AbstractResult {
            return std::vector<Aval>(x.begin(), x.end());
          },
          .jvp =
              [](const NoParams&, std::span<const Array> x, std::span<const Tangent> dx) {
                return JvpResult{barrier({x.begin(), x.end()}), through_barrier(dx)};
              },
          .transpose = [](const NoParams&, std::span<const Tangent> cts,
                          std::span<const LinearInput>) { return through_barrier(cts); },
          .batch =
              [](const NoParams&, const AxisInfo&, std::span<const Array> x,
                 std::span<const BatchAxis> axes) {
                return BatchResult{barrier({x.begin(), x.end()}), {axes.begin(), axes.end()}};
              },
          .dce = [](const NoParams&,
                    const std::vector<bool>& used) { return DceResult{Params(), used}; },
          .lower = call<NoParams>([](const NoParams&, std::span<const BufferView> in,
                                     std::span<const MutableBufferView> out) { copy_all(in, out); },
                                  "optimization_barrier"),
      };
    }};

/// name[name=n](x) = x.   d name(x) = dx
const Primitive<NameParams> name_p{
    "name", [] {
      const auto identity = [](const NameParams&, std::span<const Array> x) {
        return Arrays{x[0]};
      };
      return Rules<NameParams>{
          .impl = identity,
          .abstract_eval = [](const NameParams&, std::span<const Aval> x) -> AbstractResult {
            detail::check_arity("name", x, 1);
            return x[0];
          },
          .jvp =
              [](const NameParams& p, std::span<const Array> x, std::span<const Tangent> dx) {
                return JvpResult{{name_p.bind1(p, {x[0]})}, {dx[0]}};
              },
          .transpose = [](const NameParams&, std::span<const Tangent> cts,
                          std::span<const LinearInput>) { return std::vector<Tangent>{cts[0]}; },
          .batch =
              [](const NameParams& p, const AxisInfo&, std::span<const Array> x,
                 std::span<const BatchAxis> axes) {
                return BatchResult{{name_p.bind1(p, {x[0]})}, {axes[0]}};
              },
          .lower = ops<NameParams>(identity),
      };
    }};

}  // namespace v1
}  // namespace telamon
