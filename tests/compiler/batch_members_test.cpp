// Batches of small programs, as vmap makes them: what a member computes becomes arrays of one number for each member.
#include <gmock/gmock.h>

#include <limits>

#include "compiler/support.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/families.hpp"
#include "telamon/grad.hpp"
#include "telamon/jacobian.hpp"
#include "telamon/jit.hpp"
#include "telamon/numpy.hpp"
#include "telamon/primitive.hpp"
#include "telamon/vmap.hpp"

namespace telamon::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The square, as compiled code has it: there is nothing that evaluates it.
const Primitive<> square_p{
    "test_square_without_impl", [] {
      return Rules<>{
          .abstract_eval = [](const NoParams&,
                              std::span<const Aval> x) { return AbstractResult({x[0]}); },
          .lower = element([](Emitter& e, Scalar x) { return e.mul(x, x); })};
    }};

constexpr double kCancelled =
    1e9;  // units in the last place of f64, where most of a sum may cancel

// The rotation about an axis by its length, applied to a point.
Array turned(const Array& r, const Array& x) {
  const Array square = dot(r, r) + .01, angle = lax::sqrt(square);
  return x + cross(r, x) * (lax::sin(angle) / angle) +
         cross(r, cross(r, x)) * ((1 - lax::cos(angle)) / square);
}
Program jacobians_of_turns() {
  return [](std::span<const Array> a) {
    return Arrays{vmap(jacrev<0>(turned))(a[0], a[1]), vmap(jacrev<1>(turned))(a[0], a[1])};
  };
}
Array joined(const Arrays& parts, std::int64_t axis) { return lax::concatenate(parts, axis); }
std::string batch(std::int64_t n, const char* of) { return "[" + std::to_string(n) + of + "]"; }

// What a loop hands from trip to trip lies there in the shape of the array, whose rows are not as long as those that are put
// together of its numbers.
TEST(BatchMembers, OfLoopsAreStoredAsTheirArraysLie) {
  const auto loop = [](std::span<const Array> a) {
    const auto step = [](const Array& c) {
      return tanh(lax::rev(maximum(sin(c), lax::rev(c, {1})), {1}));
    };
    return Arrays{fori_loop(0, 3, [&](const Array&, const Array& c) { return step(c); }, a[0])};
  };
  const Compiled e = check(loop, {uniform({64, 2, 4}, DType::f32)}, -1, 8, {.disabled = {"cells"}});
  if (runtime::target_vector_bytes() >= 32)
    EXPECT_THAT(e->text("plan"), HasSubstr("kernel loop linear"));
}

TEST(BatchMembers, OfJacobiansTakeOneKernel) {
  for (const std::int64_t n : {17, 31, 64, 67, 500, 2055}) {
    SCOPED_TRACE(n);
    const Compiled e =
        check(jacobians_of_turns(),
              {uniform({n, 3}, DType::f64), uniform({n, 3}, DType::f64, -1, 1, 2)}, 1, kCancelled);
    EXPECT_THAT(e->text("plan"), HasSubstr("arena 0 bytes"));
    EXPECT_THAT(e->text("ir"), Not(HasSubstr("gather")));
    EXPECT_THAT(e->text("ir"), Not(HasSubstr("scatter")));
  }
}

// The product of as many rotations about an axis: of each the kernel that puts its matrix together, and that of the product.
TEST(BatchMembers, MayBeFewWhereThatSavesKernels) {
  const Compiled e = check(
      [](std::span<const Array> a) {
        return Arrays{vmap([](const Array& angles) {
          const Array zero = zeros({}, DType::f32), last = stack({zero, zero, zero + 1});
          Array m = eye(3, 3, 0, DType::f32);
          for (int i = 0; i < 100; ++i) {
            const Array c = lax::cos(angles(i)), s = lax::sin(angles(i));
            m = matmul(m, stack({stack({c, -s, zero}), stack({s, c, zero}), last}));
          }
          return m;
        })(a[0])};
      },
      {uniform({50, 100}, DType::f32)}, -1, 1e4);
  EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("dot_general")));
}

