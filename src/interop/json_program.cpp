// Reads JAX programs in the neutral JSON form: each equation becomes one of ours.
//
// Most primitives have JAX's name and parameters, so their parameters are read by reflection. The
// tables below list what differs: names, parameters to leave out, and a few equations that become
// something else.
#include "interop/json_program.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "core/concrete.hpp"
#include "interop/custom_rules.hpp"
#include "jaxpr/builder.hpp"
#include "telamon/checkpoint.hpp"
#include "telamon/detail/linear_call.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace interop {
namespace {

using detail::JaxprBuilder;

// Thrown inside when an equation needs what we lack; the reader collects the names.
const std::map<std::string, std::string, std::less<>> kOtherNames = {
    {"add_any", "add"}, {"scatter-add", "scatter_add"}};

// Calls of a nested program, and the parameter that holds it.
const std::map<std::string, std::string, std::less<>> kCalls = {{"jit", "jaxpr"},
                                                                {"pjit", "jaxpr"},
                                                                {"closed_call", "call_jaxpr"},
                                                                {"core_call", "call_jaxpr"},
                                                                {"composite", "jaxpr"}};

// Operands broadcast: of one shape after it is made explicit.
const std::set<std::string, std::less<>> kElementwise = {"add",
                                                         "sub",
                                                         "mul",
                                                         "div",
                                                         "rem",
                                                         "max",
                                                         "min",
                                                         "pow",
                                                         "atan2",
                                                         "and",
                                                         "or",
                                                         "xor",
                                                         "shift_left",
                                                         "shift_right_logical",
                                                         "shift_right_arithmetic",
                                                         "eq",
                                                         "ne",
                                                         "lt",
                                                         "le",
                                                         "gt",
                                                         "ge",
                                                         "add_any",
                                                         "threefry2x32",
                                                         "nextafter"};

// Hints and placement: they say where or how, not what.
const std::vector<std::string> kIgnored = {"precision",    "accuracy",     "sharding",
                                           "out_sharding", "update_jaxpr", "algorithm",
                                           "inplace",      "split_rng",    "fill_value_dtype"};

Aval aval_from_json(const Json& j) {
  const auto name = j.at("dtype").get<std::string>();
  const auto dtype = dtype_from_name(name);
  if (!dtype) throw ParseError("unknown dtype '" + name + "'");
  return {Shape(j.at("shape").get<std::vector<std::int64_t>>()), *dtype, false};
}

class Reader {
 public:
  ClosedJaxpr read(const Json& closed) {
    ClosedJaxpr program = read_closed(closed);
    if (!missing_.empty()) throw MissingPrimitiveError({missing_.begin(), missing_.end()});
    return program;
  }

 private:
  // One scope: variables by id.
  struct Scope {
    JaxprBuilder builder;
    std::map<int, Atom> env;
  };

  ClosedJaxpr read_closed(const Json& closed) {
    const Json& jaxpr = closed.at("jaxpr");
    Scope scope;
    for (const Json& v : jaxpr.at("invars"))
      bind(scope, v, Atom::var(scope.builder.add_input(aval_from_json(v.at("aval")))));
    const Json& constvars = jaxpr.at("constvars");
    const Json& consts = closed.at("consts");
    if (constvars.size() != consts.size())
      throw ParseError("a program has constvars and consts of different number");
    for (std::size_t i = 0; i < consts.size(); ++i)
      bind(scope, constvars[i], scope.builder.capture(array_from_json(consts[i])));
    for (const Json& eqn : jaxpr.at("eqns")) read_equation(scope, eqn);
    std::vector<Atom> outs;
    for (const Json& out : jaxpr.at("outvars")) outs.push_back(atom(scope, out));
    return scope.builder.build(std::move(outs));
  }

  static void bind(Scope& scope, const Json& var, Atom atom) {
    scope.env.insert_or_assign(var.at("id").get<int>(), std::move(atom));
  }

  Atom atom(Scope& scope, const Json& j) const {
    if (j.contains("var")) {
      const auto found = scope.env.find(j.at("var").get<int>());
      if (found == scope.env.end())
        throw ParseError("variable " + j.at("var").dump() + " is used before it is defined");
      return found->second;
    }
    const Aval aval = aval_from_json(j.at("aval"));
    const Json& literal = j.at("literal");
    const bool flat = literal.is_array() && !(is_complex(aval.dtype) && aval.shape.empty());
    return scope.builder.capture(
        array_from_json({{"dtype", short_name(aval.dtype)},
                         {"shape", aval.shape.to_vector()},
                         {"data", flat ? literal : Json::array({literal})}}));
  }

