// cg and bicgstab, with the tolerances and iterations of jax.scipy.sparse.linalg (and of SciPy).
//   cg         Hestenes and Stiefel (1952), preconditioned
//   bicgstab   van der Vorst (1992), preconditioned
#include "solvers/linear.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "solvers/vectors.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/solvers.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

using namespace solvers;

Arrays preconditioned(const FlatSolverOptions& options, const Arrays& r) {
  return options.M ? options.M(r) : r;
}

// The square of the residual's norm from which on the system counts as solved.
Array accepted(const FlatSolverOptions& options, const Arrays& b) {
  const Array norm2 = dot(b, b);
  return maximum(norm2 * (options.tol * options.tol),
                 asarray(options.atol * options.atol, norm2.dtype()));
}

Array most_iterations(const FlatSolverOptions& options, const Arrays& b) {
  return counter(options.maxiter.value_or(10 * num_elements(b)));
}

Arrays with_info(const Arrays& x, const Array& residual2, const Array& limit2, const Array& k) {
  // An infinite residual is no larger than an infinite limit: that of numbers whose squares overflow, say.
  const Array finite = isfinite(residual2);
  Arrays out = x;
  out.push_back(where(logical_and(residual2 <= limit2, finite), counter(0),
                      where(logical_or(finite, k < 0), failed_after(k), counter(-1))));
  return out;
}

struct CgState {
  std::vector<Array> x, r, p;
  Array gamma, k;
};

Arrays run_cg(const FlatFunction& A, const Arrays& b, const Arrays& x0,
              const FlatSolverOptions& options) {
  const Array limit2 = accepted(options, b), most = most_iterations(options, b);
  const auto residual2 = [&](const CgState& s) { return options.M ? dot(s.r, s.r) : s.gamma; };
  CgState start{.x = x0, .r = subtract(b, A(x0)), .p = {}, .gamma = {}, .k = counter(0)};
  start.p = preconditioned(options, start.r);
  start.gamma = dot(start.r, start.p);
  const CgState end =
      while_loop([&](const CgState& s) { return logical_and(residual2(s) > limit2, s.k < most); },
                 [&](const CgState& s) {
                   const Arrays Ap = A(s.p);
                   const Array alpha = s.gamma / dot(s.p, Ap);
                   CgState next;
                   next.x = add_scaled(s.x, alpha, s.p);
                   next.r = add_scaled(s.r, -alpha, Ap);
                   const Arrays z = preconditioned(options, next.r);
                   next.gamma = dot(next.r, z);
                   next.p = add_scaled(z, next.gamma / s.gamma, s.p);
                   next.k = s.k + 1;
                   return next;
                 },
                 start);
  return with_info(end.x, residual2(end), limit2, end.k);
}

struct BicgstabState {
  std::vector<Array> x, r, rhat, p, q;
  Array alpha, omega, rho, k;
};

}  // namespace

Arrays run_bicgstab(const FlatFunction& A, const Arrays& b, const Arrays& x0,
                    const FlatSolverOptions& options) {
  const Array limit2 = accepted(options, b), most = most_iterations(options, b);
  const Arrays r0 = subtract(b, A(x0));
  const Array one = asarray(1.0, dot(r0, r0).dtype());
  const BicgstabState start{.x = x0,
                            .r = r0,
                            .rhat = r0,
                            .p = r0,
                            .q = r0,
                            .alpha = one,
                            .omega = one,
                            .rho = one,
                            .k = counter(0)};
  const BicgstabState end = while_loop(
      [&](const BicgstabState& s) {  // a negative k: it broke down
        return logical_and(dot(s.r, s.r) > limit2, logical_and(s.k < most, s.k >= 0));
      },
      [&](const BicgstabState& s) {
        BicgstabState next;
        next.rhat = s.rhat;
        next.rho = dot(s.rhat, s.r);
        const Array beta = next.rho / s.rho * (s.alpha / s.omega);
        next.p = add_scaled(s.r, beta, add_scaled(s.p, -s.omega, s.q));
        const Arrays phat = preconditioned(options, next.p);
        next.q = A(phat);
        const Array pivot = dot(s.rhat, next.q);
        const Array stopped = logical_or(next.rho == 0, pivot == 0);  // x stays where it is
        next.alpha = next.rho / where(stopped, 1.0, pivot);
        const Arrays half = add_scaled(s.r, -next.alpha, next.q);
        const Array early = dot(half, half) < limit2;
        const Arrays shat = preconditioned(options, half);
        const Arrays t = A(shat);
        const Array norm2 = dot(t, t);
        next.omega = where(norm2 == 0, 0.0, dot(t, half) / where(norm2 == 0, 1.0, norm2));
        const Arrays moved = add_scaled(s.x, next.alpha, phat);
        next.x = select(stopped, s.x, select(early, moved, add_scaled(moved, next.omega, shat)));
        next.r = select(stopped, s.r, select(early, half, add_scaled(half, -next.omega, t)));
        const Array stuck = logical_or(pivot == 0, logical_or(next.omega == 0, next.alpha == 0));
        next.k = where(next.rho == 0, counter(-10), where(stuck, counter(-11), s.k + 1));
        return next;
      },
      start);
  return with_info(end.x, dot(end.r, end.r), limit2, end.k);
}

