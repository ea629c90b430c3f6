// What every C++ contender of the side-by-side shares: the registry of workloads, the inputs, how time is
// taken, and the program around them. `compare.py` drives several contenders by the protocol of
// harness.cpp; run by hand, a contender prints a table of its own.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace bench {

/// One array of results, as bytes of a NumPy dtype: "<f4", "<f8", "<i4", "<c8", ...
struct Output {
  std::string dtype;
  std::vector<char> bytes;
};
Output make_output(const char* dtype, const void* data, std::size_t bytes);
inline Output output(std::span<const float> x) {
  return make_output("<f4", x.data(), x.size_bytes());
}
inline Output output(std::span<const double> x) {
  return make_output("<f8", x.data(), x.size_bytes());
}
inline Output output(std::span<const std::int32_t> x) {
  return make_output("<i4", x.data(), x.size_bytes());
}
inline Output output(std::span<const std::complex<float>> x) {
  return make_output("<c8", x.data(), x.size_bytes());
}

/// Seconds of each sample, by metric: "time", or the phases of what a workload measures by itself.
using Samples = std::map<std::string, std::vector<double>>;

/// What a workload returns once its inputs exist.
struct Case {
  /// Runs once, to the result in hand.
  std::function<void()> call;
  /// The results of one run from the stated inputs, in the order that all contenders use; compared
  /// before anything is timed. Empty: there is nothing to compare.
  std::function<std::vector<Output>()> outputs;
  double per = 1;  ///< a time is divided by this: trips, steps, elements
  /// What one call moves, computes and handles at least, whatever our code does: the limits.
  double bytes = 0, flops = 0, items = 0;
  /// Of what has none that could be stated: why, in a word ("call", "chain").
  std::string no_limit;
  int threads = 0;  ///< that it uses at most; 0: as many as were asked for
  /// Relative to the largest number of an output; negative: results cannot be compared.
  double tolerance = 2e-4;
  std::string note;
  /// Instead of `call`, for what is no repeated call: processes, compilations.
  std::function<Samples(double seconds)> measure;
  std::function<std::string()> note_after;  ///< replaces `note` once times are taken
};

/// A case whose times are divided by n.
inline Case per(double n, Case c, std::string note = {}) {
  c.per = n;
  c.note = std::move(note);
  return c;
}
/// A case that so many operations bound.
inline Case computing(double flops, Case c) {
  c.flops = flops;
  return c;
}
/// A case that so many bytes bound.
inline Case moving(double bytes, Case c) {
  c.bytes = bytes;
  return c;
}
/// A case with no limit that could be stated, and why.
inline Case unlimited(const char* why, Case c) {
  c.no_limit = why;
  return c;
}
inline Case call(Case c) { return unlimited("call", std::move(c)); }
/// Multiply-adds of a sine or cosine: reduction, two polynomials of degree 3 or 4, selection. Those of other functions,
/// which have one polynomial of a higher degree, and perhaps a division, are counted alike.
inline constexpr double kFunction = 16;
/// A case of make(trips) whose results rounding decides: those of make(few) are compared.
template <class Make>
Case chaotic(Make make, long trips, long few = 10) {
  Case c = make(trips);
  c.outputs = make(few).outputs;
  return c;
}

/// Registers a workload; units are ns, us, ms, s, MB.
struct Register {
  Register(std::string id, std::string unit, std::function<Case()> make);
};
/// For rows that do not exist yet: they stand in the table with the reason.
struct NotYet {
  NotYet(std::string id, std::string unit, std::string why);
};

/// As numpy.random.RandomState(seed).random_sample(n): uniform in [0, 1).
std::vector<double> uniform(unsigned seed, std::size_t n);
/// The same, scaled to mean 0 and variance 1.
std::vector<double> centred(unsigned seed, std::size_t n);
std::vector<float> to_floats(std::span<const double> x);
/// (uniform(seed, n) * k) rounded down.
std::vector<std::int32_t> indices(unsigned seed, std::size_t n, int k);

/// Whole numbers from -128 to 127, in any type that holds them: indices(seed, n, 256) - 128.
template <class T>
std::vector<T> whole(unsigned seed, std::size_t n) {
  std::vector<T> out;
  out.reserve(n);
  for (const std::int32_t i : indices(seed, n, 256)) out.push_back(static_cast<T>(i - 128));
  return out;
}
/// uniform numbers as complex ones, the imaginary parts of the next seed.
std::vector<std::complex<float>> complex_numbers(unsigned seed, std::size_t n);

/// The numbers below n in an order in which neighbours lie apart; n is no multiple of 7919.
std::vector<std::int32_t> scattered(std::int64_t n);

/// The threads that this process may use, and whether products may be contracted: options of the
/// command line, known before any workload is made.
int threads();
bool contract();

/// Runs a contender: see harness.cpp for its options. `start` is called once, after the options are read,
/// `forget` after each workload.
int run(
    int argc, char** argv, const std::string& contender, const std::function<void()>& start,
    const std::function<void()>& forget = [] {});

}  // namespace bench