  void read_equation(Scope& scope, const Json& eqn) {
    const auto name = eqn.at("primitive").get<std::string>();
    const Json& params = eqn.at("params");
    std::vector<Atom> inputs;
    for (const Json& in : eqn.at("inputs")) inputs.push_back(atom(scope, in));
    std::vector<Aval> out_avals;
    for (const Json& out : eqn.at("outputs")) out_avals.push_back(aval_from_json(out.at("aval")));

    std::vector<Atom> outputs;
    if (const auto call = kCalls.find(name); call != kCalls.end()) {
      outputs = call_of(scope, params.at(call->second), params.value("name", name),
                        std::move(inputs), out_avals);
    } else if (const auto flow = control_flow().find(name); flow != control_flow().end()) {
      outputs = (this->*flow->second)(scope, params, std::move(inputs), out_avals);
    } else if (name == "custom_jvp_call" || name == "custom_vjp_call") {
      outputs = custom_call(scope, name == "custom_jvp_call", params, std::move(inputs), out_avals);
    } else if (name == "remat2") {
      outputs = remat(scope, params.at("jaxpr"), std::move(inputs), out_avals);
    } else if (name == "linear_call") {
      outputs = linear_call(scope, params, std::move(inputs), out_avals);
    } else if (name == "platform_index") {
      outputs = {platform_index(params)};
    } else {
      outputs = primitive(scope, name, params, std::move(inputs), out_avals);
    }
    const Json& vars = eqn.at("outputs");
    for (std::size_t i = 0; i < vars.size(); ++i) bind(scope, vars[i], outputs[i]);
  }

  std::vector<Atom> add(Scope& scope, const PrimitiveBase& primitive, Params params,
                        std::vector<Atom> inputs, const std::vector<Aval>& out_avals) const {
    std::vector<Atom> outs;
    for (const Var v :
         scope.builder.add_eqn(primitive, std::move(params), std::move(inputs), out_avals)) {
      outs.push_back(Atom::var(v));
    }
    return outs;
  }

  std::vector<Atom> call_of(Scope& scope, const Json& closed, const std::string& name,
                            std::vector<Atom> inputs, const std::vector<Aval>& out_avals) {
    ClosedJaxpr body = read_closed(closed);
    std::vector<Atom> args;
    for (const Array& c : body.consts) args.push_back(scope.builder.capture(c));
    args.insert(args.end(), inputs.begin(), inputs.end());
    JitParams params;
    params.num_consts = body.num_consts();
    params.jaxpr = std::move(body.jaxpr);
    params.name = name;
    return add(scope, jit_p, Params::of(std::move(params)), std::move(args), out_avals);
  }

  // ---- control flow: the constants of a body become operands, in front of those that it takes.
  using ReadFlow = std::vector<Atom> (Reader::*)(Scope&, const Json&, std::vector<Atom>,
                                                 const std::vector<Aval>&);
  static const std::map<std::string, ReadFlow, std::less<>>& control_flow() {
    static const std::map<std::string, ReadFlow, std::less<>> table = {
        {"cond", &Reader::read_cond}, {"while", &Reader::read_while}, {"scan", &Reader::read_scan}};
    return table;
  }

  // The program, whose constants are added to `operands`.
  Jaxpr read_body(Scope& scope, const Json& closed, std::vector<Atom>& operands, int& num_consts) {
    ClosedJaxpr body = read_closed(closed);
    for (const Array& c : body.consts) operands.push_back(scope.builder.capture(c));
    num_consts += body.num_consts();
    return std::move(body.jaxpr);
  }

  std::vector<Atom> read_scan(Scope& scope, const Json& j, std::vector<Atom> inputs,
                              const std::vector<Aval>& out_avals) {
    ScanParams params;
    params.num_consts = j.at("num_consts").get<int>();
    params.num_carry = j.at("num_carry").get<int>();
    params.length = j.at("length").get<std::int64_t>();
    params.reverse = j.at("reverse").get<bool>();
    params.unroll = j.value("unroll", std::int64_t{1});
    std::vector<Atom> operands;
    params.jaxpr = read_body(scope, j.at("jaxpr"), operands, params.num_consts);
    operands.insert(operands.end(), inputs.begin(), inputs.end());
    return add(scope, scan_p, Params::of(std::move(params)), std::move(operands), out_avals);
  }