// What does nothing but compute row by row stays as it is, as do products of few members, and rows of whole vectors.
TEST(BatchMembers, OfOneShapeAreLeftAlone) {
  const auto whole = [](const Program& f, const Arrays& inputs) {
    const Compiled with = check(f, inputs, -1, 1e4),
                   without = check(f, inputs, -1, 1e4, {.disabled = {"batch_members"}});
    EXPECT_EQ(with->text("jaxpr"), without->text("jaxpr"));
  };
  whole([](std::span<const Array> a) { return Arrays{lax::exp(a[0]) * a[0] + 1}; },
        {uniform({500, 5}, DType::f64)});
  whole(
      [](std::span<const Array> a) {
        Array m = a[0];
        for (int i = 0; i < 8; ++i) m = matmul(m, a[1]) + a[0];
        return Arrays{m};
      },
      {uniform({63, 3, 3}, DType::f64), uniform({63, 3, 3}, DType::f64)});
  whole([](std::span<const Array> a) { return Arrays{softmax(a[0], 1)}; },
        {uniform({500, 64}, DType::f64)});
  whole([](std::span<const Array> a) { return Arrays{lax::tanh(matmul(a[0], a[1]))}; },
        {uniform({500, 16}, DType::f64), uniform({16, 16}, DType::f64)});
  // Gradients of each example by a matrix, which are turned where they leave.
  whole(
      [](std::span<const Array> a) {
        const auto loss = [](const Array& w, const Array& x, const Array& y) {
          return square(sum(tanh(matmul(x, w))) - y);
        };
        return Arrays{vmap(grad(loss), {.in_axes = {none, 0, 0}})(a[0], a[1], a[2])};
      },
      {uniform({16, 8}, DType::f32), uniform({500, 16}, DType::f32), uniform({500}, DType::f32)});
}

// Each way in which a member's numbers are made of others, with the batch in the first, a middle and the last place.
Arrays all_moves(const Array& x) {  // (4, 3) or more, of a member
  const Array t = lax::transpose(x, {1, 0}), row = x(1);
  const Array padded = lax::pad(x, zeros({}, x.dtype()), {{1, -1, 1}, {-1, 2, 0}});
  const Array beside = joined({t, lax::rev(t, {1}), t * t}, 1);
  const Array sums = lax::reduce_sum(beside, {0}) - lax::reduce_max(beside, {0});
  const Array least = lax::reduce_min(padded, {0, 1});
  const Array spread = lax::broadcast_in_dim(row, {2, 3, 2}, {1});
  const Array every = lax::slice(beside, {0, 1}, {3, 9}, {2, 3});
  const Array counted = lax::iota(x.dtype(), {3, 4}, 1) * t;
  return {padded * 2,
          sums,
          least,
          spread + lax::reduce_sum(spread, {0, 2})(0),
          every,
          counted,
          x(slice(), 0) * reshape(x, {12})(slice(0, 4))};
}
TEST(BatchMembers, HoldWhateverMovesWithinAMember) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i16, DType::bf16}) {
    for (const int axis : {0, 1, 2}) {
      SCOPED_TRACE(std::string(short_name(dtype)) + ", batch along " + std::to_string(axis));
      Shape shape{4, 3};
      shape.insert(static_cast<std::size_t>(axis), 130);
      check([axis](std::span<const Array> a) { return vmap(all_moves, {.in_axes = axis})(a[0]); },
            {uniform(shape, dtype, 0, 9)}, -1, dtype == DType::bf16 ? 2 : 1e3);
    }
  }
}

TEST(BatchMembers, MultiplyTheirOwnMatricesAndSharedOnes) {
  const auto f = [](std::span<const Array> a) {
    return Arrays{vmap([&](const Array& x, const Array& y) {
      const Array z = matmul(matmul(x, y), matmul(lax::transpose(y, {1, 0}), x));
      return joined({matmul(z, a[2]), matmul(a[2], z), lax::transpose(z, {1, 0})}, 0) -
             dot(x(0), y(1)) * eye(3, 3, 0, x.dtype())(0);
    })(a[0], a[1])};
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Compiled e = check(f,
                             {uniform({300, 3, 3}, dtype), uniform({300, 3, 3}, dtype, -1, 1, 2),
                              uniform({3, 3}, dtype, -1, 1, 3)},
                             -1, 1e5);
    EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("dot_general")));
  }
}

// More numbers of a member than there are registers, and rows that end within a vector: read and written as whole rows.
TEST(BatchMembers, MayHaveManyNumbers) {
  for (const std::int64_t k : {5, 7, 11, 16}) {
    for (const std::int64_t n : {64, 131}) {
      SCOPED_TRACE(k);
      const Compiled e = check(
          [](std::span<const Array> a) {
            return Arrays{vmap([](const Array& x) {
              const Array outer = x(slice(), newaxis) * x(newaxis);
              return outer * lax::reduce_sum(x * lax::rev(x, {0}), {0}) +
                     lax::transpose(outer + lax::exp(outer), {1, 0});
            })(a[0])};
          },
          {uniform({n, k}, DType::f64)}, -1, 1e4);
      EXPECT_THAT(e->text("jaxpr"), HasSubstr(batch(n, "")));
    }
  }
}

