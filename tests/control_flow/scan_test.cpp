// scan against unrolled loops: values, derivatives, batches, and what its programs look like.
#include "control_flow/support.hpp"
#include "telamon/primitives.hpp"

namespace telamon_test {
namespace {

struct Cell {
  Array w, b;
};
Array step(const Cell& p, const Array& h, const Array& x) {
  return tl::tanh(tl::matmul(h, p.w) + x * p.b);
}

// A recurrent network by scan, and the same unrolled.
std::pair<Array, Array> looped(const Cell& p, const Array& h0, const Array& xs) {
  return tl::scan(
      [&](Array h, Array x) {
        const Array next = step(p, h, x);
        return std::pair{next, tl::sum(next * next)};
      },
      h0, xs);
}
std::pair<Array, Array> unrolled(const Cell& p, Array h, const Array& xs) {
  Arrays ys;
  for (int i = 0; i < xs.shape(0); ++i) {
    h = step(p, h, xs(i));
    ys.push_back(tl::sum(h * h));
  }
  return {h, tl::stack(ys)};
}

const Cell& cell() {
  static const Cell p{rows({3, 3}), rows({3}, 0.5)};
  return p;
}
Array h0() { return rows({3}, 2.0); }
Array xs() { return rows({5, 3}, 3.0); }

template <class F>
auto loss_of(F f) {
  return [f](const Cell& p, const Array& h, const Array& x) {
    const auto [last, ys] = f(p, h, x);
    return tl::sum(last * rows({3}, 0.1)) + tl::sum(ys * ys);
  };
}

TEST(Scan, IsALoop) {
  const auto [h, ys] = looped(cell(), h0(), xs());
  const auto [want_h, want_ys] = unrolled(cell(), h0(), xs());
  expect_equal(h, want_h);
  expect_equal(ys, want_ys);
  const auto [jit_h, jit_ys] = tl::jit(looped)(cell(), h0(), xs());
  expect_equal(jit_h, want_h);
  expect_equal(jit_ys, want_ys);
}

TEST(Scan, HasTheDerivativesOfTheLoop) {
  const auto want = tl::grad<0, 1, 2>(loss_of(unrolled))(cell(), h0(), xs());
  const auto check = [&](const auto& got) {
    expect_equal(std::get<0>(got).w, std::get<0>(want).w);
    expect_equal(std::get<0>(got).b, std::get<0>(want).b);
    expect_equal(std::get<1>(got), std::get<1>(want));
    expect_equal(std::get<2>(got), std::get<2>(want));
  };
  const auto loss = loss_of(looped);
  check(tl::grad<0, 1, 2>(loss)(cell(), h0(), xs()));
  check(tl::jit(tl::grad<0, 1, 2>(loss))(cell(), h0(), xs()));
  check(tl::grad<0, 1, 2>(tl::jit(loss))(cell(), h0(), xs()));
  tl::check_grads(loss, std::tuple{cell(), h0(), xs()}, {.order = 2});
}

TEST(Scan, HasTheHessianOfTheLoop) {
  const auto of = [](auto f) {
    return tl::hessian([f](const Array& h) { return loss_of(f)(cell(), h, xs()); })(h0());
  };
  expect_equal(of(looped), of(unrolled), 1e-10);
}

TEST(Scan, MapsOverCarryRowsOrBoth) {
  const Array hs = rows({4, 3}, 0.3), many = rows({5, 4, 3}, 0.7);
  struct Case {
    tl::Axes axes;
    bool carry, rows;
  };
  const auto f = [](const Array& h, const Array& x) { return looped(cell(), h, x); };
  for (const auto& [axes, mapped_carry, mapped_rows] :
       {Case{{0, tl::none}, true, false}, Case{{tl::none, 1}, false, true},
        Case{{0, 1}, true, true}}) {
    const Array h = mapped_carry ? hs : h0(), x = mapped_rows ? many : xs();
    const auto batched = tl::vmap(f, {.in_axes = axes});
    const auto [last, ys] = batched(h, x);
    const auto [jit_last, jit_ys] = tl::jit(batched)(h, x);
    for (int i = 0; i < 4; ++i) {
      const auto [want_last, want_ys] =
          unrolled(cell(), mapped_carry ? hs(i) : h, mapped_rows ? many(tl::slice(), i) : x);
      expect_equal(last(i), want_last);
      expect_equal(ys(i), want_ys);
      expect_equal(jit_last(i), want_last);
      expect_equal(jit_ys(i), want_ys);
    }
  }
}

TEST(Scan, MapsOverConstsOnly) {
  const Array ws = rows({2, 3, 3}, 0.9);
  const auto f = [](const Array& w) { return looped({w, cell().b}, h0(), xs()).first; };
  const Array got = tl::vmap(f)(ws);
  for (int i = 0; i < 2; ++i) expect_equal(got(i), unrolled({ws(i), cell().b}, h0(), xs()).first);
}

TEST(Scan, GivesPerExampleGradients) {
  const Array hs = rows({4, 3}, 0.3);
  const auto gradient = [](auto f) {
    return [f](const Array& h) { return tl::grad<1>(loss_of(f))(cell(), h, xs()); };
  };
  const Array got = tl::jit(tl::vmap(gradient(looped)))(hs);
  for (int i = 0; i < 4; ++i) expect_equal(got(i), gradient(unrolled)(hs(i)));
}

TEST(Scan, RunsBackwards) {
  const auto f = [](bool reverse) {
    return tl::scan([](Array c, Array x) { return std::pair{c * 0.5 + x, c}; }, 1.0,
                    Array({1.0, 2.0, 3.0}), {.reverse = reverse});
  };
  EXPECT_DOUBLE_EQ(value(f(false).first), 0.125 + 0.25 + 1 + 3);
  EXPECT_DOUBLE_EQ(value(f(true).first), 0.125 + 0.75 + 1 + 1);
  expect_near(f(true).second, {3.75, 3.5, 1});
}

TEST(Scan, UnrollsWithTheSameValues) {
  for (const std::int64_t unroll : {1, 2, 5}) {
    const auto [last, ys] = tl::jit([&] {
      return tl::scan([](Array c, Array x) { return std::pair{tl::sin(c) + x, c}; }, 0.5, rows({5}),
                      {.unroll = unroll});
    })();
    double c = 0.5;
    for (const double x : values(rows({5}))) c = std::sin(c) + x;
    EXPECT_NEAR(value(last), c, 1e-12);
    EXPECT_EQ(ys.size(), 5);
  }
}

TEST(Scan, NeedsNoRowsAndNoYs) {
  const auto [c, ys] =
      tl::scan([](Array x) { return std::pair{2.0 * x, x}; }, 1.0, tl::none, {.length = 4});
  EXPECT_EQ(value(c), 16);
  expect_near(ys, {1, 2, 4, 8});
  const auto only =
      tl::scan([](Array x, Array y) { return std::pair{x + y, tl::none}; }, 0.0, rows({3})).first;
  EXPECT_NEAR(value(only), value(tl::sum(rows({3}))), 1e-14);
}

TEST(Scan, CarriesTrees) {
  struct State {
    Array count;
    std::vector<Array> parts;
    std::pair<Array, int> tagged;
  };
  const State init{Array(0), {Array({1.0, 2.0}), Array(3.0)}, {Array(1.0), 7}};
  const auto [last, ys] = tl::scan(
      [](const State& s, const std::map<std::string, Array>& x) {
        State next = s;
        next.count = s.count + 1;
        next.parts[0] = s.parts[0] * x.at("a");
        next.tagged.first = s.tagged.first + x.at("b") * static_cast<double>(s.tagged.second);
        return std::pair{next, std::map<std::string, Array>{{"n", s.count}}};
      },
      init, std::map<std::string, Array>{{"a", Array({2.0, 3.0})}, {"b", Array({1.0, 1.0})}});
  EXPECT_EQ(last.count.item<int>(), 2);
  expect_near(last.parts[0], {6, 12});
  EXPECT_EQ(value(last.tagged.first), 15);
  EXPECT_EQ(last.tagged.second, 7);
  expect_near(ys.at("n"), {0, 1});
}

TEST(Scan, OfLengthZeroGivesTheCarryBack) {
  const auto f = [](Array x) {
    return tl::scan([](Array c, Array) { return std::pair{tl::sin(c), c}; }, x, tl::zeros({0, 2}))
        .first;
  };
  EXPECT_EQ(value(f(3.0)), 3.0);
  EXPECT_EQ(value(tl::grad(f)(3.0)), 1.0);
  EXPECT_EQ(value(tl::jit(tl::grad(f))(3.0)), 1.0);
}

TEST(Scan, KeepsIntegersInTheCarry) {
  const auto f = [](Array x) {
    const auto last = tl::scan(
        [](std::pair<Array, Array> c, Array y) {
          return std::pair{std::pair{c.first + 1, c.second * y * c.first.astype(tl::DType::f64)},
                           tl::none};
        },
        std::pair{Array(1), x}, Array({1.5, 2.5, 3.5}));
    return last.first.second;
  };
  EXPECT_DOUBLE_EQ(value(tl::grad(f)(2.0)), 1.5 * 2.5 * 3.5 * 6);
  EXPECT_DOUBLE_EQ(value(tl::jit(tl::grad(f))(2.0)), 1.5 * 2.5 * 3.5 * 6);
}

TEST(Scan, MakesWeakInitialValuesStrong) {
  const auto f32 = Array({1.0f, 2.0f});
  const auto [sum, ys] = tl::scan([](Array c, Array x) { return std::pair{c + x, c}; }, 0.0, f32);
  EXPECT_EQ(sum.dtype(), tl::DType::f32);
  EXPECT_EQ(value(sum), 3);
  EXPECT_EQ(ys.dtype(), tl::DType::f32);
}

// ---- programs ------------------------------------------------------------------------------------

TEST(ScanPrograms, PrintParseAndTypeCheck) {
  const auto loss = loss_of(looped);
  expect_sound(tl::make_jaxpr(loss)(cell(), h0(), xs()).jaxpr);
  expect_sound(tl::make_jaxpr(tl::grad<0, 1, 2>(loss))(cell(), h0(), xs()).jaxpr);
  expect_sound(tl::make_jaxpr(tl::vmap(tl::grad<1>(loss), {.in_axes = {tl::none, 0, tl::none}}))(
                   cell(), rows({2, 3}), xs())
                   .jaxpr);
}

// The scan equations of a program, outermost only.
std::vector<tl::ScanParams> scans(const tl::Jaxpr& jaxpr) {
  std::vector<tl::ScanParams> found;
  for (const tl::Eqn& eqn : jaxpr.eqns()) {
    if (eqn.primitive == &tl::scan_p) found.push_back(eqn.params.as<tl::ScanParams>());
    for (const tl::Jaxpr& inner : eqn.params.jaxprs()) {
      if (eqn.primitive != &tl::scan_p)
        for (auto& p : scans(inner)) found.push_back(p);
    }
  }
  return found;
}

TEST(ScanPrograms, StackOnlyResidualsThatChange) {
  // d/dc of c -> sin(w) c: the residual sin(w) does not change, so nothing is stacked.
  const auto f = [](Array w, Array x) {
    return tl::scan([&](Array c) { return std::pair{tl::sin(w) * c, tl::none}; }, x, tl::none,
                    {.length = 10})
        .first;
  };
  const auto program = tl::make_jaxpr(tl::grad<1>(f))(0.5, 2.0);
  for (const tl::ScanParams& p : scans(program.jaxpr)) {
    EXPECT_EQ(p.jaxpr.num_outputs(), p.num_carry) << program.to_string();  // no ys
    EXPECT_EQ(p.jaxpr.num_inputs(), p.num_consts + p.num_carry);           // no xs
    EXPECT_EQ(tl::count_eqns(p.jaxpr, "sin"), 0) << "sin(w) is computed once, in front";
  }
  EXPECT_NEAR(value(tl::grad<1>(f)(0.5, 2.0)), std::pow(std::sin(0.5), 10), 1e-12);
}

TEST(ScanPrograms, ReadRowsThatAreResidualsFromTheOperand) {
  // The residual of c * x is x itself: the forward loop gives no copy of xs.
  const auto f = [](Array c, Array x) {
    return tl::scan([](Array a, Array b) { return std::pair{a * b, tl::none}; }, c, x).first;
  };
  const auto program = tl::make_jaxpr(tl::grad(f))(2.0, rows({6}));
  for (const tl::ScanParams& p : scans(program.jaxpr))
    EXPECT_EQ(p.jaxpr.num_outputs(), p.num_carry) << program.to_string();
}

TEST(ScanPrograms, ForwardUnchangedCarry) {
  const auto f = [](Array w, Array x) {
    return tl::scan(
               [](std::pair<Array, Array> c) {
                 return std::pair{std::pair{c.first, tl::sin(c.second) * c.first}, tl::none};
               },
               std::pair{w, x}, tl::none, {.length = 3})
        .first.second;
  };
  const auto program = tl::make_jaxpr(tl::grad<0, 1>(f))(1.5, 0.5);
  for (const tl::ScanParams& p : scans(program.jaxpr)) {
    if (p.reverse) continue;
    EXPECT_EQ(p.num_carry, 1) << program.to_string();
  }
  const auto want = [](double w, double x) {
    for (int i = 0; i < 3; ++i) x = std::sin(x) * w;
    return x;
  };
  const auto [dw, dx] = tl::grad<0, 1>(f)(1.5, 0.5);
  EXPECT_NEAR(value(dw), (want(1.5 + 1e-6, 0.5) - want(1.5 - 1e-6, 0.5)) / 2e-6, 1e-8);
  EXPECT_NEAR(value(dx), (want(1.5, 0.5 + 1e-6) - want(1.5, 0.5 - 1e-6)) / 2e-6, 1e-8);
}

TEST(ScanPrograms, DropDeadCarryToAFixedPoint) {
  // a' = sin a, b' = a b, c' = c + b; y = c. What is used decides what stays.
  const tl::ScanParams p{
      .jaxpr = tl::parse_jaxpr("{ lambda a:f64[], b:f64[], c:f64[], x:f64[] . let"
                               " d:f64[] = sin a\n e:f64[] = mul a b\n f:f64[] = add c b"
                               "\n g:f64[] = cos x in ( d, e, f, g ) }"),
      .length = 3,
      .num_consts = 0,
      .num_carry = 3};
  struct Case {
    std::vector<bool> used_out, used_in;
    int eqns;
  };
  const auto& dce = tl::scan_p.rules().dce;
  for (const Case& c : {Case{{true, false, false, false}, {true, false, false, false}, 1},
                        Case{{false, true, false, false}, {true, true, false, false}, 2},
                        Case{{false, false, true, false}, {true, true, true, false}, 3},
                        Case{{false, false, false, true}, {false, false, false, true}, 1},
                        Case{{true, true, true, true}, {true, true, true, true}, 4}}) {
    const tl::DceResult r = dce(tl::Params::of(p), c.used_out);
    EXPECT_EQ(r.used_in, c.used_in);
    EXPECT_EQ(r.params.as<tl::ScanParams>().jaxpr.eqns().size(), static_cast<std::size_t>(c.eqns));
  }
}

TEST(ScanPrograms, LoseWhatNobodyReadsWhenTraced) {
  const auto program = tl::make_jaxpr([](Array x) {
    return tl::scan(
               [](std::pair<Array, Array> c, Array y) {
                 return std::pair{std::pair{tl::sin(c.first), tl::exp(c.second)}, c.second * y};
               },
               std::pair{x, x}, rows({3}))
        .first.first;
  })(1.0);
  EXPECT_EQ(tl::count_eqns(program.jaxpr, "exp"), 0) << program.to_string();
  EXPECT_EQ(tl::count_eqns(program.jaxpr, "sin"), 1);
}

TEST(ScanPrograms, AreTracedOnceInJit) {
  int traces = 0;
  const auto f = tl::jit([&](Array x) {
    return tl::scan(
               [&](Array c) {
                 ++traces;
                 return std::pair{tl::sin(c), tl::none};
               },
               x, tl::none, {.length = 1000})
        .first;
  });
  f(Array({1.0})(0));
  EXPECT_EQ(traces, 1);
  f(Array({2.0})(0));
  EXPECT_EQ(traces, 1);
}

TEST(Scan, IsTransposedWithACounterInTheCarry) {
  // A linear function of x, with a carry that is not: a counter.
  const auto f = [](Array x) {
    return tl::fori_loop(
        0, 4, [](Array i, Array c) { return c * 2.0 + i.astype(tl::DType::f64) * c; }, x);
  };
  const auto pull = tl::linear_transpose(f, Array(1.0));
  double slope = 1;
  for (int i = 0; i < 4; ++i) slope *= 2.0 + i;
  EXPECT_NEAR(value(std::get<0>(pull(Array({1.0})(0)))), slope, 1e-12);
}

}  // namespace
}  // namespace telamon_test
