// The table of vector math functions and the look-up in it.
#include "runtime/math/vector_math.hpp"

#include <algorithm>
#include <array>

#include "runtime/math/isa_entries.hpp"
#include "runtime/math/math_list.hpp"

namespace telamon {
inline namespace v1 {
namespace math {
namespace {

constexpr MathFunction kFunctions[] = {
#define ONE(name, ulp_f32, ulp_f64) {#name, 1, ulp_f32, ulp_f64, {}, {}},
#define TWO(name, ulp_f32, ulp_f64) {#name, 2, ulp_f32, ulp_f64, {}, {}},
    TELAMON_MATH_FUNCTIONS(ONE, TWO, ONE, ONE, ONE, ONE, TWO, TWO)
#undef ONE
#undef TWO
};
constexpr std::size_t kCount = std::size(kFunctions);
static_assert(std::ranges::is_sorted(kFunctions, {},
                                     [](const MathFunction& f) {
                                       return std::string_view(f.name);
                                     }),
              "look-up is by bisection");

const std::array<MathFunction, kCount>& table() {
  static const auto functions = [] {
    const MathEntry(*columns[runtime::kNumIsas])[2] = {
        telamon_generic_math_entries,
#if defined(__x86_64__)
        telamon_avx2_math_entries,
        telamon_avx512_math_entries,
#endif
    };
    std::array<MathFunction, kCount> all;
    std::copy(std::begin(kFunctions), std::end(kFunctions), all.begin());
    for (std::size_t i = 0; i < kCount; ++i) {
      for (int isa = 0; isa < runtime::kNumIsas; ++isa) {
        if (columns[isa] == nullptr) continue;
        all[i].f32[isa] = columns[isa][i][0];
        all[i].f64[isa] = columns[isa][i][1];
      }
    }
    return all;
  }();
  return functions;
}

}  // namespace

std::span<const MathFunction> math_functions() { return table(); }

const MathFunction* find_math_function(std::string_view name) {
  const auto& functions = table();
  const auto it = std::lower_bound(
      functions.begin(), functions.end(), name,
      [](const MathFunction& f, std::string_view wanted) { return f.name < wanted; });
  return it != functions.end() && it->name == name ? &*it : nullptr;
}

MathEntry find_math(std::string_view name, DType dtype, runtime::Isa isa) {
  const MathFunction* function = find_math_function(name);
  if (function == nullptr || (dtype != DType::f32 && dtype != DType::f64)) return {};
  return (dtype == DType::f32 ? function->f32 : function->f64)[static_cast<int>(isa)];
}

void run(const MathFunction& function, DType dtype, runtime::Isa isa, std::int64_t n, const void* x,
         const void* y, void* out) {
  constexpr decltype(&telamon_generic_math_run) kRuns[runtime::kNumIsas] = {
      telamon_generic_math_run,
#if defined(__x86_64__)
      telamon_avx2_math_run,
      telamon_avx512_math_run,
#endif
  };
  const auto i = static_cast<int>(isa);
  const bool is_double = dtype == DType::f64;
  void* address = (is_double ? function.f64 : function.f32)[i].address;
  kRuns[i](address, function.arity, is_double, n, x, y, out);
}

}  // namespace math
}  // namespace v1
}  // namespace telamon
