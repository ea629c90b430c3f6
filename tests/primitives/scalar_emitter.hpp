// An Emitter that computes at once, one element at a time: it runs lowering rules without a compiler.
#pragma once

#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

#include "telamon/emitter.hpp"

namespace telamon::testing {

/// The value of one element: floats in f, everything else in i (u64 by its bits).
struct Value {
  double f = 0;
  std::int64_t i = 0;
};

class ScalarEmitter final : public Emitter {
 public:
  Scalar number(DType d, double v) {
    return is_float(d) ? make(d, {v, 0}) : make(d, {0, static_cast<std::int64_t>(v)});
  }
  static Value value(Scalar s) { return *static_cast<const Value*>(s.value()); }
  static double as_double(Scalar s) {
    return is_float(s.dtype()) ? value(s).f : static_cast<double>(value(s).i);
  }

  Scalar constant(DType d, double v) override { return number(d, v); }
  Scalar constant_int(DType d, std::int64_t v) override {
    return is_float(d) ? number(d, static_cast<double>(v)) : make(d, {0, v});
  }
  Scalar neg(Scalar x) override { return sub(constant_int(x.dtype(), 0), x); }
  Scalar abs(Scalar x) override {
    return is_float(x.dtype()) ? make(x.dtype(), {std::fabs(value(x).f), 0})
                               : make(x.dtype(), {0, std::abs(value(x).i)});
  }
  Scalar add(Scalar a, Scalar b) override { return binary(a, b, std::plus<>()); }
  Scalar sub(Scalar a, Scalar b) override { return binary(a, b, std::minus<>()); }
  Scalar mul(Scalar a, Scalar b) override { return binary(a, b, std::multiplies<>()); }
  Scalar div(Scalar a, Scalar b) override { return binary(a, b, std::divides<>()); }
  Scalar rem(Scalar a, Scalar b) override {
    check_same(a, b);
    return make(a.dtype(), {std::fmod(value(a).f, value(b).f),
                            is_float(a.dtype()) ? 0 : value(a).i % value(b).i});
  }
  Scalar max(Scalar a, Scalar b) override {
    return select(or_(compare(Compare::gt, a, b), compare(Compare::ne, a, a)), a, b);
  }
  Scalar min(Scalar a, Scalar b) override {
    return select(or_(compare(Compare::lt, a, b), compare(Compare::ne, a, a)), a, b);
  }
  Scalar and_(Scalar a, Scalar b) override { return integer(a, b, std::bit_and<>()); }
  Scalar or_(Scalar a, Scalar b) override { return integer(a, b, std::bit_or<>()); }
  Scalar xor_(Scalar a, Scalar b) override { return integer(a, b, std::bit_xor<>()); }
  Scalar compare(Compare how, Scalar a, Scalar b) override {
    check_same(a, b);
    const Value x = value(a), y = value(b);
    const auto decide = [how](auto p, auto q) {
      switch (how) {
        case Compare::eq: return p == q;
        case Compare::ne: return p != q;
        case Compare::lt: return p < q;
        case Compare::le: return p <= q;
        case Compare::gt: return p > q;
        case Compare::ge: return p >= q;
      }
      return false;
    };
    bool r = is_float(a.dtype()) ? decide(x.f, y.f)
             : is_unsigned_integer(a.dtype())
                 ? decide(static_cast<std::uint64_t>(x.i), static_cast<std::uint64_t>(y.i))
                 : decide(x.i, y.i);
    return make(DType::bool_, {0, r});
  }
  Scalar select(Scalar c, Scalar a, Scalar b) override {
    check_same(a, b);
    return value(c).i != 0 ? a : b;
  }
  Scalar convert(Scalar x, DType d) override {
    if (is_float(d)) return number(d, as_double(x));
    return make(d, {0, is_float(x.dtype()) ? static_cast<std::int64_t>(value(x).f) : value(x).i});
  }

  Scalar load(const Buffer& b, const Index& i) override {
    return make(b.dtype(), cells(b)[offset(b, i)]);
  }
  void store(const Buffer& b, const Index& i, Scalar v) override {
    if (v.dtype() != b.dtype()) throw std::logic_error("store of another dtype");
    cells(b)[offset(b, i)] = value(v);
  }
  void loop(Scalar begin, Scalar end, const std::function<void(Scalar)>& body) override {
    for (std::int64_t i = value(begin).i; i < value(end).i; ++i) body(make(DType::i64, {0, i}));
  }
  void if_then(Scalar condition, const std::function<void()>& then) override {
    if (value(condition).i != 0) then();
  }
  void copy(const Buffer& from, const Buffer& to) override { cells(to) = cells(from); }

  Scalar sign(Scalar) override { return unused(); }
  Scalar sqrt(Scalar) override { return unused(); }
  Scalar floor(Scalar) override { return unused(); }
  Scalar ceil(Scalar) override { return unused(); }
  Scalar round_even(Scalar) override { return unused(); }
  Scalar round_away(Scalar) override { return unused(); }
  Scalar is_finite(Scalar) override { return unused(); }
  Scalar not_(Scalar) override { return unused(); }
  Scalar shift_left(Scalar, Scalar) override { return unused(); }
  Scalar shift_right_logical(Scalar, Scalar) override { return unused(); }
  Scalar shift_right_arithmetic(Scalar, Scalar) override { return unused(); }
  Scalar bitcast(Scalar, DType) override { return unused(); }
  Scalar math(std::string_view, std::span<const Scalar>) override { return unused(); }

 private:
  static std::vector<Value>& cells(const Buffer& b) {
    return *static_cast<std::vector<Value>*>(b.pointer());
  }
  static std::size_t offset(const Buffer& b, const Index& index) {
    if (index.size() != b.shape().size()) throw std::logic_error("index of the wrong rank");
    std::int64_t at = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      const std::int64_t i = value(index[d]).i;
      if (i < 0 || i >= b.shape()[d]) throw std::logic_error("index out of bounds");
      at = at * b.shape()[d] + i;
    }
    return static_cast<std::size_t>(at);
  }
  static void check_same(Scalar a, Scalar b) {
    if (a.dtype() != b.dtype()) throw std::logic_error("operands of different dtypes");
  }
  template <class F>
  Scalar binary(Scalar a, Scalar b, F f) {
    check_same(a, b);
    if (is_float(a.dtype())) return make(a.dtype(), {f(value(a).f, value(b).f), 0});
    return make(a.dtype(), {0, f(value(a).i, value(b).i)});
  }
  template <class F>
  Scalar integer(Scalar a, Scalar b, F f) {
    check_same(a, b);
    return make(a.dtype(), {0, f(value(a).i, value(b).i)});
  }
  Scalar make(DType d, Value v) {
    pool_.push_back(v);
    return {&pool_.back(), d};
  }
  Scalar unused() { throw std::logic_error("not needed by shape primitives"); }
  std::deque<Value> pool_;
};

}  // namespace telamon::testing
