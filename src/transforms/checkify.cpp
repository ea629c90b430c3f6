// checkify: the interpreter. What is looked for is in checkify_checks.cpp, what becomes of calls and
// loops in checkify_calls.cpp.
#include "transforms/checkify.hpp"

#include <algorithm>

#include "control_flow/user_check.hpp"
#include "core/check.hpp"
#include "core/concrete.hpp"
#include "core/trace.hpp"
#include "telamon/lax.hpp"

namespace telamon {
inline namespace v1 {
namespace checkify_detail {

using control_flow::zeros_of;

namespace {
Array no_error() { return zeros_of({Shape(), DType::i32, false}); }
}  // namespace

// ---- sites and state -----------------------------------------------------------------------------

std::size_t Sites::slot_for(const Aval& aval, const std::vector<std::size_t>& taken) {
  std::size_t slot = 0;
  while (slot < slots.size() && (!slots[slot].same_type(aval) ||
                                 std::find(taken.begin(), taken.end(), slot) != taken.end()))
    ++slot;
  if (slot == slots.size()) slots.push_back(aval.strong());
  return slot;
}

Sites::Mapping Sites::add(const Sites& other) {
  Mapping mapping{static_cast<int>(sites.size()), {}};
  for (const Aval& aval : other.slots) mapping.slots.push_back(slot_for(aval, mapping.slots));
  for (detail::ErrorSite site : other.sites) {
    for (std::int64_t& slot : site.slots)
      slot = static_cast<std::int64_t>(mapping.slots[static_cast<std::size_t>(slot)]);
    sites.push_back(std::move(site));
  }
  return mapping;
}

ErrorState::ErrorState() : code_(no_error()) {}

ErrorState::ErrorState(Sites sites, std::span<const Array> flat)
    : sites_(std::move(sites)), code_(flat[0]), slots_(flat.begin() + 1, flat.end()) {}

void ErrorState::grow() {
  for (std::size_t i = slots_.size(); i < sites_.slots.size(); ++i)
    slots_.push_back(zeros_of(sites_.slots[i]));
}

Arrays ErrorState::flat() const {
  Arrays all{code_};
  all.insert(all.end(), slots_.begin(), slots_.end());
  return all;
}

void ErrorState::record(detail::ErrorSite site, const Array& failed, const Arrays& payload) {
  std::vector<std::size_t> used;
  for (const Array& x : payload) used.push_back(sites_.slot_for(x.aval(), used));
  site.slots.assign(used.begin(), used.end());
  sites_.sites.push_back(std::move(site));
  grow();
  const Array first = and_p.bind1({}, {failed, lax::eq(code_, no_error())});
  for (std::size_t i = 0; i < used.size(); ++i) {
    Array x = lax::stop_gradient(payload[i]);
    if (x.weak_type()) x = lax::convert_element_type(x, x.dtype());
    slots_[used[i]] = lax::select_n(first, Arrays{slots_[used[i]], x});
  }
  const auto number = static_cast<std::int64_t>(sites_.sites.size());
  code_ = lax::select_n(first, Arrays{code_, lax::scalar(number, DType::i32)});
}

void ErrorState::merge(const Sites& of_program, std::span<const Array> flat) {
  const Sites::Mapping mapping = sites_.add(of_program);
  grow();
  merge(mapping, flat);
}

void ErrorState::merge(const Sites::Mapping& mapping, std::span<const Array> flat) {
  const Array none = no_error();
  const Array first = and_p.bind1({}, {lax::ne(flat[0], none), lax::eq(code_, none)});
  for (std::size_t i = 0; i < mapping.slots.size(); ++i) {
    Array& slot = slots_[mapping.slots[i]];
    slot = lax::select_n(first, Arrays{slot, flat[1 + i]});
  }
  const Array number =
      mapping.offset == 0 ? flat[0] : lax::add(flat[0], lax::scalar(mapping.offset, DType::i32));
  code_ = lax::select_n(first, Arrays{code_, number});
}

// ---- programs ------------------------------------------------------------------------------------

namespace {

void check_by_user(const Eqn& eqn, std::span<const Array> args, ErrorState& state) {
  const auto& p = eqn.params.as<CheckParams>();
  detail::ErrorSite site;
  site.message = p.message + " (`check` failed)";
  site.where = eqn.where.to_string();
  Array failed = lax::bitwise_not(args[0]);
  Arrays values(args.begin() + 1, args.end());
  if (!p.lanes.empty()) {  // the first example that failed
    site.lanes.assign(p.lanes.begin(), p.lanes.end());
    const std::int64_t lanes = p.lanes.num_elements();
    if (lanes == 0) return;
    failed = lax::reshape(failed, {lanes});
    const Array lane = lax::argmax(lax::convert_element_type(failed, DType::i32), 0, DType::i32);
    for (Array& x : values) {
      Shape shape{lanes}, rest;
      for (std::size_t d = p.lanes.size(); d < x.shape().size(); ++d) {
        shape.insert(shape.size(), x.shape()[d]);
        rest.insert(rest.size(), x.shape()[d]);
      }
      x = lax::reshape(lax::dynamic_slice_in_dim(lax::reshape(x, shape), lane, 1), rest);
    }
    values.push_back(lane);
    failed = lax::reduce_or(failed, {0});
  }
  state.record(std::move(site), failed, values);
}

Arrays interpret(const Jaxpr& jaxpr, std::span<const Array> args, ErrorState& state,
                 Checks checks) {
  Arrays env(static_cast<std::size_t>(jaxpr.num_vars()));
  std::copy(args.begin(), args.end(), env.begin());
  const auto read = [&env](const Atom& a) -> const Array& {
    return a.is_var() ? env[static_cast<std::size_t>(a.var())] : a.literal();
  };
  for (const Eqn& eqn : jaxpr.eqns()) {
    const detail::EqnSite site(eqn.where);
    Arrays operands;
    for (const Atom& in : eqn.inputs) operands.push_back(read(in));
    if (eqn.primitive == &check_p) {
      if (contains(checks, user_checks)) check_by_user(eqn, operands, state);
      continue;
    }
    Arrays results;
    if (auto outs = checked_call(eqn, operands, state, checks)) {
      results = std::move(*outs);
    } else {
      check_operands(eqn, operands, state, checks);
      results = eqn.primitive->bind_erased(eqn.params, operands);
      check_results(eqn, results, state, checks);
    }
    for (std::size_t i = 0; i < results.size(); ++i)
      env[static_cast<std::size_t>(eqn.outputs[i])] = std::move(results[i]);
  }
  Arrays outs;
  for (const Atom& out : jaxpr.outs()) outs.push_back(read(out));
  return outs;
}

bool has_checks(const Jaxpr& jaxpr) { return count_eqns(jaxpr, "check") > 0; }

}  // namespace

std::shared_ptr<const CheckedProgram> checked_program(const Jaxpr& jaxpr, Checks checks) {
  const std::string key = "checkify:" + std::to_string(static_cast<int>(checks));
  return jaxpr.memo<CheckedProgram>(key, [&] {
    CheckedProgram result;
    const auto in = jaxpr.in_avals();
    ClosedJaxpr staged = detail::stage_flat(
        [&](std::span<const Array> args) {
          ErrorState state;
          const Arrays results = interpret(jaxpr, args, state, checks);
          result.sites = state.sites();
          Arrays outs = state.flat();
          outs.insert(outs.end(), results.begin(), results.end());
          return outs;
        },
        in);
    TELAMON_CHECK(staged.consts.empty(), "the checked form of a closed jaxpr captured a value");
    result.changed = !result.sites.sites.empty() || has_checks(jaxpr);
    if (result.changed) result.jaxpr = eliminate_dead_code(staged.jaxpr);
    return result;
  });
}

Jaxpr results_of(const CheckedProgram& program) {
  std::vector<bool> wanted(static_cast<std::size_t>(program.jaxpr.num_outputs()), true);
  std::fill_n(wanted.begin(), 1 + program.sites.slots.size(), false);
  return control_flow::with_inputs(
      program.jaxpr, dce_jaxpr(program.jaxpr, wanted),
      std::vector<bool>(static_cast<std::size_t>(program.jaxpr.num_inputs()), true));
}

Arrays error_of(const CheckedProgram& program, std::span<const Array> args) {
  if (!program.changed) return {no_error()};
  const std::size_t size = 1 + program.sites.slots.size();
  std::vector<bool> wanted(static_cast<std::size_t>(program.jaxpr.num_outputs()), false);
  std::fill_n(wanted.begin(), size, true);
  const Jaxpr error = control_flow::with_inputs(
      program.jaxpr, dce_jaxpr(program.jaxpr, wanted),
      std::vector<bool>(static_cast<std::size_t>(program.jaxpr.num_inputs()), true));
  return eval_jaxpr(error, args);
}

}  // namespace checkify_detail

// ---- for users -----------------------------------------------------------------------------------

namespace detail {

CheckedArrays checkify_arrays(const FlatFunction& f, std::span<const Array> args, Checks checks) {
  const std::vector<Aval> avals = avals_of(args);
  const ClosedJaxpr staged = stage_flat(f, avals, "checkify");
  Arrays operands = staged.consts;
  operands.insert(operands.end(), args.begin(), args.end());
  const auto program = checkify_detail::checked_program(staged.jaxpr, checks);
  CheckedArrays result;
  if (!program->changed) {
    result.error.code = checkify_detail::no_error();
    result.results = eval_jaxpr(staged.jaxpr, operands);
    return result;
  }
  const Arrays outs = eval_jaxpr(program->jaxpr, operands);
  const auto first = outs.begin() + 1;
  const auto behind = first + static_cast<std::ptrdiff_t>(program->sites.slots.size());
  result.error = {outs[0], {first, behind}, program->sites.sites};
  result.results.assign(behind, outs.end());
  return result;
}

namespace {

// The error of one example of a batch.
std::string text_of(const ErrorValue& error, std::int64_t number, std::int64_t example,
                    int batch_dims) {
  const ErrorSite& site = error.sites[static_cast<std::size_t>(number) - 1];
  Arrays values;
  for (const std::int64_t slot : site.slots) {
    const Array all = contiguous(
        concrete_value(error.payload[static_cast<std::size_t>(slot)], "the text of an error"));
    Shape shape;
    for (std::size_t d = static_cast<std::size_t>(batch_dims); d < all.shape().size(); ++d)
      shape.insert(shape.size(), all.shape()[d]);
    const auto bytes = static_cast<std::size_t>(shape.num_elements()) * size_of(all.dtype());
    values.push_back(make_from_data(data_of<char>(all) + static_cast<std::size_t>(example) * bytes,
                                    all.dtype(), shape));
  }
  std::string prefix;
  std::vector<std::string> texts;
  if (!site.axes.empty()) {  // the place of the index, and what it is
    const auto place = values[0].item<std::int64_t>();
    const std::int64_t axis = site.axes[static_cast<std::size_t>(place) % site.axes.size()];
    texts = {values[1].to_string(), std::to_string(axis),
             std::to_string(site.bounds[static_cast<std::size_t>(axis)])};
  } else {
    if (!site.lanes.empty()) {
      prefix = lane_text(values.back().item<std::int64_t>(), site.lanes);
      values.pop_back();
    }
    for (const Array& x : values) texts.push_back(x.to_string());
  }
  return prefix + format_message(site.message, texts);
}

}  // namespace
}  // namespace detail

std::optional<std::string> ErrorValue::get() const {
  const Array codes = detail::concrete_value(code, "the text of an error");
  const detail::EvalScope scope;
  const std::vector<std::int64_t> numbers = codes.to_vector<std::int64_t>();
  const std::vector<std::int64_t> batch(codes.shape().begin(), codes.shape().end());
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] == 0) continue;
    if (!text.empty()) text += "\n";
    const auto example = static_cast<std::int64_t>(i);
    if (!batch.empty()) text += detail::lane_text(example, batch);
    text += detail::text_of(*this, numbers[i], example, codes.ndim());
  }
  if (text.empty()) return std::nullopt;
  return text;
}

std::string ErrorValue::where() const {
  for (const std::int64_t number :
       detail::concrete_value(code, "the line of an error").to_vector<std::int64_t>()) {
    if (number != 0) return sites[static_cast<std::size_t>(number) - 1].where;
  }
  return {};
}

void ErrorValue::throw_() const {
  const auto text = get();
  if (!text) return;
  const std::string line = where();
  throw CheckError(*text + (line.empty() ? "" : "\n  found at " + line));
}

Array ErrorValue::is_error() const { return lax::ne(code, 0); }

}  // namespace v1
}  // namespace telamon
