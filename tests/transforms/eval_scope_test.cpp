// Programs run, and constants are folded, while something else is being traced: what they compute is
// computed, and never becomes a part of that.
#include <gmock/gmock.h>

#include "runtime/backend.hpp"
#include "transforms/support.hpp"

namespace telamon_test {
namespace {

/// sin(x) by functions of the library, which a trace around them would stage; throws above 2.
Array sine(const Array& x) {
  const Array y = tl::sin(x);
  if (value(tl::max(x)) > 2) throw tl::ValueError("above 2");
  return y;
}
const tl::Primitive<> by_hand_p{
    "eval_scope_sine", [] {
      return tl::Rules<>{
          .impl = [](const tl::NoParams&, std::span<const Array> x) { return Arrays{sine(x[0])}; },
          .abstract_eval = [](const tl::NoParams&,
                              std::span<const tl::Aval> x) { return tl::AbstractResult(x[0]); },
          .lower =
              tl::call<tl::NoParams>([](const tl::NoParams&, std::span<const tl::BufferView> in,
                                        std::span<const tl::MutableBufferView> out) {
                const auto y =
                    values(sine(Array::from_data(in[0].data, in[0].dtype, tl::Shape(in[0].shape))));
                std::copy(y.begin(), y.end(), out[0].as<double>());
              })};
    }};

class EvalScope : public ::testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<const tl::runtime::Executable> compile(const char* text) const {
    return tl::runtime::find_backend(GetParam()).compile(tl::parse_jaxpr(text), {});
  }
};

TEST_P(EvalScope, KeepsWhatAProgramComputesOutOfTheTraceAroundIt) {
  const auto program = tl::make_jaxpr([&](Array x) {
    const auto sine = compile("{ lambda a:f64[2] . let b:f64[2] = eval_scope_sine a in ( b ) }");
    Arrays got;
    sine->execute(std::vector<Array>{Array({0.5, 1.0})}, {}, got);
    expect_near(got.at(0), {std::sin(0.5), std::sin(1.0)});
    Arrays none;
    EXPECT_THROW(sine->execute(std::vector<Array>{Array({0.5, 3.0})}, {}, none), tl::ValueError);
    return x * got[0] + tl::cos(Array(1.0));  // staged as before
  })(Array({1.0, 2.0}));
  EXPECT_EQ(tl::count_eqns(program.jaxpr, "sin"), 0) << program;
  EXPECT_EQ(tl::count_eqns(program.jaxpr, "reduce_max"), 0) << program;
  EXPECT_EQ(tl::count_eqns(program.jaxpr, "cos"), 1) << program;
}

TEST_P(EvalScope, KeepsFoldedConstantsOutOfTheTraceAroundThem) {
  const auto program = tl::make_jaxpr([&](Array x) {
    const auto sum = compile(
        "{ lambda a:f64[] .\n  let b:f64[] = eval_scope_sine 0.5\n      c:f64[] = add a b\n  in ( "
        "c ) }");
    Arrays got;
    sum->execute(std::vector<Array>{Array(1.0)}, {}, got);
    EXPECT_EQ(value(got.at(0)), 1.0 + std::sin(0.5));
    return x * got[0];
  })(1.0);
  EXPECT_EQ(tl::count_eqns(program.jaxpr), 1) << program;
}

INSTANTIATE_TEST_SUITE_P(Of, EvalScope,
                         ::testing::Values("interpret",
                                           std::string(tl::runtime::find_backend().name())));

}  // namespace
}  // namespace telamon_test
