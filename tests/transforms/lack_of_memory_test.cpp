// Whatever allocation of the library fails, what users see is an OutOfMemoryError, with a name wherever
// there is memory for one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "core/sanitizers.hpp"
#include "runtime/allocator.hpp"
#include "runtime/reclaim.hpp"
#include "runtime/thread_pool.hpp"
#include "telamon/telamon.hpp"

#if !defined(TELAMON_ASAN) && !defined(TELAMON_TSAN)  // which have operators of their own

namespace {
// Allocations of this thread until one fails, and all after it for so many; -1: none does.
thread_local long until_failure = -1, failures = 0;

void* allocated(std::size_t size) {
  if (until_failure >= 0 && until_failure-- <= 0) {
    until_failure = --failures > 0 ? 0 : -1;
    throw std::bad_alloc();
  }
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t size) { return allocated(size); }
void* operator new[](std::size_t size) { return allocated(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace telamon {
namespace {

struct Model {
  std::vector<Array> weights;
  Array bias;
};
Array loss(const Model& m, const Array& x) {
  Array y = x;
  for (const Array& w : m.weights) y = tanh(matmul(w, y) + m.bias);
  return sum(y * y);
}

/// How f fails when allocation number `first` of it does, and some after it; empty where it does not.
std::string failure(const std::function<void()>& f, long first, long count) {
  std::string text;
  until_failure = first;
  failures = count;
  try {
    f();
  } catch (const OutOfMemoryError& e) {
    until_failure = -1;
    text = e.message();
  } catch (const std::bad_alloc&) {
    until_failure = -1;
    text = "a bare std::bad_alloc";
  } catch (const std::exception& e) {
    until_failure = -1;
    text = std::string("another error: ") + e.what();
  }
  const bool all_made = until_failure >= 0;
  until_failure = -1;
  return all_made ? "" : text.empty() ? "survived" : text;
}

bool starts_with_name(const std::string& text) {
  const auto at = text.find(": out of memory");
  return at != std::string::npos && at > 0;
}

/// Every allocation of f fails in turn, in a process of its own; its answer is the number of errors that
/// are not as they should be.
int wrong_failures(const char* name, const std::function<void()>& f) {
  f();  // what is made once is made
  const pid_t child = fork();
  if (child == 0) {
    alarm(100);
    int wrong = 0, all = 0;
    // Where the text of the error finds no memory either there is no name.
    for (const long count : {1, 4}) {
      for (long first = 0; wrong < 20; ++first) {
        const std::string text = failure(f, first, count);
        if (text.empty()) break;
        ++all;
        if (text == "survived" || starts_with_name(text) || (count > 1 && text == "out of memory"))
          continue;
        ++wrong;
        std::fprintf(stderr, "%s, allocation %ld: %s\n", name, first, text.c_str());
      }
    }
    _exit(all > 0 ? wrong : 100);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

// Results are of the allocator's lists, and a call of up to 16 arrays needs nothing else.
TEST(LackOfMemory, IsNothingToCachedCallsThatFindAllTheyNeed) {
  const Array x(2.0f), v{1.0f, 2.0f, 3.0f},
      m{{1.0f, 0.5f, 0.0f}, {0.0f, 1.0f, 0.0f}, {0.0f, 0.0f, 1.0f}};
  const Model model{{m, m}, v};
  const auto scalar = jit([](const Array& a) { return sin(a) * a; });
  const auto nested = jit(loss);
  const auto sixteen = jit([](const Arrays& all) { return all[0] + all[15]; });
  const Arrays arguments(16, v);
  const std::map<std::string, std::function<void()>> calls{
      {"scalar", [&] { static_cast<void>(scalar(x)); }},
      {"nested", [&] { static_cast<void>(nested(model, v)); }},
      {"sixteen", [&] { static_cast<void>(sixteen(arguments)); }},
  };
  for (const auto& [name, call] : calls) {
    for (int i = 0; i < 3; ++i) call();
    EXPECT_EQ(failure(call, 0, 1), "") << name;
  }
}

TEST(LackOfMemory, IsNamedByWhatRanOutOfIt) {
  const Model model{{ones({3, 3}), ones({3, 3})}, ones({3})};
  const Array x = ones({3});
  const Model large{std::vector<Array>(40, ones({3, 3})), ones({3})};
  const JitOptions interpreted{.backend = "interpret"};
  const auto jitted = jit([](Model m, Array y) { return std::pair{loss(m, y), m}; }, interpreted);
  const auto compiled = jitted.lower(large, x).compile();
  const auto square = [](const Array& y) { return sum(y * y * y); };
  const ClosedJaxpr program = make_jaxpr(grad(loss))(model, x);
  const std::string text = program.to_string();
  const std::map<const char*, std::function<void()>> calls = {
      {"make_jaxpr", [&] { make_jaxpr(loss)(model, x); }},
      {"eval_shape", [&] { eval_shape(loss, model, x); }},
      {"grad", [&] { grad(loss)(model, x); }},
      {"jvp", [&] { jvp(square, std::tuple{x}, std::tuple{x}); }},
      {"vjp", [&] { vjp(square, x).second(Array(1.0f)); }},
      {"linearize", [&] { linearize(square, x).second(x); }},
      {"vmap", [&] { vmap(square)(ones({4, 3})); }},
      {"hessian", [&] { hessian(square)(x); }},
      {"jacrev", [&] { jacrev(square)(x); }},
      {"checkify", [&] { checkify(square, all_checks)(x); }},
      {"checkpoint", [&] { grad(checkpoint(square))(x); }},
      {"saved_residuals", [&] { saved_residuals(square, x); }},
      {"scan",
       [&] {
         const auto step = [](const Array& c, const Array& r) { return std::pair{c + r, c}; };
         scan(step, Array(0.0f), x);
       }},
      {"while_loop",
       [&] {
         while_loop([](const Array& c) { return c < 3.0; }, [](const Array& c) { return c + 1.0; },
                    Array(0.0f));
       }},
      {"fori_loop",
       [&] { fori_loop(0, 3, [](const Array& i, const Array& c) { return c + i; }, 0); }},
      {"cond",
       [&] {
         cond(true, [](const Array& y) { return sin(y); }, [](const Array& y) { return y; }, x);
       }},
      {"associative_scan",
       [&] { associative_scan([](const Array& a, const Array& b) { return a + b; }, x); }},
      {"tree_map", [&] { tree_map([](const Array& y) { return y * 2.0; }, model); }},
      {"tree_leaves", [&] { tree_leaves(model); }},
      {"tree_flatten", [&] { tree_flatten(model); }},
      {"printing a jaxpr", [&] { (void)program.to_string(); }},
      {"parse_jaxpr", [&] { parse_jaxpr(text); }},
      {"typecheck_jaxpr", [&] { typecheck_jaxpr(program.jaxpr); }},
      {"printing an array", [&] { (void)ones({20, 20}).to_string(); }},
      {"rules of derivatives",
       [&] {
         const double factor = 2;  // captured: each is a rule of its own
         const auto twice = [factor](const Array& y) { return y * factor; };
         const auto jvp_rule = [factor](const Array& y, const Array& dy) {
           return std::pair{y * factor, dy * factor};
         };
         const long count = std::exchange(until_failure, -1);
         const auto f = custom_jvp(twice, jvp_rule);
         until_failure = count;
         make_jaxpr(f)(x);
       }},
      {"jit, made", [&] { (void)jit(loss, interpreted); }},
      {"jit, traced", [&] { jit([&model](Array y) { return loss(model, y); }, interpreted)(x); }},
      {"jit, called", [&] { jitted(large, x); }},
      {"jit, lowered", [&] { (void)jitted.lower(model, x).compile(); }},
      {"jit, compiled", [&] { compiled(large, x); }},
      {"jit, text", [&] { (void)compiled.text("jaxpr"); }},
      {"jit, analyses", [&] { (void)compiled.cost_analysis(), (void)compiled.memory_analysis(); }},
  };
  for (const auto& [name, f] : calls) EXPECT_EQ(wrong_failures(name, f), 0) << name;
}

// Where it cannot be remembered until they have read it, it stays for good.
TEST(LackOfMemory, FreesNothingThatOthersRead) {
  static int freed = 0;
  static const Primitive<NoParams> retire_p{"lack_of_memory_retire"};
  retire_p.def_abstract_eval([](const NoParams&, std::span<const Aval> x) { return x[0]; });
  retire_p.def_impl([](const NoParams&, std::span<const Array> x) {  // within a call, which reads
    for (bool failed = true; failed;) {
      static long first = 0;
      std::shared_ptr<const void> object(&first, [](const void*) { ++freed; });
      until_failure = first++;
      failures = 1;
      runtime::retire(std::move(object));
      failed = std::exchange(until_failure, -1) < 0;
      runtime::reclaim();
      EXPECT_EQ(freed, 0) << "allocation " << first - 1;
    }
    return Arrays{x[0]};
  });
  jit([](const Array& x) { return retire_p.bind1({}, {x}); }, {.backend = "interpret"})(ones({3}));
  runtime::reclaim();
  EXPECT_EQ(freed, 1);
}

// Loops of generated code, too, which nothing can be thrown through: the caller runs them by itself.
TEST(LackOfMemory, ForThreadsEndsNoLoop) {
  enum : int { kDone, kLess, kEnough };
  int status = kDone;
  for (long first = 0; status == kDone; ++first) {
    const pid_t child = fork();  // which has no pool yet
    if (child == 0) {
      alarm(100);
      set_num_threads(3);
      std::atomic<int> done{0};
      until_failure = first;
      failures = 2;
      for (int i = 0; i < 3; ++i)
        [&]() noexcept { runtime::parallel_for(8, [&](std::int64_t) { ++done; }); }();
      const bool enough = std::exchange(until_failure, -1) >= 0;
      _exit(done != 24 ? kLess : enough ? kEnough : kDone);
    }
    waitpid(child, &status, 0);
    status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    ASSERT_GE(status, kDone) << "allocation " << first;
  }
  EXPECT_EQ(status, kEnough);
}

/// Whether some thread that could not make its list freed a block: one that takes over the list of a thread before it
/// keeps that while the next one tries.
bool frees_without_a_list(int more_threads) {
  void* const block = runtime::allocate(64);
  bool was_to_be_made = false;
  std::thread([&] {
    until_failure = 0;
    failures = 1;
    runtime::deallocate(block, 64);
    was_to_be_made = std::exchange(until_failure, -1) < 0;
    if (!was_to_be_made && more_threads > 0)
      was_to_be_made = frees_without_a_list(more_threads - 1);
  }).join();
  return was_to_be_made;
}

TEST(LackOfMemory, LetsThreadsThatHaveNoListFreeBlocks) {
  EXPECT_TRUE(frees_without_a_list(100)) << "no list was to be made";
}

TEST(LackOfMemory, OfFunctionsOfArraysIsNamedToo) {
  const Array x = ones({3}), m = ones({3, 3}), order({0, 2, 1});
  const Array six =
      arange(24, DType::f32).reshape({1, 2, 3, 1, 4, 1});  // more axes than lie in a Shape
  // What the caller makes himself is made.
  const std::vector<double> host{1, 2, 3};
  const std::vector<bool> truths{true, false};
  const Arrays twice{x, m}, rows{x, x, x}, squares{m, m, m};
  const Shape sixth{2, 2, 2, 2, 2, 3};
  const PadWidths widths{{1, 1}, {0, 2}};
  const std::string path = ::testing::TempDir() + "lack_of_memory.npy";
  const auto key = [] { return random::key(0); };
  const std::map<const char*, std::function<void()>> calls = {
      {"arrays of values",
       [&] {
         (void)Array({1.0, 2.0}), (void)Array({{1.0, 2.0}, {3.0, 4.0}});
         (void)Array({{{1.0, 2.0}, {3.0, 4.0}}}), (void)Array(host), (void)Array(2.0);
         (void)Array(truths, {2});
         (void)Array::from_data(host.data(), DType::f64, {3});
       }},
      {"their values",
       [&] {
         (void)x.to_vector<float>(), (void)x.to_vector<bool>(), (void)m.T().to_vector<float>();
         (void)Array(1.0).item<double>();
       }},
      {"indexing", [&] { (void)m(0), (void)m(slice(0, 2), order); }},
      {"updates",
       [&] { (void)m.at(0).set(1.0), (void)m.at(order).add(1.0), (void)m.at(0).subtract(1.0); }},
      {"operators", [&] { (void)(x + x), (void)(six + six * 2.0), (void)(m + x * 2.0), (void)-x; }},
      {"comparisons", [&] { (void)allclose(x, x), (void)array_equal(x, x), (void)isnan(x); }},
      {"elementwise",
       [&] {
         (void)round(x, 2), (void)power(x, 3), (void)power(x, x), (void)hypot(x, x);
         (void)where(x > 0, x, 0.0), (void)clip(x, 0, 1), (void)log2(x), (void)abs(order);
       }},
      {"reductions",
       [&] {
         (void)sum(x), (void)sum(m, {.axes = {0}, .keepdims = true}), (void)mean(x);
         (void)var(m, 0), (void)logsumexp(m), (void)argmax(m), (void)cumsum(m), (void)diff(x);
       }},
      {"shapes",
       [&] {
         (void)transpose(six), (void)moveaxis(six, 0, 3), (void)squeeze(six), (void)ravel(m);
         (void)broadcast_to(x, sixth), (void)broadcast_arrays(twice), (void)flip(m);
       }},
      {"lists",
       [&] {
         (void)concatenate(rows), (void)stack(rows), (void)unstack(m), (void)split(x, 3);
         (void)split(x, Shape{1, 2}), (void)meshgrid(rows);
       }},
      {"parts",
       [&] {
         (void)pad(m, widths), (void)tile(m, {2, 2}), (void)repeat(m, 2, 0);
         (void)roll(m, 1, 0), (void)tril(m), (void)diag(x), (void)diagonal(m);
       }},
      {"creation",
       [&] {
         (void)array({1.0, 2.0}, DType::f32), (void)zeros({2, 2}), (void)full({2}, 3), (void)eye(3);
         (void)zeros_like(x), (void)arange(0.0, 5.0, 0.5), (void)linspace(0, 1, 5);
       }},
      {"products",
       [&] {
         (void)matmul(m, m), (void)inner(m, m), (void)tensordot(m, m), (void)cross(x, x);
         (void)einsum("ij,jk->ik", m, m), (void)einsum("ii", m), (void)einsum("...j,j", m, x);
         (void)einsum("ij,jk,kl->il", squares), (void)norm(x, {.ord = 1.0});
       }},
      {"networks", [&] { (void)softmax(m), (void)one_hot(order, 4), (void)gelu(x); }},
      {"sorting",
       [&] {
         (void)sort(m), (void)argsort(m), (void)take(m, order, 0), (void)segment_sum(x, order, 3);
       }},
      {"random",
       [&] {
         (void)random::split(key()), (void)random::normal(key(), {3}),
             (void)random::bernoulli(key());
         (void)random::randint(key(), {3}, 0, 5), (void)random::permutation(key(), x);
       }},
      {"primitives", [&] { (void)add_p({}, {x, x}), (void)reduce_sum_p.bind1({{0}}, {m}); }},
      {"solvers",
       [&] {
         cg(m + 4 * eye(3, none, 0, DType::f32), x);
         root::newton([](Array y) { return y * y - 2.0; }, 1.0);
         root::bisection([](Array y) { return cos(y); }, 0.0, 2.0);
         ode::odeint([](Array y, Array) { return -y; }, x, Array({0.0, 1.0}),
                     {.method = ode::Method::rk4});
         optim::minimize([](Array y) { return sum(y * y); }, x, {.max_iterations = 2});
         optim::adam_step(x, x, optim::adam_init(x), 0.1);
       }},
      {"observing",
       [&] {
         Profile profile;
         (void)(x + x), (void)profile.stop(), (void)history(), (void)last_executable();
       }},
      {"checks", [&] { check_grads([](Array y) { return sum(y * y); }, std::tuple{x}); }},
      {"files",
       [&] {
         interop::save_npy(path, x);
         interop::load_npy(path);
       }},
  };
  for (const auto& [name, f] : calls) EXPECT_EQ(wrong_failures(name, f), 0) << name;
}

TEST(LackOfMemory, OfProgramsOverProgramsIsNamedToo) {
  const JitOptions interpreted{.backend = "interpret"};
  const Array x = ones({3});
  const auto square = [](const Array& y) { return sum(y * y * y); };
  const ClosedJaxpr whole =
      make_jaxpr([&](Array y) { return jit(square, interpreted)(y) + sin(y); })(x);
  const std::vector<bool> first{true};
  const Arrays args{x};
  // Detached: what is derived once is kept.
  const std::map<const char*, std::function<void(const Jaxpr&)>> calls = {
      {"eval_jaxpr", [&](const Jaxpr& j) { (void)eval_jaxpr(j, args); }},
      {"eliminate_dead_code", [](const Jaxpr& j) { (void)eliminate_dead_code(j); }},
      {"dce_jaxpr", [&](const Jaxpr& j) { (void)dce_jaxpr(j, first); }},
      {"cse", [](const Jaxpr& j) { (void)eliminate_common_subexpressions(j); }},
      {"inline_calls", [](const Jaxpr& j) { (void)inline_calls(j); }},
      {"count_eqns", [](const Jaxpr& j) { (void)count_eqns(j, "sin"); }},
      {"detached", [](const Jaxpr& j) { (void)j.detached(); }},
      {"out_avals", [](const Jaxpr& j) { (void)j.out_avals(); }}};
  for (const auto& [name, f] : calls) {
    const auto on_a_fresh_one = [&, &f = f] {
      const long count = std::exchange(until_failure, -1);
      const Jaxpr fresh = whole.jaxpr.detached();
      until_failure = count;
      f(fresh);
    };
    EXPECT_EQ(wrong_failures(name, on_a_fresh_one), 0) << name;
  }
}

TEST(LackOfMemory, OfWhatAUserHasDerivedGoesOnAsItIs) {
  struct PoolIsEmpty : std::bad_alloc {};
  const auto derived = [](const Array&) -> Array { throw PoolIsEmpty(); };
  EXPECT_THROW(make_jaxpr(derived)(1.0), PoolIsEmpty);
  EXPECT_THROW(grad(derived)(1.0), PoolIsEmpty);
  EXPECT_THROW(tree_map(derived, ones({3})), PoolIsEmpty);
  const auto bare = [](const Array&) -> Array { throw std::bad_alloc(); };
  EXPECT_THROW(make_jaxpr(bare)(1.0), OutOfMemoryError);
}

}  // namespace
}  // namespace telamon

#endif
