// How primitives work, step by step: a function of existing primitives first, then multiply_add as
// a primitive of its own, which learns one transformation after the other.
//
// Each step is tried before its rule exists, and fails with the error of that stage; then the rule
// is added and the step succeeds. The nested calls are printed by the functions and rules
// themselves while they run: "call name(arguments)", and "|<- name = result" when they return.
#include <iostream>
#include <span>
#include <string>
#include <telamon/telamon.hpp>
#include <tuple>
#include <vector>

namespace tl = telamon;
using tl::Array;
using tl::Arrays;
using tl::Aval;
using tl::Tangent;

namespace {

// ---- Printing of nested calls ------------------------------------------------------------------

int depth = 0;

void print(const std::string& text) {
  std::cout << std::string(2 * static_cast<std::size_t>(depth), ' ') << text << '\n';
}

std::string show(const Array& x) { return x.to_string(); }
std::string show(const Aval& a) { return a.to_long_string(); }
std::string show(const tl::Scalar& x) {
  return "<Scalar " + std::string(tl::short_name(x.dtype())) + ">";
}
std::string show(const tl::BufferView& x) {
  return "<Buffer " + Aval{tl::Shape(x.shape), x.dtype}.to_string() + ">";
}
std::string show(const Tangent& t) {
  return t.is_zero() ? "Zero(" + show(t.aval()) + ")" : show(t.array());
}
std::string show(const tl::LinearInput& x) {
  return x.is_linear() ? "UndefPrimal(" + show(x.aval()) + ")" : show(x.array());
}
std::string show(const tl::BatchAxis& axis) { return axis ? std::to_string(*axis) : "None"; }

/// "a, b, c"
template <class... T>
std::string list(const T&... values) {
  std::string text;
  ((text += (text.empty() ? "" : ", ") + show(values)), ...);
  return text;
}
template <class T>
std::string list(std::span<const T> values) {
  std::string text;
  for (const T& v : values) text += (text.empty() ? "" : ", ") + show(v);
  return text;
}
/// "(a, b, c)"
template <class T>
std::string tuple(std::span<const T> values) {
  return "(" + list(values) + ")";
}
template <class T>
std::string show(const std::vector<T>& values) {
  return values.size() == 1 ? show(values[0]) : tuple(std::span(values));
}
std::string show(const tl::AbstractResult& r) {
  return show(std::vector(r.avals.begin(), r.avals.end()));
}
std::string show(const tl::JvpResult& r) {
  return "(" + show(r.primals) + ", " + show(r.tangents) + ")";
}
std::string show(const tl::BatchResult& r) {
  return "(" + show(r.values) + ", " + show(r.axes) + ")";
}

/// Prints "call name(arguments)" when it is made, and "|<- name = result" when the result is given.
class Call {
 public:
  Call(const char* name, const std::string& arguments) : name_(name) {
    print("call " + name_ + "(" + arguments + ")");
    ++depth;
  }
  template <class Result>
  Result returns(Result result) const {
    --depth;
    print("|<- " + name_ + " = " + show(result));
    return result;
  }

