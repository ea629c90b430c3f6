#include "rule_checks.hpp"

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "scalar_emitter.hpp"
#include "telamon/telamon.hpp"

namespace telamon::testing {

namespace {
template <class T>
Array converted(const Shape& shape, const std::vector<double>& values) {
  return Array(std::vector<T>(values.begin(), values.end()), shape);
}

template <class F>
std::size_t flat(const Shape& shape, F index) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index(d);
  return static_cast<std::size_t>(at);
}

Array stack_at(const std::vector<Array>& parts, int axis) {
  Shape shape = parts[0].shape();
  shape.insert(static_cast<std::size_t>(axis), static_cast<std::int64_t>(parts.size()));
  std::vector<Reader> readers(parts.begin(), parts.end());
  std::vector<double> out;
  for_all(shape, [&](const Shape& index) {
    Shape inner = index;
    inner.erase(static_cast<std::size_t>(axis));
    out.push_back(readers[static_cast<std::size_t>(index[static_cast<std::size_t>(axis)])](inner));
  });
  return make(parts[0].dtype(), shape, out);
}

Array slice_at(const Array& x, int axis, std::int64_t i) {
  Shape shape = x.shape();
  shape.erase(static_cast<std::size_t>(axis));
  const Reader read(x);
  std::vector<double> out;
  for_all(shape, [&](Shape index) {
    index.insert(static_cast<std::size_t>(axis), i);
    out.push_back(read(index));
  });
  return make(x.dtype(), shape, out);
}

/// a + t b
Array axpy(const Array& a, double t, const Array& b) {
  std::vector<double> x = values(a), y = values(b);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += t * y[i];
  return make(a.dtype(), a.shape(), x);
}

double inner(const Array& a, const Array& b) {
  const std::vector<double> x = values(a), y = values(b);
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}
}  // namespace

Array make(DType dtype, const Shape& shape, const std::vector<double>& v) {
  switch (dtype) {
    case DType::bool_: return converted<bool>(shape, v);
    case DType::i8: return converted<std::int8_t>(shape, v);
    case DType::i16: return converted<std::int16_t>(shape, v);
    case DType::i32: return converted<std::int32_t>(shape, v);
    case DType::i64: return converted<std::int64_t>(shape, v);
    case DType::u8: return converted<std::uint8_t>(shape, v);
    case DType::u16: return converted<std::uint16_t>(shape, v);
    case DType::u32: return converted<std::uint32_t>(shape, v);
    case DType::u64: return converted<std::uint64_t>(shape, v);
    case DType::f32: return converted<float>(shape, v);
    default: return converted<double>(shape, v);
  }
}

Array sample(DType dtype, const Shape& shape, int seed) {
  const auto n = static_cast<std::size_t>(shape.num_elements());
  std::vector<double> v(n);
  std::iota(v.begin(), v.end(), 0.0);
  std::mt19937 random(static_cast<unsigned>(1234 + seed));
  std::shuffle(v.begin(), v.end(), random);
  if (is_float(dtype)) {
    for (double& x : v) x = (x + 0.37 + 0.01 * seed) / static_cast<double>(n) * 4 - 2;
  }
  if (dtype == DType::bool_) {
    for (double& x : v) x = std::fmod(x, 2);
  }
  return make(dtype, shape, v);
}

std::vector<double> values(const Array& x) { return x.to_vector<double>(); }

void for_all(const Shape& shape, const std::function<void(const Shape&)>& f) {
  for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
    Shape index(shape.size(), 0);
    std::int64_t rest = i;
    for (std::size_t d = shape.size(); d-- > 0;) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    f(index);
  }
}

double Reader::operator()(const Shape& index) const {
  return values_.at(flat(shape_, [&](std::size_t d) { return index[d]; }));
}

void expect_close(const Array& got, const Array& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.dtype(), want.dtype()) << what;
  ASSERT_EQ(got.shape(), want.shape())
      << what << " " << got.shape().to_string() << " " << want.shape().to_string();
  const std::vector<double> a = values(got), b = values(want);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::isinf(b[i]) && a[i] == b[i]) continue;
    ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::fabs(b[i]))) << what << ", element " << i;
  }
}

void expect_elements(const Array& got, const Shape& shape,
                     const std::function<double(const Shape&)>& want) {
  std::vector<double> v;
  for_all(shape, [&](const Shape& index) { v.push_back(want(index)); });
  expect_close(got, make(got.dtype(), shape, v), 1e-12, "elements");
}

void check_avals(const Application& a) {
  std::vector<Aval> avals;
  for (const Array& x : a.args()) avals.push_back(x.aval());
  const AbstractResult abstract = a.primitive->rules().abstract_eval(a.params, avals);
  const Arrays out = a.eval(a.args());
  ASSERT_EQ(abstract.avals.size(), out.size());
  for (std::size_t i = 0; i < out.size(); ++i)
    EXPECT_EQ(abstract.avals[i].to_string(), out[i].aval().to_string());
}

