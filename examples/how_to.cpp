// The programs of the pages in docs/how-to, one function for each page.
#include <iostream>
#include <string>
#include <telamon/telamon.hpp>
#include <tuple>
#include <utility>

namespace tl = telamon;
using tl::Array;

namespace {

// ---- docs/how-to/static_arguments.md
struct Layer {
  Array w;
  std::string activation;  // no array: part of the signature
};

Array apply(const Layer& layer, const Array& x) {
  const Array y = tl::matmul(x, layer.w);
  return layer.activation == "tanh" ? tl::tanh(y) : tl::relu(y);
}

void static_arguments() {
  auto power = tl::jit([](Array x, int n) {
    std::cout << "tracing for n = " << n << "\n";
    Array y = x;
    for (int i = 1; i < n; ++i) y = y * x;
    return y;
  });
  std::cout << power(2.0, 3) << " " << power(5.0, 3) << "\n";
  std::cout << power(2.0, 4) << "\n";

  const Array w({{1.0, -1.0}, {2.0, -2.0}});
  auto fast = tl::jit(apply);
  std::cout << fast(Layer{w, "relu"}, Array({1.0, 1.0})) << "\n";
  std::cout << fast(Layer{w, "tanh"}, Array({1.0, 1.0})) << "\n";
  std::cout << fast.cache_size() << " programs\n";

  auto scaled = tl::jit(
      [](Array x, Array steps) {
        for (int i = 0; i < steps.item<int>(); ++i) x = x * 0.5;
        return x;
      },
      {.static_argnums = {1}});
  std::cout << scaled(8.0, Array(3)) << "\n";
}

// ---- docs/how-to/donation.md
void donation() {
  auto step = tl::jit([](Array w, Array gradient) { return w - 0.1 * gradient; },
                      {.donate = {0}, .name = "step"});
  Array w = tl::zeros({1000}) + 1.0;
  const Array gradient = tl::ones({1000});
  const Array before = w;  // a second handle to the same memory
  w = step(w, gradient);   // the new weights lie where the old ones lay
  std::cout << w(0) << "\n";
  try {
    std::cout << before(0) << "\n";
  } catch (const tl::DonatedBufferError& error) { std::cout << error.message() << "\n"; }
}

// ---- docs/how-to/random_numbers.md
Array noisy(const Array& key, const Array& x) {
  return x + 0.1 * tl::random::normal(key, x.shape());
}

void random_numbers() {
  const Array key = tl::random::key(42);
  std::cout << tl::random::uniform(key, {3}) << "\n";
  std::cout << tl::random::uniform(key, {3}) << "\n";

  const Array keys = tl::random::split(key, 3);
  std::cout << tl::random::normal(keys(0), {2}) << " " << tl::random::normal(keys(1), {2}) << "\n";
  std::cout << tl::random::randint(keys(2), {5}, 0, 10) << "\n";

  const Array x = tl::zeros({2});
  std::cout << tl::vmap(noisy, {.in_axes = {0, tl::none}})(keys, x) << "\n";

  for (int step = 0; step < 2; ++step)
    std::cout << tl::random::permutation(tl::random::fold_in(key, step), 5) << "\n";
}

// ---- docs/how-to/loops.md
void loops() {
  // total, x -> total, running sum
  auto running = [](Array xs) {
    return tl::scan(
               [](Array total, Array x) {
                 total = total + x * x;
                 return std::pair{total, total};
               },
               Array(0.0), xs)
        .second;
  };
  const Array xs({1.0, 2.0, 3.0});
  std::cout << tl::jit(running)(xs) << "\n";
  std::cout << tl::grad([&](Array x) { return tl::sum(running(x)); })(xs) << "\n";

  auto root = tl::jit([](Array a) {
    return tl::while_loop([&](Array x) { return tl::abs(x * x - a) > 1e-12; },
                          [&](Array x) { return 0.5 * (x + a / x); }, a);
  });
  std::cout << root(2.0) << " " << tl::vmap(root)(Array({4.0, 9.0, 100.0})) << "\n";

  auto limited = [](Array a) {
    return tl::while_loop([&](Array x) { return tl::abs(x * x - a) > 1e-12; },
                          [&](Array x) { return 0.5 * (x + a / x); }, a, {.max_steps = 30});
  };
  std::cout << tl::jit(tl::grad(limited))(2.0) << "\n";

  std::cout << tl::fori_loop(
                   0, 5, [](Array i, Array x) { return x + i.astype(tl::f64); }, Array(0.0))
            << "\n";

  auto root_or_minus = [](Array x) {
    return tl::cond(x > 0.0, [](Array v) { return tl::sqrt(v); }, [](Array v) { return -v; }, x);
  };
  std::cout << tl::jit(root_or_minus)(9.0) << " " << tl::grad(root_or_minus)(-9.0) << "\n";
}

// ---- docs/how-to/custom_derivatives.md
Array log1pexp_of(const Array& x) { return tl::log(1.0 + tl::exp(x)); }

const auto log1pexp = tl::custom_jvp(
    log1pexp_of, [](Array x, Array dx) { return std::pair{log1pexp_of(x), dx * tl::sigmoid(x)}; },
    {.name = "log1pexp"});

const auto clipped = tl::custom_vjp(
    [](Array x) { return x; },                             // the function
    [](Array x) { return std::pair{x, std::tuple<>{}}; },  // its results, and what bwd needs
    [](std::tuple<>, Array ct) {
      return std::tuple{tl::clip(ct, -1.0, 1.0)};
    },  // cotangents of its arguments
    {.name = "clipped"});

void custom_derivatives() {
  std::cout << tl::grad(log1pexp_of)(1000.0) << " " << tl::grad(log1pexp)(1000.0) << "\n";
  std::cout << tl::jit(tl::vmap(tl::grad(log1pexp)))(Array({-1000.0, 0.0, 1000.0})) << "\n";
  std::cout << tl::grad([](Array x) { return 50.0 * clipped(x); })(2.0) << "\n";

  auto layer = [](Array x) { return tl::sin(tl::sin(x)); };
  std::cout << tl::grad(tl::checkpoint(layer))(0.5) << "\n";
}

// ---- docs/how-to/implicit_derivatives.md
Array cube_root(const Array& a) {
  return tl::root::newton([&](Array x) { return x * x * x - a; }, 1.0).x;
}

// u on a grid, where k u - u'' = f and u is 0 at both ends.
Array diffused(const Array& k, const Array& f) {
  const auto A = [&](Array u) {
    const Array left = tl::pad(u(tl::slice(0, -1)), {1, 0});
    const Array right = tl::pad(u(tl::slice(1, tl::none)), {0, 1});
    return k * u + (2.0 * u - left - right);
  };
  return tl::cg(A, f, {.tol = 1e-12}).x;
}

// The solver that nobody has written for you: Jacobi's iteration.
Array jacobi(const Array& a, const Array& b) {
  const auto solve = [](const auto& A, Array rhs) {
    return tl::fori_loop(
        0, 60, [&](Array, Array x) { return x + 0.2 * (rhs - A(x)); }, tl::zeros_like(rhs));
  };
  return tl::custom_linear_solve([&](Array x) { return tl::matmul(a, x); }, b, solve, solve);
}

// A root by any method, with the slope of f at the root.
Array square_root(const Array& a) {
  const auto heron = [&](const auto&, Array x) {
    return tl::while_loop([&](Array y) { return tl::abs(y * y - a) > 1e-14 * a; },
                          [&](Array y) { return 0.5 * (y + a / y); }, x);
  };
  return tl::custom_root([&](Array x) { return x * x - a; }, a, heron,
                         [](const auto& slope, Array y) { return y / slope(1.0); });
}

void implicit_derivatives() {
  std::cout << cube_root(8.0) << " " << tl::grad(cube_root)(8.0) << "\n";
  std::cout << tl::jit(tl::vmap(tl::grad(cube_root)))(Array({1.0, 8.0, 27.0})) << "\n";

  auto total = [](Array k, Array f) { return tl::sum(diffused(k, f)); };
  std::cout << tl::jit(tl::grad(total))(0.5, tl::ones({4}, tl::f64)) << "\n";

  const Array a({{4.0, 1.0}, {2.0, 3.0}}), b({1.0, 2.0});
  std::cout << jacobi(a, b) << " "
            << tl::grad<1>([](Array m, Array r) { return tl::sum(jacobi(m, r)); })(a, b) << "\n";

  std::cout << tl::grad(square_root)(4.0) << " " << tl::grad(tl::grad(square_root))(4.0) << "\n";

  auto decay = [](Array rate) {
    return tl::while_loop([](Array x) { return x > 0.5; },
                          [&](Array x) { return x * (1.0 - rate); }, Array(1.0),
                          {.max_steps = 10000, .checkpoint = true});
  };
  std::cout << tl::jit(tl::grad(decay))(0.001) << "\n";
}

// ---- docs/how-to/checking.md
Array log_at(const Array& x, const Array& i) {
  tl::check(i >= 0, "the index must not be negative, but it is {}", i);
  return tl::log(x(i));
}

void checking() {
  const Array x({1.0, 2.0, -3.0});
  auto safe = tl::jit(tl::checkify(log_at, tl::all_checks));
  for (const int i : {1, -1, 7, 2}) {
    const auto [error, y] = safe(x, i);
    std::cout << y << ": " << error.get().value_or("all is well") << "\n";
  }

  auto each = tl::vmap(tl::checkify(log_at), {.in_axes = {tl::none, 0}});
  std::cout << *each(x, Array({-1, 0, -2})).first.get() << "\n";

  auto [slope, error] = tl::grad_aux([](Array x) {
    auto [e, y] = tl::checkify(log_at, tl::all_checks)(x, 1);
    return std::pair{y, e};
  })(x);
  error.throw_();
  std::cout << slope << "\n";

  auto normalised = tl::jit([](Array v) { return v / tl::sum(v); });
  try {
    const tl::DebugNans scope;
    normalised(Array({0.0, 0.0}));
  } catch (const tl::FloatingPointError& error) { std::cout << error.message() << "\n"; }
}

}  // namespace

int main() {
  static_arguments();
  donation();
  random_numbers();
  loops();
  custom_derivatives();
  implicit_derivatives();
  checking();
}