  std::vector<Atom> read_while(Scope& scope, const Json& j, std::vector<Atom> inputs,
                               const std::vector<Aval>& out_avals) {
    WhileParams params;
    params.cond_nconsts = j.at("cond_nconsts").get<int>();
    params.body_nconsts = j.at("body_nconsts").get<int>();
    const auto body_consts = inputs.begin() + params.cond_nconsts;
    std::vector<Atom> operands;
    params.cond_jaxpr = read_body(scope, j.at("cond_jaxpr"), operands, params.cond_nconsts);
    operands.insert(operands.end(), inputs.begin(), body_consts);
    params.body_jaxpr = read_body(scope, j.at("body_jaxpr"), operands, params.body_nconsts);
    operands.insert(operands.end(), body_consts, inputs.end());
    return add(scope, while_p, Params::of(std::move(params)), std::move(operands), out_avals);
  }

  // Each branch takes the constants of all.
  std::vector<Atom> read_cond(Scope& scope, const Json& j, std::vector<Atom> inputs,
                              const std::vector<Aval>& out_avals) {
    std::vector<ClosedJaxpr> branches;
    std::vector<Aval> avals;
    std::vector<Atom> operands{inputs[0]};
    for (const Json& branch : j.at("branches")) {
      branches.push_back(read_closed(branch));
      for (const Array& c : branches.back().consts) {
        operands.push_back(scope.builder.capture(c));
        avals.push_back(c.aval());
      }
    }
    const auto num_consts = static_cast<Var>(avals.size());
    operands.insert(operands.end(), inputs.begin() + 1, inputs.end());
    for (std::size_t i = 1; i < inputs.size(); ++i) avals.push_back(scope.builder.aval(inputs[i]));
    CondParams params;
    Var next_const = 0;
    for (const ClosedJaxpr& branch : branches) {
      std::vector<Atom> map;
      for (int i = 0; i < branch.num_consts(); ++i) map.push_back(Atom::var(next_const++));
      for (Var v = num_consts; v < static_cast<Var>(avals.size()); ++v) map.push_back(Atom::var(v));
      params.branches.push_back(substitute_inputs(branch.jaxpr, avals, map));
    }
    return add(scope, cond_p, Params::of(std::move(params)), std::move(operands), out_avals);
  }

  // The operands of a call: what its program captured, then those given.
  static std::vector<Atom> with_captured(Scope& scope, const ClosedJaxpr& body,
                                         const std::vector<Atom>& inputs) {
    std::vector<Atom> args;
    for (const Array& c : body.consts) args.push_back(scope.builder.capture(c));
    args.insert(args.end(), inputs.begin(), inputs.end());
    return args;
  }

  // A call with rules. Inside rules, "same_rules_as" counts the calls whose rules those are.
  std::vector<Atom> custom_call(Scope& scope, bool forward, const Json& params,
                                std::vector<Atom> inputs, const std::vector<Aval>& out_avals) {
    const ClosedJaxpr body = read_closed(params.at("call_jaxpr"));
    const bool inside = !rules_under_way_.empty();
    int number = -1;
    if (params.contains("same_rules_as")) {
      number = rules_under_way_.at(params.at("same_rules_as").get<std::size_t>());
    } else if (!params.at(forward ? "jvp_jaxpr" : "fwd_jaxpr").is_null()) {
      number = read_rules(forward, params, out_avals.size());
    }
    const std::vector<Atom> args = with_captured(scope, body, inputs);
    if (forward) {
      CustomJvpParams p;
      p.call_jaxpr = body.jaxpr;
      p.num_consts = body.num_consts();
      p.name = params.value("name", "f");
      if (number >= 0) p.jvp = rules_->jvp(number, inside);
      return add(scope, custom_jvp_call_p, Params::of(std::move(p)), args, out_avals);
    }
    CustomVjpParams p;
    p.call_jaxpr = body.jaxpr;
    p.num_consts = body.num_consts();
    p.name = params.value("name", "f");
    if (number >= 0) p.fwd = rules_->fwd(number, inside);
    return add(scope, custom_vjp_call_p, Params::of(std::move(p)), args, out_avals);
  }

