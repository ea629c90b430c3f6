// The functions under transformations: compiled programs and batches give what eager evaluation gives,
// and staged programs hold no more equations than needed.
#include "numpy/expect.hpp"

namespace telamon_test {
namespace {

using Function = Array (*)(const Array&);
struct Case {
  const char* name;
  Function f;
};

// Each takes an f64[4,3] with elements in (0, 1).
const Case kCases[] = {
    {"arithmetic", [](const Array& x) { return (x * 2.0 - 1) / (x + 3) + x % 0.3; }},
    {"comparison", [](const Array& x) { return tl::where((x > 0.5) & (x < 0.9), x, -x); }},
    {"integers",
     [](const Array& x) { return tl::floor_divide((x * 100).astype(tl::i32) - 50, 7) % 5; }},
    {"power",
     [](const Array& x) { return tl::power(x, 3) + tl::power(x, 0.5) + tl::power(2.0, x); }},
    {"activations",
     [](const Array& x) {
       return tl::gelu(x) + tl::silu(x) + tl::relu(x - 0.5) + tl::softplus(x);
     }},
    {"softmax", [](const Array& x) { return tl::softmax(x) + tl::log_softmax(x, 0); }},
    {"reductions",
     [](const Array& x) {
       return tl::var(x, 0) + tl::mean(x, 0) + tl::max(x, 0) - tl::logsumexp(x, 0);
     }},
    {"indices", [](const Array& x) { return tl::argmax(x, 0) + tl::argsort(x, 0)(1); }},
    {"running", [](const Array& x) { return tl::cumsum(x, 1) * tl::cumprod(x, 0); }},
    {"matmul",
     [](const Array& x) { return tl::matmul(x.T(), x) + tl::einsum("ij,ik->jk", x, tl::sin(x)); }},
    {"shapes",
     [](const Array& x) {
       return tl::concatenate({tl::roll(x, 1, 0), tl::flip(x), tl::tile(x, {2, 1})});
     }},
    {"triangles",
     [](const Array& x) { return tl::tril(x, 1) + tl::triu(x) + tl::eye(4, 3, 0, tl::f64); }},
    {"slices",
     [](const Array& x) { return x(tl::slice(tl::none, tl::none, -2), tl::slice(1, 3)); }},
    {"gather",
     [](const Array& x) {
       return x(Array({3, 0, -1}), Array({0, 2, 1})) + tl::take(x, Array({1, 2, 5}));
     }},
    {"updates",
     [](const Array& x) {
       return x.at(Array({0, 2})).add(x(1)).at(tl::slice(0, 4, 3), 0).set(7.0);
     }},
    {"segments", [](const Array& x) { return tl::segment_sum(x, Array({1, 0, 1, 5}), 2); }},
    {"sorting",
     [](const Array& x) { return tl::sort(x, 0) + tl::take_along_axis(x, tl::argsort(x, 0), 0); }},
    {"norms",
     [](const Array& x) { return tl::norm(x, {.axes = 1}) + tl::norm(x, {.ord = 3, .axes = 1}); }},
    {"creation",
     [](const Array& x) { return x + tl::linspace(0, 1, 3) + tl::arange(3) + tl::ones({4, 1}); }},
};

Array input() { return tl::random::uniform(tl::random::key(3), {4, 3}, tl::f64, 0.05, 0.95); }

void expect_same(const Array& got, const Array& want, const std::string& what) {
  ASSERT_EQ(type_of(got), type_of(want)) << what;
  EXPECT_TRUE(tl::allclose(got, want, {.rtol = 1e-12, .atol = 1e-12, .equal_nan = true}))
      << what << "\n"
      << got << "\n"
      << want;
}

TEST(CompiledFunctions, AgreeWithEagerEvaluation) {
  for (const Case& c : kCases) expect_same(tl::jit(c.f)(input()), c.f(input()), c.name);
}

TEST(BatchedFunctions, AgreeWithALoop) {
  const Array batch = tl::stack({input(), tl::flip(input()), tl::square(input())});
  for (const Case& c : kCases) {
    Arrays rows;
    for (const Array& x : tl::unstack(batch)) rows.push_back(c.f(x));
    expect_same(tl::vmap(c.f)(batch), tl::stack(rows), c.name);
    expect_same(tl::jit(tl::vmap(c.f, {.in_axes = {1}}))(tl::moveaxis(batch, 0, 1)),
                tl::stack(rows), c.name);
  }
}

TEST(StagedFunctions, ConvertScalarsWithoutEquations) {
  const auto f = [](const Array& x) { return 2.0 * x + 1; };
  const tl::ClosedJaxpr program = tl::make_jaxpr(f)(tl::zeros({}, tl::f32));
  EXPECT_EQ(tl::count_eqns(program.jaxpr), 2) << program;
}

TEST(StagedFunctions, DoNothingWhereNothingIsToBeDone) {
  const auto f = [](const Array& x) {
    return tl::transpose(tl::reshape(tl::broadcast_to(x(tl::ellipsis), {2, 3}), {2, -1}), {0, 1})
        .astype(tl::f32);
  };
  EXPECT_EQ(tl::count_eqns(tl::make_jaxpr(f)(tl::zeros({2, 3})).jaxpr), 0);
}

}  // namespace
}  // namespace telamon_test