void check_jvp(const Application& a, double tolerance) {
  std::vector<Tangent> tangents;
  Arrays plus, minus;
  constexpr double kStep = 1e-5;
  int seed = 100;
  for (const Array& x : a.args()) {
    if (x.dtype() != DType::f64) {
      tangents.emplace_back(Zero{x.aval().tangent()});
      plus.push_back(x);
      minus.push_back(x);
      continue;
    }
    const Array v = f64_sample(x.shape(), seed++);
    tangents.emplace_back(v);
    plus.push_back(axpy(x, kStep, v));
    minus.push_back(axpy(x, -kStep, v));
  }
  const JvpResult got = a.primitive->rules().jvp(a.params, a.args(), tangents);
  const Arrays y = a.eval(a.args()), above = a.eval(plus), below = a.eval(minus);
  for (std::size_t i = 0; i < y.size(); ++i) {
    expect_close(got.primals[i], y[i], 1e-12, "jvp's primal");
    if (y[i].dtype() != DType::f64) {
      EXPECT_TRUE(got.tangents[i].is_zero());
      continue;
    }
    const Array difference =
        axpy(make(DType::f64, y[i].shape(),
                  std::vector<double>(static_cast<std::size_t>(y[i].size()), 0)),
             1 / (2 * kStep), axpy(above[i], -1, below[i]));
    expect_close(got.tangents[i].instantiate(), difference, tolerance, "jvp's tangent");
  }
}

void check_transpose(const Application& a, const std::vector<int>& linear) {
  Arrays at_v = a.args(), at_zero = a.args();
  std::vector<LinearInput> inputs(a.args().begin(), a.args().end());
  for (const int k : linear) {
    const auto i = static_cast<std::size_t>(k);
    const Array& x = a.args()[i];
    at_v[i] = f64_sample(x.shape(), 50 + k);
    at_zero[i] =
        make(DType::f64, x.shape(), std::vector<double>(static_cast<std::size_t>(x.size()), 0));
    inputs[i] = UndefPrimal{x.aval()};
  }
  const Arrays y = a.eval(at_v), y0 = a.eval(at_zero);
  std::vector<Tangent> cts;
  double left = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const Array w = f64_sample(y[i].shape(), 70 + static_cast<int>(i));
    cts.emplace_back(w);
    left += inner(axpy(y[i], -1, y0[i]), w);
  }
  const std::vector<Tangent> back = a.primitive->rules().transpose(a.params, cts, inputs);
  ASSERT_EQ(back.size(), a.args().size());
  double right = 0;
  for (const int k : linear) {
    const auto i = static_cast<std::size_t>(k);
    ASSERT_EQ(back[i].aval().shape, a.args()[i].shape());
    right += inner(at_v[i], back[i].instantiate());
  }
  EXPECT_NEAR(left, right, 1e-10 * (1 + std::fabs(left)));
}

namespace {
void check_one_batch(const Application& a, const std::vector<BatchAxis>& axes,
                     const std::string& what) {
  const std::size_t size = a.examples.size();
  Arrays batched;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::vector<Array> parts;
    for (const Arrays& example : a.examples) parts.push_back(example[i]);
    batched.push_back(axes[i] ? stack_at(parts, *axes[i]) : parts[0]);
  }
  const AxisInfo info{static_cast<std::int64_t>(size), "batch"};
  const BatchResult got = a.primitive->rules().batch(a.params, info, batched, axes);
  for (std::size_t b = 0; b < size; ++b) {
    Arrays args;
    for (std::size_t i = 0; i < axes.size(); ++i) args.push_back(a.examples[axes[i] ? b : 0][i]);
    const Arrays want = a.eval(args);
    ASSERT_EQ(got.values.size(), want.size()) << what;
    for (std::size_t k = 0; k < want.size(); ++k) {
      const Array one = got.axes[k]
                            ? slice_at(got.values[k], *got.axes[k], static_cast<std::int64_t>(b))
                            : got.values[k];
      expect_close(one, want[k], 1e-12, what);
    }
  }
}
}  // namespace

void check_batch(const Application& a) {
  if (a.args().empty()) return;
  std::vector<int> choice(a.args().size(), -1);
  while (true) {
    std::size_t i = 0;
    while (i < choice.size() && ++choice[i] > a.args()[i].ndim()) choice[i++] = -1;
    if (i == choice.size()) return;
    std::vector<BatchAxis> axes;
    std::string what = "batch axes";
    for (const int c : choice) {
      axes.push_back(c < 0 ? BatchAxis() : BatchAxis(c));
      what += " " + (c < 0 ? std::string("none") : std::to_string(c));
    }
    ASSERT_NO_FATAL_FAILURE(check_one_batch(a, axes, what));
  }
}