 private:
  std::string name_;
};

void chapter(const std::string& title) {
  std::cout << "\n" << title << "\n" << std::string(title.size(), '=') << "\n";
}
void step(const std::string& title) { std::cout << "\n-- " << title << "\n"; }
void result(const char* name, const Array& value) { std::cout << name << " = " << value << "\n"; }

/// Runs what must fail because a rule is missing, and prints the error.
template <class Body>
void expect_not_implemented(Body body) {
  try {
    body();
    std::cout << "\nThere was no exception.\n";
  } catch (const tl::NotImplementedError& error) {
    depth = 0;
    std::cout << "\nFound expected exception:\nNotImplementedError: " << error.what() << "\n";
  }
}

// ---- With existing primitives ------------------------------------------------------------------

Array multiply_add_lax(const Array& x, const Array& y, const Array& z) {
  return tl::lax::add(tl::lax::mul(x, y), z);
}
Array square_add_lax(const Array& a, const Array& b) { return multiply_add_lax(a, a, b); }

Array multiply_add_numpy(const Array& x, const Array& y, const Array& z) {
  const Call call("multiply_add_numpy", list(x, y, z));
  return call.returns(tl::add(tl::multiply(x, y), z));
}
Array square_add_numpy(const Array& a, const Array& b) {
  const Call call("square_add_numpy", list(a, b));
  return call.returns(multiply_add_numpy(a, a, b));
}

void existing_primitives() {
  chapter("Using existing primitives");
  step("functions of the lax level apply one primitive each");
  result("square_add_lax", square_add_lax(2.0, 10.0));
  result("grad(square_add_lax)", tl::grad(square_add_lax)(2.0, 10.0));
  step("functions of the numpy level are written in terms of these");
  std::cout << "\nNormal evaluation:\n";
  result("square_add_numpy", square_add_numpy(2.0, 10.0));
  std::cout << "\nGradient evaluation:\n";
  result("grad(square_add_numpy)", tl::grad(square_add_numpy)(2.0, 10.0));
}

// ---- A primitive of its own --------------------------------------------------------------------

const tl::Primitive<> multiply_add_p{"multiply_add"};

Array multiply_add_prim(const Array& x, const Array& y, const Array& z) {
  const Call call("multiply_add_prim", list(x, y, z));
  return call.returns(multiply_add_p({}, {x, y, z})[0]);
}
Array square_add_prim(const Array& a, const Array& b) {
  const Call call("square_add_prim", list(a, b));
  return call.returns(multiply_add_prim(a, a, b));
}

// ---- Its rules, one per interpretation ---------------------------------------------------------

/// Evaluation. Sees concrete arrays only and need not be traceable: here, a plain loop.
Arrays multiply_add_impl(const tl::NoParams&, std::span<const Array> args) {
  const Call call("multiply_add_impl", list(args));
  std::vector<double> x = args[0].to_vector<double>();
  const auto y = args[1].to_vector<double>(), z = args[2].to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = x[i] * y[i] + z[i];
  return call.returns(Arrays{Array(x, args[0].shape())});
}

/// The type of the result, from those of the operands.
tl::AbstractResult multiply_add_abstract_eval(const tl::NoParams&, std::span<const Aval> avals) {
  if (avals[0].shape != avals[1].shape || avals[0].shape != avals[2].shape) {
    throw tl::ShapeError("multiply_add needs three operands of one shape");
  }
  const tl::AbstractResult result(avals[0].strong());
  // Outside of all calls, a debug build checks the types again between passes of the compiler.
  if (depth == 0) return result;
  return Call("multiply_add_abstract_eval", list(avals)).returns(result);
}

/// Native code for one element, written with the Emitter.
tl::Scalar multiply_add_lowering(tl::Emitter& e, const tl::NoParams&,
                                 std::span<const tl::Scalar> x) {
  const Call call("multiply_add_lowering", list(x));
  return call.returns(e.add(e.mul(x[0], x[1]), x[2]));
}

/// Another lowering: the compiled program calls a C++ function with the operands' memory.
void multiply_add_function(const double* x, const double* y, const double* z, double* out,
                           std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] * y[i] + z[i];
}
void multiply_add_call(const tl::NoParams&, std::span<const tl::BufferView> in,
                       std::span<const tl::MutableBufferView> out) {
  print("call multiply_add_function(" + list(in) + ")");
  multiply_add_function(in[0].as<double>(), in[1].as<double>(), in[2].as<double>(),
                        out[0].as<double>(), out[0].size());
}

/// Result and tangent: d(x y + z) = dx y + x dy + dz. Must be traceable. Tangents may be symbolic
/// zeros; this rule turns them into arrays of zeros.
tl::JvpResult multiply_add_value_and_jvp(const tl::NoParams&, std::span<const Array> x,
                                         std::span<const Tangent> dx) {
  const Call call("multiply_add_value_and_jvp", tuple(x) + ", " + tuple(dx));
  print("Primal evaluation:");
  const Array primal_out = multiply_add_prim(x[0], x[1], x[2]);
  print("Tangent evaluation:");
  const Array inner = multiply_add_prim(x[0], dx[1].instantiate(), dx[2].instantiate());
  const Array tangent_out = multiply_add_prim(dx[0].instantiate(), x[1], inner);
  return call.returns(tl::JvpResult{{primal_out}, {tangent_out}});
}

/// Cotangents of the linear operands. The rule above uses multiply_add linearly in z and in one of
/// x and y; the other one is known.
std::vector<Tangent> multiply_add_transpose(const tl::NoParams&, std::span<const Tangent> cts,
                                            std::span<const tl::LinearInput> x) {
  const Call call("multiply_add_transpose", list(cts[0]) + ", " + list(x));
  const Array& ct = cts[0].array();
  if (x[0].is_linear()) {
    const Array& y = x[1].array();
    const Array ct_x = multiply_add_prim(ct, y, tl::lax::zeros_like(y));
    return call.returns(std::vector<Tangent>{ct_x, tl::Zero{y.aval().tangent()}, ct});
  }
  const Array& known = x[0].array();
  const Array ct_y = multiply_add_prim(known, ct, tl::lax::zeros_like(known));
  return call.returns(std::vector<Tangent>{tl::Zero{known.aval().tangent()}, ct_y, ct});
}

/// The same on whole batches: multiply_add works element by element already.
tl::BatchResult multiply_add_batch(const tl::NoParams&, const tl::AxisInfo&,
                                   std::span<const Array> args,
                                   std::span<const tl::BatchAxis> axes) {
  const Call call("multiply_add_batch", tuple(args) + ", " + tuple(axes));
  if (axes[0] != axes[1] || axes[0] != axes[2]) {
    throw tl::ValueError("this rule wants all operands to be mapped along the same axis");
  }
  print("Using multiply_add to compute the batch:");
  const Array result = multiply_add_prim(args[0], args[1], args[2]);
  return call.returns(tl::BatchResult{{result}, {axes[0]}});
}

