// MEM: what programs need for their intermediate values, beside what these need at least. Networks and mixtures
// stand in the files of their times; here are programs of many branches, each of which can be done with
// before the next.
#include <array>
#include <cstdint>
#include <random>
#include <string>

#include "ours.hpp"

namespace bench {
namespace {

using namespace telamon;

/// The sum of what each branch makes of a product of its own.
template <class Branch>
Case branches(int n, Branch branch) {
  const auto program = [n, branch](const Array& a) {
    Arrays products;
    for (int i = 1; i <= n; ++i) products.push_back(matmul(a * static_cast<float>(i), a));
    Array total = branch(products[0]);
    for (int i = 1; i < n; ++i) total = total + branch(products[static_cast<std::size_t>(i)]);
    return total;
  };
  return memory_of(program, .01 * u(1, {1024, 1024}));
}
const bool fans = [] {
  for (const int n : {6, 24}) {
    const auto name = [n](const char* what) {
      return "MEM." + std::string(what) + std::to_string(n);
    };
    Register(name("running_sums_"), "MB",
             [n] { return branches(n, [](const Array& x) { return sum(cumsum(x, 1)); }); });
    Register(name("products_"), "MB",
             [n] { return branches(n, [](const Array& x) { return sum(matmul(x, x)); }); });
    Register(name("sorted_"), "MB",
             [n] { return branches(n, [](const Array& x) { return sum(square(sort(x, 1))); }); });
  }
  return true;
}();

/// Products of all widths, each of something made before and used again at the end: blocks of many sizes.
Array random_products(const Array& x) {
  constexpr std::array<std::int64_t, 7> kWidths = {64, 192, 400, 800, 1024, 1600, 2560};
  std::mt19937 random(1);
  const auto below = [&](std::size_t n) { return random() % n; };
  Arrays made = {x};
  for (int i = 0; i < 40; ++i) {
    const Array a = made[below(made.size())], b = made[below(made.size())];
    made.push_back(matmul(a, full({a.shape(1), kWidths[below(7)]}, .01f) + sum(b) * 1e-6f));
  }
  Array total = sum(x);
  for (const Array& a : made) total = total + sum(square(a));
  return total;
}
const Register many_sizes("MEM.many_sizes", "MB",
                          [] { return memory_of(random_products, u(1, {512, 256})); });
const Register many_sizes_gradient("MEM.many_sizes_gradient", "MB", [] {
  return memory_of(grad(random_products), u(1, {512, 256}));
});

}  // namespace
}  // namespace bench