namespace {

using Method = Arrays(const FlatFunction&, const Arrays&, const Arrays&, const FlatSolverOptions&);

Arrays solved_by(Method& method, const char* name, bool symmetric, const FlatFunction& A,
                 std::span<const Array> b, const FlatSolverOptions& options) {
  const std::string who(name);
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (!is_float(b[i].dtype()))
      throw TypeError(who + ": b must be of floats, but holds " + b[i].aval().to_string());
    if (!options.x0.empty() && options.x0[i].shape() != b[i].shape()) {
      throw ValueError(who + ": arrays in x0 and b must have matching shapes: " +
                       options.x0[i].aval().to_string() + " and " + b[i].aval().to_string());
    }
  }
  if (b.empty()) throw ValueError(who + ": b holds no arrays");
  check_limits(name, options.tol, options.maxiter.value_or(0));
  check_limits(name, options.atol, 0, "atol");
  FlatSolverOptions used = options;
  if (options.M) used.M = fitting(options.M, b, name, "M", "b");
  const FlatSolve solve = [&](const FlatFunction& map, std::span<const Array> rhs) {
    Arrays x0;
    for (std::size_t i = 0; i < rhs.size(); ++i) {
      x0.push_back(options.x0.empty() ? telamon::zeros_like(rhs[i])
                                      : asarray(options.x0[i], rhs[i].dtype()));
    }
    // Nobody is told the info of a derivative's system: x says it, too. In here, where nothing is differentiated or
    // transposed: to those who transpose a solution, as custom_root does, it must stay linear in b.
    Arrays out = method(map, list(rhs), x0, used);
    const Array failed = out.back() < 0;
    for (std::size_t i = 0; i < rhs.size(); ++i) out[i] = where(failed, NAN, out[i]);
    return out;
  };
  return custom_linear_solve_arrays(fitting(A, b, name, "A", "b"), solve,
                                    symmetric ? nullptr : &solve, symmetric, b);
}

}  // namespace

Array counter(std::int64_t value) {
  return asarray(static_cast<int>(std::min<std::int64_t>(value, 2147483647)), DType::i32);
}
Array failed_after(const Array& k) { return where(k == 0, counter(1), k); }

FlatFunction fitting(const FlatFunction& f, std::span<const Array> like, const char* solver,
                     const char* name_of_f, const char* name_of_like) {
  const auto fit = [](const Array& x, const Array& y) {
    return x.shape() == y.shape() && (x.dtype() == y.dtype() || x.weak_type() || y.weak_type());
  };
  return [=, &f, wanted = list(like)](std::span<const Array> x) {
    Arrays outs = f(x);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (fit(outs[i], wanted[i])) continue;
      throw ValueError(fmt::format(
          "{0}: {1} must give the shapes and dtypes of {2}, but gives {3} where {2} holds {4}",
          solver, name_of_f, name_of_like, outs[i].aval().to_string(),
          wanted[i].aval().to_string()));
    }
    return outs;
  };
}

void check_limits(const char* solver, double tolerance, std::int64_t maxiter, const char* name) {
  if (!(tolerance >= 0)) {
    throw ValueError(fmt::format("{}: {} must not be negative, got {}", solver, name, tolerance));
  }
  if (maxiter < 0) {
    throw ValueError(std::string(solver) + ": maxiter must not be negative, got " +
                     std::to_string(maxiter));
  }
}

Arrays cg_arrays(const FlatFunction& A, std::span<const Array> b,
                 const FlatSolverOptions& options) {
  return solved_by(run_cg, "cg", true, A, b, options);
}

Arrays bicgstab_arrays(const FlatFunction& A, std::span<const Array> b,
                       const FlatSolverOptions& options) {
  return solved_by(run_bicgstab, "bicgstab", false, A, b, options);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