namespace {

std::vector<Value> cells_of(const Array& x) {
  std::vector<Value> out;
  if (is_float(x.dtype())) {
    for (const double v : values(x)) out.push_back({v, 0});
  } else {
    for (const std::int64_t v : x.to_vector<std::int64_t>()) out.push_back({0, v});
  }
  return out;
}
Array array_of(DType dtype, const Shape& shape, const std::vector<Value>& cells) {
  std::vector<double> v;
  for (const Value& c : cells) v.push_back(is_float(dtype) ? c.f : static_cast<double>(c.i));
  return make(dtype, shape, v);
}

struct Lowered {
  const Application& a;
  Arrays want;
  ScalarEmitter e;
  std::deque<std::vector<Value>> memory;
  std::vector<Buffer> in, out;

  explicit Lowered(const Application& app) : a(app), want(app.eval(app.args())) {
    for (const Array& x : a.args()) in.push_back(buffer(x, cells_of(x)));
    for (const Array& y : want)
      out.push_back(buffer(y, std::vector<Value>(static_cast<std::size_t>(y.size()))));
  }
  Buffer buffer(const Array& x, std::vector<Value> cells) {
    memory.push_back(std::move(cells));
    return {x.shape(), x.dtype(), &memory.back()};
  }
  void compare() {
    for (std::size_t i = 0; i < want.size(); ++i) {
      expect_close(array_of(want[i].dtype(), want[i].shape(),
                            *static_cast<std::vector<Value>*>(out[i].pointer())),
                   want[i], 1e-12, "lowering");
    }
  }

  void operator()(std::monostate) { ADD_FAILURE() << "no lowering"; }
  void operator()(const Lowering::Element&) { ADD_FAILURE() << "not elementwise"; }
  void operator()(const Lowering::Ops& f) {
    const Arrays got = f.f(a.params, a.args());
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) expect_close(got[i], want[i], 1e-12, "lowering");
  }
  void operator()(const Lowering::AtIndex& f) {
    std::vector<Source> sources;
    for (const Buffer& b : in) {
      sources.emplace_back(b.shape(), b.dtype(),
                           [this, b](const Index& i) { return e.load(b, i); });
    }
    for_all(want[0].shape(), [&](const Shape& at) {
      Index index;
      for (const std::int64_t i : at) index.push_back(e.index(i));
      e.store(out[0], index, f.f(e, a.params, sources, index));
    });
    compare();
  }
  void operator()(const Lowering::Reduction& f) {
    const Shape axes = f.axes(a.params);
    const auto kept = [&](const Shape& at) {
      Index index;
      for (std::size_t d = 0; d < at.size(); ++d) {
        if (!axes.contains(static_cast<std::int64_t>(d))) index.push_back(e.index(at[d]));
      }
      return index;
    };
    for (Value& v : *static_cast<std::vector<Value>*>(out[0].pointer())) {
      v = ScalarEmitter::value(f.identity(e, a.params, out[0].dtype()));
    }
    for_all(in[0].shape(), [&](const Shape& at) {
      Index index;
      for (const std::int64_t i : at) index.push_back(e.index(i));
      e.store(out[0], kept(at),
              f.combine(e, a.params, e.load(out[0], kept(at)), e.load(in[0], index)));
    });
    compare();
  }
  void operator()(const Lowering::Kernel& f) {
    f.f(e, a.params, in, out);
    compare();
  }
  void operator()(const Lowering::Call& f) {
    std::vector<std::vector<double>> data, results;
    std::vector<BufferView> views;
    std::vector<MutableBufferView> targets;
    for (const Array& x : a.args()) data.push_back(values(x));
    for (const Array& y : want) results.emplace_back(static_cast<std::size_t>(y.size()));
    for (std::size_t i = 0; i < data.size(); ++i) {
      ASSERT_EQ(a.args()[i].dtype(), DType::f64) << "call lowerings are checked on f64 only";
      views.push_back({data[i].data(), DType::f64, a.args()[i].shape()});
    }
    for (std::size_t i = 0; i < results.size(); ++i)
      targets.push_back({results[i].data(), DType::f64, want[i].shape()});
    f.f(a.params, views, targets);
    for (std::size_t i = 0; i < want.size(); ++i)
      expect_close(make(DType::f64, want[i].shape(), results[i]), want[i], 0, "call");
  }
};

}  // namespace

void check_compiled(const Application& a) {
  const auto apply = [&a](const std::vector<Array>& x) { return a.eval(x); };
  const Arrays want = a.eval(a.args()), got = jit(apply)(a.args());
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    expect_close(got[i], want[i], want[i].dtype() == DType::f32 ? 1e-6 : 1e-12, "compiled");
  }
}

void check_lowering(const Application& a) {
  Lowered run(a);
  std::visit(run, a.primitive->rules().lower.at("cpu").form);
}

}  // namespace telamon::testing
