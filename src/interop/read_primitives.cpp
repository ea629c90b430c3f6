// Equations of the neutral JSON form that become one equation of ours. Most primitives have JAX's name
// and parameters, so their parameters are read by reflection. The tables list what differs: names,
// parameters to leave out, operands to broadcast or convert first.
#include <limits>
#include <optional>
#include <string>

#include "interop/program_reader.hpp"
#include "telamon/lax.hpp"
#include "telamon/primitives.hpp"

namespace telamon {
inline namespace v1 {
namespace interop {
namespace {

const std::map<std::string, std::string, std::less<>> kOtherNames = {{"add_any", "add"},
                                                                     {"scatter-add", "scatter_add"},
                                                                     {"lt_to", "lt"},
                                                                     {"le_to", "le"},
                                                                     {"tile", "reshape"}};

// Hints and placement: they say where or how, not what.
const std::vector<std::string> kIgnored = {"precision",    "accuracy",     "sharding",
                                           "out_sharding", "update_jaxpr", "algorithm",
                                           "inplace",      "split_rng",    "fill_value_dtype"};

// ---- equations in front --------------------------------------------------------------------------
struct Preparation {
  ProgramReader& reader;
  Scope& scope;
  FileEqn& eqn;
  Json& params;

  const Aval& aval(std::size_t i) const { return scope.builder.aval(eqn.inputs[i]); }

  void broadcast(std::size_t i, const Shape& shape) const {
    const Aval from = aval(i);
    if (from.shape == shape) return;
    Shape dims;
    for (int d = 0; d < from.ndim(); ++d) dims.push_back(d + shape.ndim() - from.ndim());
    eqn.inputs[i] = reader.add(scope, broadcast_in_dim_p,
                               Params::of(BroadcastInDimParams{shape, dims}), {eqn.inputs[i]})[0];
  }
  void convert(std::size_t i, DType dtype) const {
    if (aval(i).dtype == dtype) return;
    eqn.inputs[i] = reader.add(scope, convert_element_type_p,
                               Params::of(ConvertParams{dtype, false}), {eqn.inputs[i]})[0];
  }
};

/// The whole numbers of a float's size.
DType whole_of(DType dtype) {
  return size_of(dtype) == 2 ? DType::i16 : size_of(dtype) == 4 ? DType::i32 : DType::i64;
}

// The total order of floats, -NaN < -inf < ... < -0 < 0 < ... < inf < NaN, is that of their bits as whole numbers, where the
// digits of negative ones are turned.
void prepare_total_order(const Preparation& p) {
  p.eqn.needs(2);
  for (std::size_t i = 0; i < 2; ++i) {
    p.broadcast(i, p.eqn.out_aval().shape);
    if (!is_float(p.aval(i).dtype)) continue;
    const Aval bits_aval = p.aval(i).with_dtype(whole_of(p.aval(i).dtype));
    const std::size_t size = size_of(bits_aval.dtype);
    const auto number = [&](std::int64_t n) {
      return p.reader.add(p.scope, broadcast_in_dim_p,
                          Params::of(BroadcastInDimParams{bits_aval.shape, {}}),
                          {Atom::literal(lax::scalar(n, bits_aval.dtype))})[0];
    };
    const auto combined = [&](const PrimitiveBase& with, const Atom& a, const Atom& b) {
      return p.reader.add(p.scope, with, Params::of(NoParams{}), {a, b})[0];
    };
    const Atom bits =
        p.reader.add(p.scope, bitcast_convert_type_p, Params::of(BitcastParams{bits_aval.dtype}),
                     {p.eqn.inputs[i]})[0];
    const auto digits = static_cast<int>(8 * size) - 1;
    const Atom sign = combined(shift_right_arithmetic_p, bits, number(digits));
    const Atom turned =
        combined(and_p, sign, number(std::numeric_limits<std::int64_t>::max() >> (63 - digits)));
    p.eqn.inputs[i] = combined(xor_p, bits, turned);
  }
}

void broadcast_from(const Preparation& p, std::size_t first) {
  for (std::size_t i = first; i < p.eqn.inputs.size(); ++i) p.broadcast(i, p.eqn.out_aval().shape);
}
void broadcast_all(const Preparation& p) { broadcast_from(p, 0); }
void broadcast_cases(const Preparation& p) { broadcast_from(p, 1); }

void prepare_clamp(const Preparation& p) {
  p.eqn.needs(3);
  p.broadcast(1, p.eqn.out_aval().shape);
}

// JAX multiplies operands of different dtypes into the result's.
void prepare_dot(const Preparation& p) {
  p.eqn.needs(2);
  if (p.aval(0).dtype == p.aval(1).dtype) return;
  for (std::size_t i = 0; i < 2; ++i) p.convert(i, p.eqn.out_aval().dtype);
}

void prepare_reshape(const Preparation& p) {
  p.eqn.needs(1);
  const auto dimensions = p.params.find("dimensions");
  if (dimensions == p.params.end()) return;
  if (!dimensions->is_null()) {
    const TransposeParams order{shape_member(p.params, "dimensions")};
    p.eqn.inputs[0] = p.reader.add(p.scope, transpose_p, Params::of(order), {p.eqn.inputs[0]})[0];
  }
  p.params.erase("dimensions");
}

void prepare_slice(const Preparation& p) {
  if (p.params.contains("strides") && p.params.at("strides").is_null()) p.params.erase("strides");
}

/// The integer that a member is, which may be written as text, as large ones are; nothing if it is none.
std::optional<std::string> integer_text(const Json& member) {
  if (member.is_number_integer()) return member.dump();
  if (!member.is_string()) return std::nullopt;
  const auto text = member.get<std::string>();
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  const bool is_integer =
      text.size() > sign && text.find_first_not_of("0123456789", sign) == text.npos;
  return is_integer ? std::optional(text) : std::nullopt;
}

// A fill value is one number for all dtypes. JAX names that of an integer dtype where nobody did: the highest unsigned one, the
// lowest signed one.
void prepare_gather(const Preparation& p) {
  const auto fill = p.params.find("fill_value");
  if (fill == p.params.end()) return;
  if (fill->is_boolean()) *fill = fill->get<bool>() ? 1 : 0;
  const auto text = integer_text(*fill);
  if (!text) return;
  const DType dtype = p.aval(0).dtype;
  if ((dtype == DType::u64 && *text == std::to_string(std::numeric_limits<std::uint64_t>::max())) ||
      (dtype == DType::i64 && *text == std::to_string(std::numeric_limits<std::int64_t>::min()))) {
    *fill = nullptr;
    return;
  }
  constexpr std::size_t kDigits = 16;  // of 2^53
  const std::string digits = text->substr(text->starts_with('-') ? 1 : 0);
  if (digits.size() > kDigits || std::stoull(digits) > std::uint64_t{1} << 53) {
    throw NotImplementedError("fill_value " + *text +
                              " is beyond 2^53; fill with a smaller number and select instead");
  }
}

// Each axis has one of copies before it, and is one with it in the end.
void prepare_tile(const Preparation& p) {
  p.eqn.needs(1);
  const Shape from = p.aval(0).shape, to = p.eqn.out_aval().shape;
  if (from.size() != to.size()) {
    throw ParseError("tile: the result has as many axes as the operand, which is of shape " +
                     from.to_string());
  }
  BroadcastInDimParams copies;
  for (std::size_t d = 0; d < from.size(); ++d) {
    copies.shape.push_back(from[d] == 0 ? 1 : to[d] / from[d]);
    copies.shape.push_back(from[d]);
    copies.broadcast_dimensions.push_back(static_cast<std::int64_t>(2 * d) + 1);
  }
  p.eqn.inputs =
      p.reader.add(p.scope, broadcast_in_dim_p, Params::of(std::move(copies)), p.eqn.inputs);
  p.params = {{"new_sizes", std::vector<std::int64_t>(to.begin(), to.end())}};
}

using Prepare = void (*)(const Preparation&);
const std::map<std::string, Prepare, std::less<>>& preparations() {
  static const std::map<std::string, Prepare, std::less<>> table = {
      {"select_n", broadcast_cases},  {"clamp", prepare_clamp},       {"dot_general", prepare_dot},
      {"lt_to", prepare_total_order}, {"le_to", prepare_total_order}, {"tile", prepare_tile},
      {"gather", prepare_gather},     {"reshape", prepare_reshape},   {"slice", prepare_slice}};
  return table;
}

// Elementwise primitives have operands of one shape once broadcasts are explicit.
bool wants_one_shape(const PrimitiveBase& primitive) {
  const Lowering* lowering = primitive.rules().lowering();
  return lowering != nullptr && std::holds_alternative<Lowering::Element>(lowering->form);
}

// JSON is close enough to the text of parameters that the parameters' own parser reads it.
Params read_params(const PrimitiveBase& primitive, const Json& params) {
  ParamsText text;
  for (const auto& [key, value] : params.items()) text.fields.emplace_back(key, value.dump());
  text.ignored = kIgnored;
  return primitive.rules().parse_params(text);
}

// Calls are read by call_readers; those of our own that JAX lacks have no form in a file.
bool holds_programs(const PrimitiveBase& primitive) {
  return !primitive.rules().parse_params || !primitive.rules().parse_params({}).jaxprs().empty();
}

}  // namespace

Atoms read_primitive(ProgramReader& reader, Scope& scope, FileEqn eqn) {
  Json params = eqn.params;
  const auto update = params.find("update_jaxpr");
  if (eqn.name.starts_with("scatter") && update != params.end() && !update->is_null())
    return reader.missing(scope, eqn.name + " with update_jaxpr", eqn.out_avals);
  const auto other = kOtherNames.find(eqn.name);
  const PrimitiveBase* found =
      PrimitiveBase::find(other == kOtherNames.end() ? eqn.name : other->second);
  if (!found || holds_programs(*found)) return reader.missing(scope, eqn.name, eqn.out_avals);
  if (const auto prepare = preparations().find(eqn.name); prepare != preparations().end())
    prepare->second({reader, scope, eqn, params});
  else if (eqn.inputs.size() > 1 && wants_one_shape(*found))
    broadcast_all({reader, scope, eqn, params});
  return reader.add(scope, *found, read_params(*found, params), std::move(eqn.inputs));
}

}  // namespace interop
}  // namespace v1
}  // namespace telamon