// ---- The walk ----------------------------------------------------------------------------------

void evaluation() {
  chapter("Primal evaluation");
  step("a new primitive has no rules");
  expect_not_implemented([] { square_add_prim(2.0, 10.0); });

  multiply_add_p.def_impl(multiply_add_impl);
  step("with an evaluation rule");
  result("square_add_prim", square_add_prim(2.0, 10.0));
}

void compilation() {
  chapter("jit");
  step("tracing needs the types of results");
  expect_not_implemented([] { tl::jit(square_add_prim)(2.0, 10.0); });

  multiply_add_p.def_abstract_eval(multiply_add_abstract_eval);
  step("with an abstract evaluation rule, tracing ends and compiling begins");
  expect_not_implemented([] { tl::jit(square_add_prim)(2.0, 10.0); });

  multiply_add_p.add_lowering("cpu", tl::element<tl::NoParams>(multiply_add_lowering));
  step("with a lowering rule written against the emitter");
  const auto compiled = tl::jit([](Array a, Array b) { return square_add_prim(a, b); });
  result("jit(square_add_prim)", compiled(2.0, 10.0));
  step("called again, nothing is traced or compiled");
  result("jit(square_add_prim)", compiled(3.0, 10.0));

  step("with a static argument: b is a compile-time constant");
  const auto with_static =
      tl::jit([](Array a, Array b) { return square_add_prim(a, b); }, {.static_argnums = {1}});
  result("jit(square_add_prim)", with_static(2.0, 10.0));

  step("with a lowering rule that calls a C++ function");
  multiply_add_p.add_lowering("cpu", tl::call<tl::NoParams>(multiply_add_call));
  const auto calling = tl::jit([](Array a, Array b) { return square_add_prim(a, b); });
  result("jit(square_add_prim)", calling(2.0, 10.0));
  multiply_add_p.add_lowering("cpu", tl::element<tl::NoParams>(multiply_add_lowering));
}

void forward_differentiation() {
  chapter("Forward differentiation");
  step("there is no differentiation rule yet");
  expect_not_implemented(
      [] { tl::jvp(square_add_prim, std::tuple{2.0, 10.0}, std::tuple{1.0, 1.0}); });

  multiply_add_p.def_jvp(multiply_add_value_and_jvp);
  step("with a jvp rule");
  const auto [y, dy] = tl::jvp(square_add_prim, std::tuple{2.0, 10.0}, std::tuple{1.0, 1.0});
  std::cout << "jvp(square_add_prim) = (" << y << ", " << dy << ")\n";

  step("jit of jvp");
  const auto compiled = tl::jit([](Array a, Array b, Array da, Array db) {
    return tl::jvp(square_add_prim, std::tuple{a, b}, std::tuple{da, db});
  });
  const auto [z, dz] = compiled(2.0, 10.0, 1.0, 1.0);
  std::cout << "jit(jvp(square_add_prim)) = (" << z << ", " << dz << ")\n";
}

/// The example of the text: f(x, y) = x y + y at (2, 4).
void transposition_by_hand() {
  const auto f = [](Array x, Array y) { return x * y + y; };
  step("what is transposed: the linear program of f(x, y) = x * y + y at (2, 4)");
  const auto [value, tangent_map] = tl::linearize(f, 2.0, 4.0);
  std::cout << tangent_map.jaxpr() << "\n";
  const auto [same_value, pullback] = tl::vjp(f, 2.0, 4.0);
  const auto [x_ct, y_ct] = pullback(1.0);
  std::cout << "cotangents of x and y: " << x_ct << ", " << y_ct << "\n";
}

void reverse_differentiation() {
  chapter("Reverse differentiation");
  transposition_by_hand();

  step("the linear program is there, but multiply_add cannot be transposed");
  expect_not_implemented([] { tl::grad(square_add_prim)(2.0, 10.0); });

  multiply_add_p.def_transpose(multiply_add_transpose);
  step("with a transpose rule");
  result("grad(square_add_prim)", tl::grad(square_add_prim)(2.0, 10.0));

  step("jit of grad");
  result("jit(grad(square_add_prim))", tl::jit(tl::grad(square_add_prim))(2.0, 10.0));
}

void batching() {
  chapter("Batching");
  const Array a({2.0, 3.0}), b({10.0, 20.0});
  step("there is no batching rule yet");
  expect_not_implemented([&] { tl::vmap(square_add_prim)(a, b); });

  multiply_add_p.def_batch(multiply_add_batch);
  step("with a batching rule");
  result("vmap(square_add_prim)", tl::vmap(square_add_prim)(a, b));

  step("jit of vmap");
  result("jit(vmap(square_add_prim))", tl::jit(tl::vmap(square_add_prim))(a, b));
}

}  // namespace

int main() {
  existing_primitives();
  evaluation();
  compilation();
  forward_differentiation();
  reverse_differentiation();
  batching();
}