  // -1 when there is no complete rule: then the body is differentiated.
  int read_rules(bool forward, const Json& params, std::size_t num_results) {
    const int number = rules_->add();
    rules_under_way_.push_back(number);
    bool complete = true;
    if (forward) {
      rules_->set_jvp(number, num_results, read_closed(params.at("jvp_jaxpr")));
    } else if (params.at("bwd_jaxpr").is_null()) {
      complete = false;
    } else {
      ClosedJaxpr fwd = read_closed(params.at("fwd_jaxpr"));
      rules_->set_vjp(number, num_results, std::move(fwd), read_closed(params.at("bwd_jaxpr")));
    }
    rules_under_way_.pop_back();
    return complete ? number : -1;
  }

  std::vector<Atom> remat(Scope& scope, const Json& closed, std::vector<Atom> inputs,
                          const std::vector<Aval>& out_avals) {
    const ClosedJaxpr body = read_closed(closed);
    CheckpointParams p;
    p.jaxpr = body.jaxpr;
    p.name = "f";
    return add(scope, checkpoint_p, Params::of(std::move(p)), with_captured(scope, body, inputs),
               out_avals);
  }

  std::vector<Atom> linear_call(Scope& scope, const Json& params, std::vector<Atom> inputs,
                                const std::vector<Aval>& out_avals) {
    const ClosedJaxpr callee = read_closed(params.at("callee"));
    const ClosedJaxpr transpose = read_closed(params.at("transpose"));
    const LinearCallParams p{callee.jaxpr, transpose.jaxpr, callee.num_consts(),
                             transpose.num_consts(), params.at("num_res").get<int>()};
    return add(scope, linear_call_p, Params::of(p),
               with_captured(scope, callee, with_captured(scope, transpose, inputs)), out_avals);
  }

  // The index of the first list of platforms that names this one, else of null.
  Atom platform_index(const Json& params) const {
    const Json& platforms = params.at("platforms");
    std::int32_t index = 0;
    for (std::size_t i = 0; i < platforms.size(); ++i) {
      const bool here =
          platforms[i].is_null() || std::any_of(platforms[i].begin(), platforms[i].end(),
                                                [](const Json& p) { return p == "cpu"; });
      if (here) {
        index = static_cast<std::int32_t>(i);
        break;
      }
    }
    return Atom::literal(Array::from_data(&index, DType::i32, {}));
  }

  Atom broadcast(Scope& scope, const Atom& x, const Shape& shape) const {
    const Aval aval = scope.builder.aval(x);
    if (aval.shape == shape) return x;
    Shape dims;
    for (int i = 0; i < aval.ndim(); ++i) dims.push_back(i + shape.ndim() - aval.ndim());
    return add(scope, broadcast_in_dim_p, Params::of(BroadcastInDimParams{shape, dims}), {x},
               {aval.with_shape(shape).strong()})[0];
  }

  // JAX multiplies operands of different dtypes into the result's.
  Atom converted(Scope& scope, const Atom& x, DType dtype) const {
    const Aval aval = scope.builder.aval(x);
    if (aval.dtype == dtype) return x;
    return add(scope, convert_element_type_p, Params::of(ConvertParams{dtype, false}), {x},
               {aval.with_dtype(dtype)})[0];
  }

  Atom transposed(Scope& scope, const Atom& x, const Json& permutation) const {
    const Aval aval = scope.builder.aval(x);
    const Shape order(permutation.get<std::vector<std::int64_t>>());
    Shape shape;
    for (const std::int64_t d : order) shape.push_back(aval.shape[static_cast<std::size_t>(d)]);
    return add(scope, transpose_p, Params::of(TransposeParams{order}), {x},
               {aval.with_shape(shape)})[0];
  }

