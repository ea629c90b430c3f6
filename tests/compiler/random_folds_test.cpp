// Random programs of arithmetic, broadcasts, transposes and folds over small dimensions, those of one
// element or none among them: what is compiled gives what is evaluated. A failing one says its seed, and prints
// its program and plan.
#include "support.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : seed_(seed), random_(seed) {
    const auto rank = 1 + below(4);
    for (std::size_t i = 0; i < rank; ++i) space_.push_back(pick(kSizes));
    if (below(12) == 0) space_[below(rank)] = 0;
    dtype_ = pick(kTypes);
    for (unsigned i = 0; i < 3; ++i)
      inputs_.push_back(uniform(part_of_space(), dtype_, -1, 1, seed + i));
  }

  const Arrays& inputs() const { return inputs_; }

  /// The same steps each time: the choices depend on the seed and on shapes only.
  Arrays operator()(std::span<const Array> in) {
    random_.seed(seed_ + (1U << 20));
    Arrays values(in.begin(), in.end());
    for (int i = 0; i < 8; ++i) values.push_back(step(values));
    return {values.end() - 3, values.end()};
  }

 private:
  static constexpr std::int64_t kSizes[] = {1, 1, 2, 3, 5, 16, 17, 40};
  static constexpr DType kTypes[] = {DType::f32, DType::f64};

  std::size_t below(std::size_t n) { return random_() % n; }
  template <class T, std::size_t n> T pick(const T (&all)[n]) { return all[below(n)]; }

  // Some dimensions of the space are of one element, or left out in front.
  Shape part_of_space() {
    Shape shape;
    for (std::size_t d = below(2) * below(space_.size()); d < space_.size(); ++d)
      shape.push_back(below(3) == 0 ? 1 : space_[d]);
    return shape;
  }
  // All values go together by broadcasting; some cover the whole space.
  Array step(const Arrays& values) {
    const Array &a = values[values.size() - 1 - below(2)], &b = values[below(values.size())];
    switch (below(8)) {
      case 0: return sin(a);
      case 1: return a * b + 0.25;
      case 2: return maximum(a, b) - b;
      case 3: return broadcast_to(a, space_) - b;
      case 4: return tanh(a) * broadcast_to(b, space_);
      case 5: return a.ndim() == 0 ? a : sum(a, {.axes = axis_of(a), .keepdims = true}) * 0.1;
      case 6: {
        if (a.ndim() == 0) return a;
        const std::int64_t axis = axis_of(a);
        if (a.shape(axis) == 0) return a;  // nothing has no largest element
        return max(a, {.axes = axis, .keepdims = true}) + b;
      }
      default: {
        if (a.ndim() < 2) return a - b;
        const std::int64_t axis = axis_of(a);
        return moveaxis(sum(moveaxis(a * a, axis, 0), {.axes = -1, .keepdims = true}) * 0.1, 0,
                        axis);
      }
    }
  }
  std::int64_t axis_of(const Array& a) {
    return static_cast<std::int64_t>(below(static_cast<std::size_t>(a.ndim())));
  }

  const unsigned seed_;
  std::mt19937 random_;
  Shape space_;
  DType dtype_ = DType::f32;
  Arrays inputs_;
};

void check_programs(unsigned first, unsigned last) {
  for (unsigned seed = first; seed < last; ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram program(seed);
    const Program f = [&](std::span<const Array> x) { return program(x); };
    const Jaxpr jaxpr = stage(f, program.inputs());
    const Compiled executable = compile(jaxpr);
    const Arrays got = execute(executable, program.inputs()), want = f(program.inputs());
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto g = got[i].to_vector<double>(), w = want[i].to_vector<double>();
      ASSERT_EQ(got[i].shape(), want[i].shape());
      const double eps = got[i].dtype() == DType::f64 ? 1e-12 : 2e-4;
      for (std::size_t k = 0; k < g.size(); ++k) {
        ASSERT_NEAR(g[k], w[k], eps * (1 + std::abs(w[k])))
            << "element " << k << " of result " << i << " of\n"
            << jaxpr.to_string() << executable->text("plan");
      }
    }
  }
}

TEST(RandomFolds, AreCompiledRight) { check_programs(0, 150); }
TEST(RandomFolds, LONG_AreCompiledRight) { check_programs(150, 5000); }

}  // namespace
}  // namespace telamon::testing
