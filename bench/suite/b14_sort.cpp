// B14: sorting.
#include "ours.hpp"

namespace bench {
namespace {

using namespace telamon;

constexpr std::int64_t kMany = 1 << 20;

/// Each number is read and written at least once, beside what a result of `more` arrays needs.
Case million(const char* note, Case c, int more = 0) {
  c.items = kMany;
  c.bytes = (8. + 4 * more) * kMany;
  c.note = note;
  return c;
}
const Register sort_vector("B14.sort", "ms", [] {
  return million("2^20 f32", go(compiled([](const Array& x) { return sort(x); }), u(1, {kMany})));
});
const Register argsort_vector("B14.argsort", "ms", [] {
  return million("2^20 f32",
                 go(compiled([](const Array& x) { return argsort(x); }), u(1, {kMany})));
});
const Register sort_ax1("B14.sort_ax1", "ms", [] {
  return million("1024 rows",
                 go(compiled([](const Array& x) { return sort(x, 1); }), u(1, {1024, 1024})));
});
const Register sort_ax0("B14.sort_ax0", "ms", [] {
  return million("1024 columns",
                 go(compiled([](const Array& x) { return sort(x, 0); }), u(1, {1024, 1024})));
});
const Register sort_grad("B14.sort_grad", "ms", [] {
  const auto f = [](const Array& x, const Array& w) { return sum(sort(x) * w); };
  return million("", go(compiled(grad(f)), u(1, {kMany}), u(2, {kMany})), 1);
});
/// Of a picture, the median of each pixel and those around it.
Array medians(const Array& x) {
  std::vector<Array> around;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) around.push_back(x(slice(i, i + 512), slice(j, j + 512)));
  }
  return sort(stack(around, -1), -1)(ellipsis, 4);
}
const Register median("B14.median_3x3", "ms", [] {
  Case c = go(compiled(medians), u(1, {514, 514}));
  c.items = 512 * 512;
  c.bytes = 8. * 512 * 512;
  return c;
});
const NotYet topk("B14.topk", "ms", "the largest elements of rows (top_k)");

}  // namespace
}  // namespace bench