// -0.0 and 0.0, infinities and NaN are those of the whole arrays.
TEST(BatchMembers, KeepSignsOfZerosAndWhatIsNoNumber) {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> numbers;
  for (int i = 0; i < 100; ++i) {
    for (const double v : {-0.0, 0.0, 1.0, -inf, inf, inf - inf, -2.5, -0.0, 3.0})
      numbers.push_back((i % 9) * 3 == 6 ? -0.0 : v * (i % 4));
  }
  const auto f = [](std::span<const Array> a) {
    return Arrays{vmap([](const Array& x) {
      const Array t = lax::transpose(x, {1, 0});
      const Array sums = lax::reduce_sum(t, {1}), both = joined({t, x, t * x}, 0);
      return joined({lax::reduce_sum(both, {0}), 1 / sums, lax::reduce_max(both, {0}),
                     lax::reduce_min(both, {0})},
                    0);
    })(a[0])};
  };
  const Array x(numbers, {100, 3, 3});
  const Compiled e = check(f, {x}, -1, 0);
  EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("reduce_sum")));
}

// The same within loops, and for two batches of one program.
TEST(BatchMembers, OfLoopsAndOfSeveralBatches) {
  const auto steps = [](const Array& x, const Array& r) {
    const auto [last, all] = scan(
        [&](const Array& c, const Array& v) {
          const Array next = vmap(turned)(r, c) + v;
          return std::pair{next, lax::reduce_max(next, {1})};
        },
        x, broadcast_to(Array(.25), {7}));
    return Arrays{last, all};
  };
  check([&](std::span<const Array> a) { return steps(a[0], a[1]); },
        {uniform({90, 3}, DType::f64), uniform({90, 3}, DType::f64, -1, 1, 2)}, -1, kCancelled);
  const Compiled e = check(
      [](std::span<const Array> a) {
        return Arrays{vmap(jacfwd(turned))(a[0], a[1]), vmap(jacfwd(turned))(a[2], a[3])};
      },
      {uniform({90, 3}, DType::f64), uniform({90, 3}, DType::f64, -1, 1, 2),
       uniform({70, 3}, DType::f64), uniform({70, 3}, DType::f64, -1, 1, 2)},
      2, kCancelled);
}

// Numbers in order, equal ones in the order they had (simplify_sorts.cpp); running sums either way; numbers written at known
// places.
TEST(BatchMembers, AreSortedSummedAndWritten) {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> some;
  for (int i = 0; i < 1500; ++i)
    some.push_back(std::vector{0., -0., inf, -inf, inf - inf, -(inf - inf), 2., 2.,
                               -1.}[static_cast<std::size_t>(i * i + i / 7) % 9]);
  const auto sorts = [](std::span<const Array> a) {
    return Arrays{sort(a[0], 1), sort(a[0], 2)(slice(), 0) + 1, vmap([](const Array& x) {
                    return sort(lax::rev(x, {1}), 1)(1) * x(0) - x(2);
                  })(a[0])};
  };
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Compiled e = check(sorts, {Array(some, {100, 3, 5}).astype(dtype)}, -1, 0);
    EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("sort")));
  }
  check(sorts, {uniform({100, 3, 16}, DType::i32, -4, 4)}, -1, 0);
  for (const DType dtype : {DType::f64, DType::i32}) {
    check(
        [](std::span<const Array> a) {
          return vmap([](const Array& x) {
            const Array back = lax::rev(lax::cumsum(lax::rev(x, {0}), 0), {0});
            return Arrays{lax::cumsum(x, 1) * back, lax::cummax(x, 0) - lax::cummin(x, 1),
                          lax::cumprod(x, 1), lax::cumsum(x * x, 0, true)};
          })(a[0]);
        },
        {uniform({100, 3, 4}, dtype, 1, 4)}, -1, 16);
  }
  const auto written = [](std::span<const Array> a) {
    return Arrays{vmap([](const Array& x) {
      Array m = zeros({3, 3}, x.dtype());
      m = m.at(0, 1).set(lax::sin(x(0))).at(2, 2).add(x(1)).at(1).set(x * x(2));
      return matmul(m.at(slice(), 0).multiply(x), x) + m(slice(), 1);
    })(a[0])};
  };
  const Compiled e = check(written, {uniform({100, 3}, DType::f64)}, 1, 1e3);
  EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("update_slice")));
}