  std::vector<Atom> primitive(Scope& scope, const std::string& name, Json params,
                              std::vector<Atom> inputs, const std::vector<Aval>& out_avals) {
    const auto other = kOtherNames.find(name);
    const PrimitiveBase* found =
        PrimitiveBase::find(other == kOtherNames.end() ? name : other->second);
    if (name.starts_with("scatter") && params.contains("update_jaxpr") &&
        !params.at("update_jaxpr").is_null()) {
      return missing(scope, name + " with update_jaxpr", out_avals);
    }
    if (!found) return missing(scope, name, out_avals);
    if (kElementwise.contains(name)) {
      for (Atom& in : inputs) in = broadcast(scope, in, out_avals[0].shape);
    } else if (name == "select_n") {
      for (std::size_t i = 1; i < inputs.size(); ++i)
        inputs[i] = broadcast(scope, inputs[i], out_avals[0].shape);
    } else if (name == "dot_general") {
      if (scope.builder.aval(inputs[0]).dtype != scope.builder.aval(inputs[1]).dtype) {
        for (Atom& in : inputs) in = converted(scope, in, out_avals[0].dtype);
      }
    } else if (name == "clamp") {
      inputs[1] = broadcast(scope, inputs[1], out_avals[0].shape);
    } else if (name == "reshape") {
      if (params.contains("dimensions") && !params.at("dimensions").is_null()) {
        inputs[0] = transposed(scope, inputs[0], params.at("dimensions"));
      }
      params.erase("dimensions");
    } else if (name == "slice" && params.at("strides").is_null()) {
      params.erase("strides");
    }
    return add(scope, *found, read_params(*found, params), std::move(inputs), out_avals);
  }

  // Goes on with made-up results, so that one pass finds everything that is missing.
  std::vector<Atom> missing(Scope& scope, const std::string& name,
                            const std::vector<Aval>& out_avals) {
    missing_.insert(name);
    std::vector<Atom> outs;
    for (const Aval& aval : out_avals)
      outs.push_back(scope.builder.capture(detail::full_of(aval, 0)));
    return outs;
  }

  // JSON is close enough to the text of parameters that the parameters' own parser reads it.
  Params read_params(const PrimitiveBase& primitive, const Json& params) const {
    ParamsText text;
    for (const auto& [key, value] : params.items()) text.fields.emplace_back(key, value.dump());
    text.ignored = kIgnored;
    return primitive.rules().parse_params(text);
  }

  std::set<std::string> missing_;
  std::shared_ptr<RuleSet> rules_ = std::make_shared<RuleSet>();
  std::vector<int> rules_under_way_;  // those being read, outermost first
};

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "'" : ", '") + n + "'";
  return text;
}

Json parse_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw ValueError("cannot open '" + path + "'");
  try {
    return Json::parse(in);
  } catch (const Json::exception& e) {
    throw ParseError("'" + path + "' is not valid JSON: " + e.what());
  }
}

}  // namespace

MissingPrimitiveError::MissingPrimitiveError(std::vector<std::string> names)
    : NotImplementedError("the program uses primitives that do not exist here: " + listed(names)),
      names_(std::move(names)) {}

ClosedJaxpr program_from_json(const Json& closed) {
  try {
    return Reader().read(closed);
  } catch (const Json::exception& e) {
    throw ParseError(std::string("damaged program: ") + e.what());
  }
}

Program load_jaxpr(const std::string& path) {
  const Json file = parse_file(path);
  try {
    const Json& program = file.contains("program") ? file.at("program") : file;
    return Program(file.value("name", path), program_from_json(program),
                   file.value("input_paths", std::vector<std::string>()));
  } catch (const Json::exception& e) {
    throw ParseError("'" + path + "' is not a program in the neutral form: " + e.what());
  } catch (const ParseError& e) { throw ParseError("'" + path + "': " + e.message()); }
}

std::vector<Aval> Program::in_avals() const {
  const auto all = program_.jaxpr.in_avals();
  return {all.begin() + program_.num_consts(), all.end()};
}

Arrays Program::operator()(std::span<const Array> inputs) const {
  const std::vector<Aval> expected = in_avals();
  if (inputs.size() != expected.size()) {
    throw TypeError("the program '" + name_ + "' takes " + std::to_string(expected.size()) +
                    " arrays, got " + std::to_string(inputs.size()));
  }
  Arrays args = program_.consts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].aval().same_type(expected[i])) {
      throw TypeError("the program '" + name_ + "' takes " + expected[i].to_string() +
                      " as input " + std::to_string(i) + ", got " + inputs[i].aval().to_string());
    }
    args.push_back(inputs[i]);
  }
  return eval_jaxpr(program_.jaxpr, args);
}

}  // namespace interop
}  // namespace v1
}  // namespace telamon
