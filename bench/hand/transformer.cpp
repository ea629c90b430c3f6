// B07 by hand: a block of a transformer, causal, with normalisation before each part; its result, and the derivatives
// of the mean of its squares, written out. Attention leaves out what the mask hides, in blocks of rows.
#include <algorithm>
#include <cmath>

#include "dense.hpp"
#include "rows.hpp"

namespace bench {
namespace {

constexpr int kBatch = 4, kSteps = 128, kRows = kBatch * kSteps, kWidth = 256, kHeads = 8,
              kHead = kWidth / kHeads, kThree = 3 * kWidth, kInner = 4 * kWidth;
constexpr std::size_t kStates = std::size_t{kRows} * kWidth;
/// Rows of scores at a time: those of one block see the keys up to its end.
constexpr int kPart = 32, kParts = kSteps / kPart;

Floats scaled(unsigned seed, int rows, int columns) {
  Floats w = zf(seed, static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
  for (float& x : w) x *= .05f;
  return w;
}

// ---- loops over rows -----------------------------------------------------------------------------
/// Of the scores of one head in a block of rows, the first of which sees `first + 1` keys: probabilities, 0 of what is
/// hidden.
void causal_softmax(float* s, int first) {
  const int width = first + kPart;
  const auto larger = [](float a, float b) { return a > b ? a : b; };
  for (int i = 0; i < kPart; ++i, s += kSteps) {
    const int seen = first + i + 1;
    std::fill(s + seen, s + width, -1e30f);
    FloatVector most = load(s);
    for (int j = kWide; j < seen; j += kWide) {
      const FloatVector x = load(s + j);
      most = x > most ? x : most;
    }
    float m = most[0];
    for (int l = 1; l < kWide; ++l) m = larger(m, most[l]);
    FloatVector sums{};
    for (int j = 0; j < width; j += kWide) {
      const FloatVector e = exp_of(load(s + j) - m);
      store(s + j, e);
      sums += e;
    }
    float sum = 0;
    for (int l = 0; l < kWide; ++l) sum += sums[l];
    const float scale = 1 / sum;
    for (int j = 0; j < width; ++j) s[j] *= scale;
    std::fill(s + seen, s + width, 0.f);
  }
}
/// ds = p (ds - sum p ds) scale, of the rows of a block.
void back_through_softmax(const float* p, float* ds, int width, float scale) {
  for (int i = 0; i < kPart; ++i, p += kSteps, ds += kSteps) {
    FloatVector sums{};
    for (int j = 0; j < width; j += kWide) sums += load(p + j) * load(ds + j);
    float sum = 0;
    for (int l = 0; l < kWide; ++l) sum += sums[l];
    for (int j = 0; j < width; j += kWide)
      store(ds + j, load(p + j) * (load(ds + j) - sum) * scale);
  }
}
void normalise(const float* x, const float* g, const float* b, float* out) {
  for (int i = 0; i < kRows; ++i) layernorm_row(x + i * kWidth, g, b, out + i * kWidth, kWidth);
}
/// From d, derivatives by what `normalise` makes of x: dx += derivatives by x, and dg and db likewise.
void back_through_normalise(const float* x, const float* g, const float* d, float* __restrict dx,
                            float* __restrict dg, float* __restrict db) {
  for (int i = 0; i < kRows; ++i, x += kWidth, d += kWidth, dx += kWidth) {
    const auto [mean, scale] = moments_of_row(x, kWidth);
    FloatVector plain{}, along{};
    for (int j = 0; j < kWidth; j += kWide) {
      const FloatVector a = load(d + j) * load(g + j), n = (load(x + j) - mean) * scale;
      plain += a;
      along += a * n;
      store(dg + j, load(dg + j) + load(d + j) * n);
      store(db + j, load(db + j) + load(d + j));
    }
    float p = 0, q = 0;
    for (int l = 0; l < kWide; ++l) p += plain[l], q += along[l];
    p /= kWidth;
    q /= kWidth;
    for (int j = 0; j < kWidth; j += kWide) {
      const FloatVector a = load(d + j) * load(g + j), n = (load(x + j) - mean) * scale;
      store(dx + j, load(dx + j) + scale * (a - p - n * q));
    }
  }
}
/// gelu of u, by tanh; with its slope in place of u if asked for.
template <bool kSlope>
void gelu(float* u, float* out, std::size_t n) {
  constexpr float kOuter = .7978845608f, kCubic = .044715f;  // sqrt(2 / pi)
  for (std::size_t j = 0; j < n; j += kWide) {
    const FloatVector x = load(u + j), s = x * x;
    const FloatVector t = tanh_of(x * (1.f + s * kCubic) * kOuter), half = .5f * (1.f + t);
    store(out + j, x * half);
    if (kSlope) store(u + j, half + .5f * x * (1.f - t * t) * kOuter * (1.f + s * (3 * kCubic)));
  }
}

// ---- the block -----------------------------------------------------------------------------------
struct Block {
  Floats x = zf(9, kStates);
  Floats w_qkv = scaled(1, kWidth, kThree), w_o = scaled(2, kWidth, kWidth),
         w1 = scaled(3, kWidth, kInner), w2 = scaled(4, kInner, kWidth);
  Floats g1 = Floats(kWidth, 1.f), g2 = Floats(kWidth, 1.f), b = Floats(kWidth);

  Floats h1 = Floats(kStates), qkv = Floats(3 * kStates),
         p = Floats(std::size_t{kBatch} * kHeads * kSteps * kSteps), attended = Floats(kStates),
         y = Floats(kStates), h2 = Floats(kStates), u = Floats(4 * kStates),
         active = Floats(4 * kStates), out = Floats(kStates);

  Dense to_qkv{{.m = kRows, .n = kThree, .k = kWidth}}, to_state{{kRows, kWidth, kWidth}},
      to_inner{{.m = kRows, .n = kInner, .k = kWidth}}, from_inner{{kRows, kWidth, kInner}};
  std::vector<Dense> scores, mix;  ///< of each block of rows

  Block() {
    for (int part = 1; part <= kParts; ++part) {
      scores.emplace_back(Shape{.m = kPart,
                                .n = part * kPart,
                                .k = kHead,
                                .transposed_b = true,
                                .row_of_a = kThree,
                                .row_of_b = kThree,
                                .row_of_c = kSteps});
      mix.emplace_back(Shape{.m = kPart,
                             .n = kHead,
                             .k = part * kPart,
                             .row_of_a = kSteps,
                             .row_of_b = kThree,
                             .row_of_c = kWidth});
    }
  }

  /// f(q, p, first state of the head) of each head of each sequence, where k and v follow q.
  template <class F>
  static void each_head(F f) {
    for (int sequence = 0; sequence < kBatch; ++sequence) {
      for (int head = 0; head < kHeads; ++head) {
        f(sequence * kSteps * kThree + head * kHead, (sequence * kHeads + head) * kSteps * kSteps,
          sequence * kSteps * kWidth + head * kHead);
      }
    }
  }
  void attend() {
    const float scale = 1 / std::sqrt(static_cast<float>(kHead));
    each_head([&](int at, int matrix, int state) {
      const float *q = &qkv[static_cast<std::size_t>(at)], *k = q + kWidth, *v = k + kWidth;
      for (int part = 0; part < kParts; ++part) {
        const int first = part * kPart;
        const auto i = static_cast<std::size_t>(part);
        float* const s = p.data() + matrix + first * kSteps;
        scores[i](q + first * kThree, k, s, 0, scale);
        causal_softmax(s, first);
        mix[i](s, v, attended.data() + state + first * kWidth);
      }
    });
  }
  /// With the slopes of gelu in place of what it is of, if asked for.
  template <bool kSlopes>
  void forward() {
    normalise(x.data(), g1.data(), b.data(), h1.data());
    to_qkv(h1.data(), w_qkv.data(), qkv.data());
    attend();
    std::copy(x.begin(), x.end(), y.begin());
    to_state(attended.data(), w_o.data(), y.data(), 1);
    normalise(y.data(), g2.data(), b.data(), h2.data());
    to_inner(h2.data(), w1.data(), u.data());
    gelu<kSlopes>(u.data(), active.data(), u.size());
    std::copy(y.begin(), y.end(), out.begin());
    from_inner(active.data(), w2.data(), out.data(), 1);
  }
};
const Register forward("B07.block_fwd", "ms", [] {
  Case c = by_hand(
      Block(), [](Block& b) { b.forward<false>(); },
      [](const Block& b) { return std::vector{output(b.out)}; });
  c.flops = 872e6;
  c.threads = 0;  // of the products; the loops have one
  return c;
});

// ---- its derivatives -----------------------------------------------------------------------------
/// c = a b', and c = a' b.
Dense by_second(int m, int n, int k) {
  return Dense({.m = m, .n = n, .k = k, .transposed_b = true});
}
Dense by_first(int m, int n, int k) {
  return Dense({.m = m, .n = n, .k = k, .transposed_a = true});
}
struct Gradient {
  Block f;
  Floats dx = Floats(kStates), dw_qkv = Floats(std::size_t{kWidth} * kThree),
         dw_o = Floats(std::size_t{kWidth} * kWidth), dw1 = Floats(std::size_t{kWidth} * kInner),
         dw2 = Floats(std::size_t{kInner} * kWidth), dg1 = Floats(kWidth), dg2 = Floats(kWidth),
         db = Floats(kWidth);

  Floats dout = Floats(kStates), dinner = Floats(4 * kStates), dh = Floats(kStates),
         dqkv = Floats(3 * kStates), ds = Floats(std::size_t{kPart} * kSteps);

  Dense inner_error = by_second(kRows, kInner, kWidth), w2_error = by_first(kInner, kWidth, kRows),
        h2_error = by_second(kRows, kWidth, kInner), w1_error = by_first(kWidth, kInner, kRows),
        state_error = by_second(kRows, kWidth, kWidth), wo_error = by_first(kWidth, kWidth, kRows),
        h1_error = by_second(kRows, kWidth, kThree), qkv_error = by_first(kWidth, kThree, kRows);
  std::vector<Dense> p_error, q_error, k_error, v_error;  ///< of each block of rows

  Gradient() {
    for (int part = 1; part <= kParts; ++part) {
      const int keys = part * kPart;
      p_error.emplace_back(Shape{.m = kPart,
                                 .n = keys,
                                 .k = kHead,
                                 .transposed_b = true,
                                 .row_of_a = kWidth,
                                 .row_of_b = kThree,
                                 .row_of_c = kSteps});
      q_error.emplace_back(Shape{.m = kPart,
                                 .n = kHead,
                                 .k = keys,
                                 .row_of_a = kSteps,
                                 .row_of_b = kThree,
                                 .row_of_c = kThree});
      k_error.emplace_back(Shape{.m = keys,
                                 .n = kHead,
                                 .k = kPart,
                                 .transposed_a = true,
                                 .row_of_a = kSteps,
                                 .row_of_b = kThree,
                                 .row_of_c = kThree});
      v_error.emplace_back(Shape{.m = keys,
                                 .n = kHead,
                                 .k = kPart,
                                 .transposed_a = true,
                                 .row_of_a = kSteps,
                                 .row_of_b = kWidth,
                                 .row_of_c = kThree});
    }
  }

  /// From the errors of what was attended, in dh, to those of queries, keys and values. The last block of rows sees all
  /// keys, so that it comes first, and the others add to its results.
  void back_through_attention() {
    const float scale = 1 / std::sqrt(static_cast<float>(kHead));
    Block::each_head([&](int at, int matrix, int state) {
      const float *q = &f.qkv[static_cast<std::size_t>(at)], *k = q + kWidth, *v = k + kWidth;
      float *dq = &dqkv[static_cast<std::size_t>(at)], *dk = dq + kWidth, *dv = dk + kWidth;
      for (int part = kParts; part-- > 0;) {
        const int first = part * kPart;
        const auto i = static_cast<std::size_t>(part);
        const float adds = part + 1 < kParts ? 1.f : 0.f;
        const float* const p = f.p.data() + matrix + first * kSteps;
        const float* const d = dh.data() + state + first * kWidth;
        v_error[i](p, d, dv, adds);
        p_error[i](d, v, ds.data());
        back_through_softmax(p, ds.data(), first + kPart, scale);
        q_error[i](ds.data(), k, dq + first * kThree);
        k_error[i](ds.data(), q + first * kThree, dk, adds);
      }
    });
  }
  void compute() {
    f.forward<true>();
    constexpr float kScale = 2.f / kStates;
    for (std::size_t j = 0; j < kStates; ++j) dout[j] = kScale * f.out[j];
    w2_error(f.active.data(), dout.data(), dw2.data());
    inner_error(dout.data(), f.w2.data(), dinner.data());
    for (std::size_t j = 0; j < dinner.size(); ++j) dinner[j] *= f.u[j];
    w1_error(f.h2.data(), dinner.data(), dw1.data());
    h2_error(dinner.data(), f.w1.data(), dh.data());
    for (Floats* sums : {&dg1, &dg2, &db}) std::fill(sums->begin(), sums->end(), 0.f);
    std::copy(dout.begin(), dout.end(), dx.begin());
    back_through_normalise(f.y.data(), f.g2.data(), dh.data(), dx.data(), dg2.data(), db.data());

    wo_error(f.attended.data(), dx.data(), dw_o.data());
    state_error(dx.data(), f.w_o.data(), dh.data());
    back_through_attention();
    qkv_error(f.h1.data(), dqkv.data(), dw_qkv.data());
    h1_error(dqkv.data(), f.w_qkv.data(), dh.data());
    back_through_normalise(f.x.data(), f.g1.data(), dh.data(), dx.data(), dg1.data(), db.data());
  }
};
const Register backward("B07.block_fwdbwd", "ms", [] {
  Case c = by_hand(
      Gradient(), [](Gradient& g) { g.compute(); },
      [](const Gradient& g) {
        return std::vector{output(g.dw_qkv), output(g.dw_o), output(g.dw1), output(g.dw2),
                           output(g.dg1),    output(g.dg2),  output(g.db),  output(g.dx)};
      });
  c.flops = 2.6e9;
  c.threads = 0;  // of the products; the loops have one
  return c;
});

}  // namespace
}  // namespace bench
