// B13: reading and adding at places that are data.
#include <algorithm>

#include "ours.hpp"

namespace bench {
namespace {

using namespace telamon;

constexpr std::int64_t kMany = 1'000'000;

Array places(unsigned seed, std::int64_t n, int k) {
  return Array(indices(seed, static_cast<std::size_t>(n), k));
}
/// kMany elements of so many bytes each, and a table of results.
Case each(double bytes, double table, const char* note, Case c) {
  c.bytes = bytes * kMany + 4 * table;
  return per(kMany, std::move(c), note);
}
Array rows(const Array& table, const Array& i) { return table(i); }

const Register gather("B13.gather", "us", [] {
  Case c = go(compiled(rows), u(1, {50000, 64}), places(2, 16384, 50000));
  c.bytes = 8. * 16384 * 64;
  return c;
});
// Overlapping windows of a signal, and numbers that the corners of triangles have.
constexpr std::int64_t kFrames = 1950, kFrame = 512, kHop = 128;
const Register frames("B13.frames", "us", [] {
  const auto f = [](const Array& x, const Array& window) {
    return x(arange(0, kFrames * kHop, kHop)(slice(), newaxis) + arange(kFrame)) * window;
  };
  Case c = go(compiled(f), u(1, {250'000}), u(2, {kFrame}));
  c.bytes = 4. * (250'000 + kFrames * kFrame);
  return c;
});
const Register corners("B13.corners", "us", [] {
  Case c = go(compiled(rows), u(1, {16384}), places(2, 600'000, 16384).reshape({200'000, 3}));
  c.bytes = 8. * 600'000;
  return c;
});
// A picture with three colours, between its pixels; and pieces of polynomials, whose coefficients are rows of a table.
Array sampled(const Array& picture, const Array& y, const Array& x) {
  const Array i = floor(y).astype(i32), j = floor(x).astype(i32);
  const Array v = (y - i.astype(f32))(slice(), newaxis), u = (x - j.astype(f32))(slice(), newaxis);
  const Array above = picture(i, j) * (1 - u) + picture(i, j + 1) * u;
  const Array below = picture(i + 1, j) * (1 - u) + picture(i + 1, j + 1) * u;
  return above * (1 - v) + below * v;
}
const Register sample("B13.sample_rgb", "us", [] {
  constexpr std::int64_t kPixels = 40'000;
  Case c =
      go(compiled(sampled), u(1, {256, 256, 3}), 250.f * u(2, {kPixels}), 250.f * u(3, {kPixels}));
  c.bytes = 4. * (256 * 256 * 3 + 5 * kPixels);
  return c;
});
const Register spline("B13.spline", "us", [] {
  const auto f = [](const Array& x, const Array& c) {
    const Array i = x.astype(i32), t = x - i.astype(f32);
    return ((c(i, 3) * t + c(i, 2)) * t + c(i, 1)) * t + c(i, 0);
  };
  Case c = go(compiled(f), 99.f * u(1, {50'000}), u(2, {100, 4}));
  c.bytes = 8. * 50'000;
  return c;
});
const Register scatter_add("B13.scatter_add", "us", [] {
  const auto f = [](const Array& table, const Array& i, const Array& g) {
    const auto of_table = [&](const Array& t) { return rows(t, i); };
    return std::get<0>(vjp(of_table, table).second(g));
  };
  Case c = go(compiled(f), u(1, {50000, 64}), places(2, 16384, 50000), u(3, {16384, 64}));
  c.bytes = 4. * (50000 + 16384) * 64;  // the gradient is written, the cotangents are read
  c.note = "embedding gradient";
  return c;
});
const Register deposit("B13.deposit", "ns", [] {
  const auto f = [](const Array& i, const Array& w) { return zeros({16384}, f32).at(i).add(w); };
  return each(8, 16384, "per add", go(compiled(f), places(1, kMany, 16384), u(2, {kMany})));
});
const Register segments("B13.segment_sum", "ns", [] {
  const auto f = [](const Array& v, const Array& i) { return segment_sum(v, i, 65536); };
  return each(8, 65536, "per edge", go(compiled(f), u(1, {kMany}), places(2, kMany, 65536)));
});
// Rows of three and of eight, as points and small states are; segments side by side; places in two dimensions.
constexpr std::int64_t kRows = 200'000;
const Register sorted("B13.segment_sum_sorted", "ns", [] {
  const auto f = [](const Array& v, const Array& i) { return segment_sum(v, i, 10000); };
  auto i = indices(2, kMany, 10000);
  std::sort(i.begin(), i.end());
  return each(8, 10000, "per edge", go(compiled(f), u(1, {kMany}), Array(i)));
});
const Register segments_of_rows("B13.segment_rows_3", "us", [] {
  const auto f = [](const Array& v, const Array& i) { return segment_sum(v, i, 16384); };
  Case c = go(compiled(f), u(1, {kRows, 3}), places(2, kRows, 16384));
  c.bytes = 4. * (4 * kRows + 3 * 16384);
  return c;
});
const Register set_rows("B13.set_rows_8", "us", [] {
  const auto f = [](const Array& v, const Array& i) { return zeros({kRows, 8}, f32).at(i).set(v); };
  Case c = go(compiled(f), u(1, {kRows, 8}), Array(scattered(kRows)));
  c.bytes = 4. * 17 * kRows;
  return c;
});
/// Every column of a matrix, one after the other.
const Register set_columns("B13.set_columns", "us", [] {
  const auto f = [](const Array& a) {
    return fori_loop(
        0, 400, [&](const Array& j, const Array& m) { return m.at(slice(), j).set(a(j)); },
        zeros_like(a));
  };
  Case c = go(compiled(f), u(1, {400, 400}));
  c.items = 400 * 400;
  return c;
});
const Register plane("B13.deposit_2d", "ns", [] {
  const auto f = [](const Array& i, const Array& j, const Array& w) {
    return zeros({256, 256}, f32).at(i, j).add(w);
  };
  return each(12, 65536, "per add",
              go(compiled(f), places(1, kMany, 256), places(2, kMany, 256), u(3, {kMany})));
});
const Register histogram("B13.histogram", "ns", [] {
  const auto f = [](const Array& x) { return zeros({256}, i32).at((x * 256).astype(i32)).add(1); };
  return each(4, 256, "256 bins, per element", go(compiled(f), u(1, {kMany})));
});

}  // namespace
}  // namespace bench
