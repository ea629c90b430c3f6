// Newton's method with the exact Hessian: a logistic regression on 569 tumours, which converges in a
// few steps. How certain each parameter is comes from the same Hessian.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <telamon/telamon.hpp>
#include <vector>

namespace tl = telamon;
using tl::Array;

struct Data {
  Array x;  // [cases, 30]
  Array y;  // 1: malignant
};

Data read(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // counts and names
  std::vector<double> x, y;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::vector<double> row;
    for (std::string field; std::getline(fields, field, ',');) row.push_back(std::stod(field));
    y.push_back(1 - row.back());
    x.insert(x.end(), row.begin(), row.end() - 1);
  }
  return {Array(x, {static_cast<std::int64_t>(y.size()), 30}), Array(y)};
}

// The parameters as one vector, so that the Hessian is one matrix: 30 weights and the offset.
Array scores(const Array& w, const Array& x) { return tl::matmul(x, w(tl::slice(0, 30))) + w(30); }
// The mean of -log p(y | x), and a little for large weights.
Array loss(const Array& w, const Data& d) {
  const Array z = scores(w, d.x);
  return tl::mean(tl::softplus(z) - d.y * z) + 0.01 * tl::sum(tl::square(w(tl::slice(0, 30))));
}
Array newton_step(const Array& w, const Data& d) {
  const Array hessian = tl::hessian(loss)(w, d), gradient = tl::grad(loss)(w, d);
  return w - tl::cg(hessian, gradient, {.tol = 1e-12}).x;
}
Array accuracy(const Array& w, const Data& d) {
  return tl::mean((scores(w, d.x) > 0) == (d.y > 0.5));
}

std::string feature(std::size_t i) {
  static const char* const kProperties[] = {
      "radius",      "texture",   "perimeter",      "area",     "smoothness",
      "compactness", "concavity", "concave points", "symmetry", "fractal dimension"};
  static const char* const kKinds[] = {"mean", "error of", "worst"};
  return std::string(kKinds[i / 10]) + " " + kProperties[i % 10];
}

int main() {
  const Data all = read(TELAMON_EXAMPLE_DIR "/breast_cancer.csv");
  constexpr std::int64_t kTraining = 400;
  const auto rows = [&](const tl::Slice& which) {
    return tl::tree_map([&](const Array& a) { return a(which); }, all);
  };
  Data training = rows(tl::slice(0, kTraining)), test = rows(tl::slice(kTraining, tl::none));
  const Array mean = tl::mean(training.x, 0), deviation = tl::std_(training.x, 0);
  for (Data* d : {&training, &test}) d->x = (d->x - mean) / deviation;
  std::cout << training.y.size() << " cases to learn from, " << test.y.size()
            << " to be tested on\n";

  const auto step = tl::jit(newton_step);
  Array w = tl::zeros({31}, tl::f64);
  for (int i = 0; i < 15; ++i) {
    const double slope = tl::norm(tl::grad(loss)(w, training)).item<double>();
    std::printf("step %d: loss %.5f, gradient %.6f\n", i, loss(w, training).item<double>(), slope);
    if (slope < 1e-7) break;
    w = step(w, training);
  }
  std::printf("right: %.1f%% of the first, %.1f%% of the others\n",
              100 * accuracy(w, training).item<double>(), 100 * accuracy(w, test).item<double>());

  // The inverse of the Hessian of the whole sum is the covariance of the parameters; cg gives the
  // columns that are asked for, all at once.
  const Array hessian = kTraining * tl::hessian(loss)(w, training);
  const auto column = [&](const Array& e) { return tl::cg(hessian, e, {.tol = 1e-10}).x; };
  const Array covariance = tl::vmap(column)(tl::eye(31, tl::none, 0, tl::f64));
  const auto errors = tl::sqrt(tl::diag(covariance)).to_vector<double>();
  const auto weights = w.to_vector<double>();
  std::vector<std::size_t> order(30);
  for (std::size_t i = 0; i < 30; ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(weights[a]) > std::abs(weights[b]);
  });
  std::cout << "what counts most, for one standard deviation\n";
  for (std::size_t k = 0; k < 3; ++k) {
    const std::size_t i = order[k];
    std::printf("  %-24s %5.2f +- %.2f\n", feature(i).c_str(), weights[i], errors[i]);
  }
}