// Batches of batches: what has one of two axes is computed for that one, in whatever order they are mapped.
TEST(BatchMembers, MayHaveSeveralAxes) {
  for (const int axis : {0, 1, 2}) {
    SCOPED_TRACE(axis);
    const Compiled e = check(
        [axis](std::span<const Array> a) {
          const auto one = [axis](const Array& r, const Array& points) {
            return vmap(jacfwd(turned), {.in_axes = {none, 0}, .out_axes = axis})(r, points);
          };
          return Arrays{vmap(one, {.in_axes = {0, none}})(a[0], a[1])};
        },
        {uniform({20, 3}, DType::f64), uniform({33, 3}, DType::f64, -1, 1, 2)}, -1, kCancelled);
    EXPECT_THAT(e->text("jaxpr"), HasSubstr("f64[20] = sin"));
    EXPECT_THAT(e->text("jaxpr"), Not(HasSubstr("f64[20,33] = sin")));
  }
}

// Pictures: what is moved are long runs of their rows.
TEST(BatchMembers, AreNoRowsOfPictures) {
  const auto blurred = [](std::span<const Array> a) {
    const auto from = [&](int first) { return a[0](slice(), slice(first, first + 78)); };
    return Arrays{from(0) * .25f + from(1) * .5f + from(2) * .25f};
  };
  const Arrays picture = {uniform({100, 80, 3}, DType::f32)};
  EXPECT_EQ(check(blurred, picture, 1, 4)->text("jaxpr"),
            check(blurred, picture, 1, 4, {.disabled = {"batch_members"}})->text("jaxpr"));
}

// Nor long rows of pairs, which vectors hold as they are: positions that turn pairs of numbers.
TEST(BatchMembers, AreNoLongRowsOfPairs) {
  const auto turned_pairs = [](std::span<const Array> a) {
    const Array angles = arange(200, DType::f64)(slice(), newaxis) * a[1];
    const Array c = cos(angles).astype(DType::f32), s = sin(angles).astype(DType::f32);
    const Array x = reshape(a[0], {16, 200, 32, 2});
    const Array p = x(ellipsis, 0), q = x(ellipsis, 1);
    return Arrays{reshape(stack({p * c - q * s, p * s + q * c}, -1), {16, 200, 64})};
  };
  const Arrays in = {uniform({16, 200, 64}, DType::f32), uniform({1, 32}, DType::f64)};
  EXPECT_EQ(check(turned_pairs, in, 2, 4)->text("jaxpr"),
            check(turned_pairs, in, 2, 4, {.disabled = {"batch_members"}})->text("jaxpr"));
}

// What users define is not evaluated, whatever is known of its operands; what a program repeats joins nothing.
TEST(BatchMembers, LeaveOperationsOfUsersToTheProgram) {
  const auto chain = [](Array y, const Array& x, const Array& u) {
    for (int i = 0; i < 5; ++i) y = lax::rev(y, {1}) * x + u;
    return y;
  };
  const auto f = jit([&](const Array& x) {
    const Array two = lax::broadcast_in_dim(Array(2.0), {100, 6}, {});
    const Array places =
        lax::broadcast_in_dim(square_p.bind1({}, {lax::iota(DType::f64, {6}, 0)}), {100, 6}, {1});
    return chain(x, x, square_p.bind1({}, {two})) + chain(x, x * 2, places);
  });
  const Array x = uniform({100, 6}, DType::f64);
  const Array squares = Array(std::vector<double>{0, 1, 4, 9, 16, 25});
  EXPECT_TRUE(allclose(f(x), chain(x, x, lax::broadcast_in_dim(Array(4.0), {100, 6}, {})) +
                                 chain(x, x * 2, lax::broadcast_in_dim(squares, {100, 6}, {1}))));
}

// Sums over all members, axes of the same length, and such as are no batch for they are cut.
TEST(BatchMembers, TellBatchesFromOtherAxes) {
  const auto loss = [](const Array& r, const Array& x) { return sum(square(vmap(turned)(r, x))); };
  check(
      [&](std::span<const Array> a) {
        const auto [by_axis, by_point] = grad<0, 1>(loss)(a[0], a[1]);
        const Array j = vmap(jacfwd(turned))(a[0], a[1]);
        return Arrays{by_axis, by_point, einsum("nij,nik->jk", j, j), sum(j, {.axes = {0, 2}})};
      },
      {uniform({100, 3}, DType::f64), uniform({100, 3}, DType::f64, -1, 1, 2)}, -1, kCancelled);
  check(
      [](std::span<const Array> a) {
        const Array pairs = a[0](slice(), newaxis) - a[0](newaxis), d = sum(pairs * pairs, -1) + 1;
        const Array turns = vmap(vmap(turned))(pairs, pairs * d(slice(), slice(), newaxis));
        return Arrays{turns, lax::transpose(turns, {1, 0, 2}) * pairs, lax::rev(turns, {0}) + turns,
                      turns(slice(1, 20)) - turns(slice(0, 19))};
      },
      {uniform({20, 3}, DType::f64)}, -1, kCancelled);
}

}  // namespace
}  // namespace telamon::testing
