// Jacobians over flat lists of arrays: vmap of the tangent (or cotangent) map over a standard basis.
#include <numeric>

#include "core/concrete.hpp"
#include "core/trace.hpp"
#include "interpreters/interpreters.hpp"
#include "telamon/detail/flat.hpp"
#include "telamon/lax.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

// Columns offset .. offset + n of the identity of `total` rows, each row in the shape of the aval:
// entry (r, i) is 1 where r = offset + i.
Array basis_of(const Aval& aval, std::int64_t offset, std::int64_t total) {
  const std::int64_t n = aval.size();
  const Shape square{total, n};
  const Array row = lax::iota(DType::i64, square, 0);
  const Array column = lax::iota(DType::i64, square, 1);
  const Array shifted = lax::add(
      column, lax::broadcast_in_dim(Array::from_data(&offset, DType::i64, {}), square, {}));
  Shape shape = aval.shape;
  shape.insert(0, total);
  return lax::reshape(lax::convert_element_type(lax::eq(row, shifted), aval.dtype), shape);
}

// One batched array per aval, batch axis 0 of length `total` = all elements together.
Arrays standard_basis(std::span<const Aval> avals, std::int64_t total) {
  Arrays basis;
  std::int64_t offset = 0;
  for (const Aval& aval : avals) {
    basis.push_back(basis_of(aval, offset, total));
    offset += aval.size();
  }
  return basis;
}

std::int64_t total_size(std::span<const Aval> avals) {
  return std::accumulate(avals.begin(), avals.end(), std::int64_t{0},
                         [](std::int64_t n, const Aval& a) { return n + a.size(); });
}

std::vector<BatchAxis> all_at_front(std::size_t n) {
  return std::vector<BatchAxis>(n, BatchAxis(0));
}

// Rows [offset, offset + size) of x.
Array rows(const Array& x, std::int64_t offset, std::int64_t size) {
  return lax::slice_in_dim(x, offset, offset + size, 1, 0);
}

Shape joined(const Shape& a, const Shape& b) {
  Shape all = a;
  for (const std::int64_t d : b) all.push_back(d);
  return all;
}

}  // namespace

JacobianArrays jacfwd_arrays(const FlatFunction& f, std::span<const Array> primals,
                             const LeafName& leaf_name) {
  check_differentiable("jacfwd", primals, leaf_name);
  const std::vector<Aval> in_avals = avals_of(primals);
  const std::int64_t total = total_size(in_avals);
  JacobianArrays result;
  const auto push = [&](std::span<const Array> basis) {
    const std::vector<Tangent> tangents(basis.begin(), basis.end());
    JvpResult out = jvp_flat(f, primals, tangents, "jacfwd");
    result.results = out.primals;
    Arrays pushed;
    for (const Tangent& t : out.tangents) {
      if (t.aval().dtype == DType::float0) {
        throw TypeError(
            "jacfwd requires real- or complex-valued outputs, but a result has an integer or bool "
            "dtype");
      }
      pushed.push_back(t.instantiate());
    }
    return pushed;
  };
  // The primal results do not depend on the basis, so they leave vmap unmapped, behind the tangents.
  const Arrays columns = vmap_flat(
      [&](std::span<const Array> basis) {
        Arrays outs = push(basis);
        outs.insert(outs.end(), result.results.begin(), result.results.end());
        return outs;
      },
      {total, {}}, standard_basis(in_avals, total), all_at_front(in_avals.size()),
      [](std::size_t n) {
        std::vector<BatchAxis> axes(n, BatchAxis(0));
        for (std::size_t i = n / 2; i < n; ++i) axes[i] = std::nullopt;
        return axes;
      },
      "jacfwd");
  const std::size_t num_out = columns.size() / 2;
  result.results.assign(columns.begin() + static_cast<std::ptrdiff_t>(num_out), columns.end());
  for (std::size_t i = 0; i < num_out; ++i) {
    Arrays blocks;
    std::int64_t offset = 0;
    const Shape out_shape = result.results[i].shape();
    for (const Aval& in : in_avals) {
      const Array block = rows(columns[i], offset, in.size());  // in.size() x out
      Shape last;
      for (int d = 1; d < block.ndim(); ++d) last.push_back(d);
      last.push_back(0);
      blocks.push_back(lax::reshape(lax::transpose(block, last), joined(out_shape, in.shape)));
      offset += in.size();
    }
    result.blocks.push_back(std::move(blocks));
  }
  return result;
}

JacobianArrays jacrev_arrays(const FlatFunction& f, std::span<const Array> primals,
                             const LeafName& leaf_name) {
  check_differentiable("jacrev", primals, leaf_name);
  const LinearizedArrays lin = linearize_arrays(f, primals, "jacrev");
  const std::vector<Aval> out_avals = avals_of(lin.primals);
  for (const Aval& aval : out_avals) {
    if (!is_inexact(aval.dtype)) {
      throw TypeError("jacrev requires real- or complex-valued outputs, but a result is " +
                      aval.to_string());
    }
  }
  const std::int64_t total = total_size(out_avals);
  const Arrays pulled = vmap_flat(
      [&](std::span<const Array> cts) { return lin.map.transpose(cts); }, {total, {}},
      standard_basis(out_avals, total), all_at_front(out_avals.size()), all_at_front, "jacrev");
  JacobianArrays result{lin.primals, {}};
  std::int64_t offset = 0;
  for (const Aval& out : out_avals) {
    Arrays blocks;
    for (std::size_t j = 0; j < primals.size(); ++j) {
      blocks.push_back(
          lax::reshape(rows(pulled[j], offset, out.size()), joined(out.shape, primals[j].shape())));
    }
    offset += out.size();
    result.blocks.push_back(std::move(blocks));
  }
  return result;
}

ClosedJaxpr stage_arrays(const FlatFunction& f, std::span<const Array> args, std::string name) {
  return stage_flat(f, avals_of(args), std::move(name));
}

Arrays placeholders(std::span<const Aval> avals) {
  Arrays out;
  for (const Aval& aval : avals) out.push_back(full_of(aval, 0));
  return out;
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
