// The program of docs/compiler.md, and what each pass makes of it: a layer of a network with a softmax.
// scripts/update_compiler_doc.sh copies what this prints into the document.
#include <cstdlib>
#include <iostream>
#include <telamon/telamon.hpp>

namespace tl = telamon;
using tl::Array;

namespace {

struct Layer {
  Array w, b;
};

// Probabilities of 10 classes for each of 48 inputs. The second minus sign is for the simplifier.
Array classify(const Layer& layer, const Array& x) {
  const Array scores = tl::tanh(tl::matmul(x, layer.w) + layer.b);
  return tl::softmax(-(-scores), -1);
}

auto lower() {
  const Layer layer{tl::zeros({16, 10}), tl::zeros({10})};
  return tl::jit(classify, {.name = "classify"}).lower(layer, tl::zeros({48, 16}));
}

// What other passes are for. Operands that are computed have lines of their own: which of two in an expression
// comes first is up to the C++ compiler.
Array windowed(const Array& x) { return x * tl::exp(-tl::square(tl::arange(8.0f) - 3.5f)); }
Array doubled_square(const Array& x) {
  const Array square = x * x;
  return square + square;
}
Array decays(const Array& rates, const Array& times) {
  return tl::transpose(tl::exp(-times(tl::slice(), tl::newaxis) * rates));
}
Array squared_distances(const Array& points) {
  const Array others = points(tl::newaxis);
  const Array between = points(tl::slice(), tl::newaxis) - others;
  return tl::sum(between * between, 2);
}
Array forces(const Array& x) {
  const auto energy = [](const Array& at) {
    const Array others = at(tl::newaxis);
    const Array between = at(tl::slice(), tl::newaxis) - others;
    return tl::sum(tl::cos(tl::square(between)));
  };
  return tl::grad(energy)(x);
}
Array growth(const Array& rate, const Array& start) {
  const auto step = [&](const Array&, const Array& x) { return x * tl::exp(rate); };
  return tl::fori_loop(0, 10, step, start);
}
Array logistic_map(const Array& r, const Array& start) {
  const auto step = [&](const Array& x) {
    const Array room = 1 - x;
    return std::pair{r * x * room, tl::none};
  };
  return tl::scan(step, start, tl::none, {.length = 100'000}).first;
}
Array below(const Array& image) {
  const Array rows = image(tl::slice(1, {}));
  return rows - image(tl::slice({}, -1));
}
Array speed(const Array& field, const Array& rows, const Array& columns) {
  const Array u = field(rows, columns, 0), v = field(rows, columns, 1);
  return tl::sqrt(u * u + v * v);
}
Array counted(const Array& counts, const Array& places) { return counts.at(places).add(1.0f); }
Array with_bonus(const Array& totals, const Array& bonus) { return totals.at(3).add(bonus); }
Array histogram(const Array& x) {
  const Array bins = tl::floor(x * 64.0f).astype(tl::DType::i32);
  return tl::zeros({64}).at(bins).add(1.0f);
}
Array scores(const Array& x, const Array& w, const Array& v) {
  return tl::matmul(tl::tanh(tl::matmul(x, w)), v);
}
Array farthest(const Array& directions, const Array& points) {
  const auto reach = [&](const Array& d) { return tl::sum(tl::max(tl::matmul(points, d.T()), 1)); };
  return tl::grad(reach)(directions);
}
Array below_largest(const Array& x) { return x - tl::max(x, 0); }

Array turned(const Array& x) { return tl::transpose(tl::reshape(x, {3, 8})); }
Array sines_of_turned(const Array& x) { return tl::sum(tl::sin(turned(tl::sin(turned(x))))); }

Array cartesian(const Array& p) {
  return p(0) * tl::stack(std::vector{tl::cos(p(1)), tl::sin(p(1))});
}

// The program after a pass, or the plan.
template <class Jitted, class... Args>
void show(const char* stage, const Jitted& f, const Args&... args) {
  std::cout << "== " << stage << "\n" << f.lower(args...).compile().text(stage);
}

// The function of a module whose name begins so, from "define" to the closing brace.
std::string function_of(const std::string& ir, const std::string& name) {
  const std::size_t begin = ir.rfind("define", ir.find("@" + name));
  return ir.substr(begin, ir.find("\n}", begin) + 2 - begin);
}

}  // namespace

int main() {
  setenv("TELAMON_ISA", "generic", 1);  // the same vectors on every machine
  const auto lowered = lower();
  std::cout << "== traced\n" << lowered.jaxpr().jaxpr << "\n";
  const auto compiled = lowered.compile();
  for (const char* pass : {"lower", "simplify", "cse", "dce", "fuse", "buffers", "plan"})
    std::cout << "== " << pass << "\n" << compiled.text(pass);
  show("fold_constants", tl::jit(windowed), tl::zeros({8}));
  show("small_floats", tl::jit(doubled_square), tl::zeros({8}, tl::DType::bf16));
  show("moves", tl::jit(tl::grad(sines_of_turned)), tl::zeros({8, 3}));
  show("reorder", tl::jit(decays), tl::zeros({8}), tl::zeros({40}));
  show("batch_members", tl::jit(tl::vmap(tl::jacfwd(cartesian))), tl::zeros({100, 2}));
  show("short_axes", tl::jit(squared_distances), tl::zeros({64, 3}));
  show("mirrored_sums", tl::jit(forces), tl::zeros({64}));
  show("join_loops", tl::jit(tl::grad(logistic_map)), 3.5, 0.25);
  show("residuals", tl::jit(tl::grad<0, 1>(logistic_map)), 3.5, 0.25);
  show("loops", tl::jit(growth), tl::zeros({8}), tl::zeros({8}));
  show("merge_axes", tl::jit(below), tl::zeros({30, 40, 3}));
  show("flat_lookups", tl::jit(speed), tl::zeros({40, 50, 2}), tl::zeros({90}, tl::DType::i32),
       tl::zeros({90}, tl::DType::i32));
  show("wraps", tl::jit(counted), tl::zeros({50}), tl::zeros({90}, tl::DType::i32));
  show("padded_sums", tl::jit(with_bonus, {.donate = {0}}), tl::zeros({2000}), tl::zeros({}));
  show("row_updates", tl::jit(histogram), tl::zeros({100'000}));
  show("row_groups", tl::jit(scores), tl::zeros({16'384, 64}), tl::zeros({64, 256}),
       tl::zeros({256, 8}));
  show("chosen_sums", tl::jit(farthest), tl::zeros({32, 3}), tl::zeros({200, 3}));
  show("tiles", tl::jit(below_largest), tl::zeros({32, 16'384}));
  setenv("TELAMON_DISABLE", "inline_kernels", 1);
  std::cout << "== ir\n" << function_of(lower().compile().text("ir"), "div_") << "\n";
  std::cout << "== cost\n" << compiled.cost_analysis();
  std::cout << "== memory\n" << compiled.memory_analysis();
}
