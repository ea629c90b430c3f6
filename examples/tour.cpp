// The programs of docs/guide/tour.md, in its order.
#include <iostream>
#include <telamon/random.hpp>
#include <telamon/telamon.hpp>
#include <utility>
#include <vector>

namespace tl = telamon;
using tl::Array;

namespace {

void arrays() {
  Array x({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});  // f64[2,3]: data keeps its C++ type
  Array y = 2.0 * x + 1.0;                      // scalars take the dtype of the array beside them
  std::cout << y << "\n";
  std::cout << tl::sum(y, 0) << " " << tl::mean(y) << " " << y(1, tl::slice(0, 2)) << "\n";
  std::cout << tl::zeros({2}).aval().to_string() << "\n";  // creation functions default to f32
}

void derivatives() {
  auto f = [](Array x) { return tl::sin(x) * x; };
  auto df = tl::grad(f);
  auto d2f = tl::grad(df);
  std::cout << f(2.0) << " " << df(2.0) << " " << d2f(2.0) << "\n";

  auto g = [](Array x) { return x > 0.0 ? x * x : -x; };
  std::cout << tl::grad(g)(3.0) << " " << tl::grad(g)(-3.0) << "\n";

  auto h = [](Array x) { return x * tl::sum(x); };
  Array x({1.0, 2.0});
  std::cout << tl::jacfwd(h)(x) << "\n";
  auto [value, push] = tl::linearize(h, x);
  std::cout << push(Array({1.0, 0.0})) << "\n";
  auto [same, pull] = tl::vjp(h, x);
  std::cout << std::get<0>(pull(Array({1.0, 0.0}))) << "\n";
}

void batching() {
  auto distance = [](Array a, Array b) { return tl::sqrt(tl::sum(tl::square(a - b))); };
  Array points({{0.0, 0.0}, {3.0, 4.0}, {6.0, 8.0}});
  Array origin({0.0, 0.0});
  std::cout << tl::vmap(distance, {.in_axes = {0, tl::none}})(points, origin) << "\n";

  auto all_pairs =
      tl::vmap(tl::vmap(distance, {.in_axes = {tl::none, 0}}), {.in_axes = {0, tl::none}});
  std::cout << all_pairs(points, points) << "\n";
}

void compiling() {
  auto f = tl::jit([](Array x) {
    std::cout << "tracing\n";
    return tl::mean(tl::exp(-tl::square(x)));
  });
  Array x = tl::linspace(-1.0, 1.0, 1000);
  std::cout << f(x) << "\n";
  std::cout << f(x + 1.0) << "\n";
  std::cout << tl::grad(f)(x).shape().to_string() << "\n";
}

struct Layer {
  Array w, b;
};
struct Network {
  std::vector<Layer> layers;
};

Array apply(const Network& network, Array x) {
  for (const Layer& layer : network.layers) x = tl::tanh(tl::matmul(x, layer.w) + layer.b);
  return x;
}

void trees() {
  Array keys = tl::random::split(tl::random::key(0));
  Network network{{{tl::random::normal(keys(0), {2, 3}), tl::zeros({3})},
                   {tl::random::normal(keys(1), {3, 1}), tl::zeros({1})}}};
  auto loss = [](const Network& n, Array x) { return tl::mean(tl::square(apply(n, x) - 0.5)); };
  Network gradient = tl::grad(loss)(network, tl::ones({4, 2}));
  std::cout << gradient.layers[1].w.shape().to_string() << "\n";
  network = tl::tree_map([](Array p, Array g) { return p - 0.1 * g; }, network, gradient);
}

void programs() {
  auto f = [](Array x) { return tl::sum(tl::sin(x) * 2.0); };
  std::cout << tl::make_jaxpr(f)(Array({1.0, 2.0, 3.0})) << "\n";
  std::cout << tl::make_jaxpr(tl::grad(f))(Array({1.0, 2.0, 3.0})) << "\n";
}

void errors() {
  try {
    tl::jit([](Array x) { return x > 0.0 ? x : -x; }, {.name = "magnitude"})(2.0);
  } catch (const tl::ConcretizationError& error) { std::cout << error.message() << "\n"; }
}

}  // namespace

int main() {
  arrays();
  derivatives();
  batching();
  compiling();
  trees();
  programs();
  errors();
}
