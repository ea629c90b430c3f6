// Splitting a scan into a known loop and one that waits for the unknown inputs.
//
// The known loop computes what it can and gives, as further rows, the residuals that change from
// step to step; those that do not are computed once, in front of it. The staged loop reads the former
// row by row and takes the latter as consts. Which carry components are unknown is a fixed point.
#include <algorithm>

#include "control_flow/scan.hpp"
#include "jaxpr/builder.hpp"

namespace telamon {
inline namespace v1 {
namespace control_flow {
namespace {

// Where a residual of the body comes from, seen from outside the loop.
struct Source {
  enum class Kind : std::uint8_t { operand, rows, result, hoisted } kind;
  std::size_t
      index;  // operand: of the known ones; result: a known row result; rows, hoisted: which
};

class ScanSplitter {
 public:
  ScanSplitter(const ScanParams& p, const Mask& unknown_in, const Mask& instantiate_out,
               const Policy& policy)
      : source_(p), unknown_in_(unknown_in), n_(p), p_(without_unchanged(p)), m_(p_) {
    unknown_ = taken(unknown_in, to_source_);
    Mask wanted(m_.outputs(), false);
    for (std::size_t i = 0; i < m_.outputs(); ++i) {
      const bool forced = instantiate_out[out_to_source_[i]];
      if (i < m_.carry && forced) unknown_[m_.consts + i] = true;
      wanted[i] = forced;
    }
    find_fixed_point(wanted, policy);
    hoist();
    place_residuals();
  }

  PartialEvalResult split() {
    PartialEvalResult r;
    r.unknown_out.assign(n_.outputs(), false);
    for (const std::size_t i : unchanged_) r.unknown_out[i] = unknown_in_[n_.consts + i];
    for (std::size_t i = 0; i < m_.outputs(); ++i)
      r.unknown_out[out_to_source_[i]] = body_->unknown_out[i];
    r.known_program = known_program(r);
    list_residuals(r);
    r.staged_program = staged_program(r);
    return r;
  }

 private:
  // Carry components that the body gives back as they came are consts.
  ScanParams without_unchanged(const ScanParams& p) {
    Order carry, carry_out;
    for (std::size_t i = 0; i < n_.carry; ++i) {
      const Atom& out = p.jaxpr.outs()[i];
      const bool same = out.is_var() && out.var() == static_cast<Var>(n_.consts + i);
      if (same) unchanged_.push_back(i);
      else carry_out.push_back(i), carry.push_back(n_.consts + i);
    }
    Order consts = counting(0, n_.consts);
    for (const std::size_t i : unchanged_) consts.push_back(n_.consts + i);
    to_source_ = joined({consts, carry, counting(n_.fixed(), n_.xs)});
    out_to_source_ = joined({carry_out, counting(n_.carry, n_.ys)});
    if (unchanged_.empty()) return p;
    return with_body(p, rearranged(p.jaxpr, to_source_, out_to_source_), consts.size(),
                     carry.size());
  }

  void find_fixed_point(Mask wanted, const Policy& policy) {
    for (bool stable = false; !stable;) {
      for (std::size_t i = 0; i < m_.carry; ++i) wanted[i] = unknown_[m_.consts + i];
      body_ = policy ? detail::split_jaxpr(p_.jaxpr, unknown_, wanted, policy)
                     : detail::partial_eval_jaxpr(p_.jaxpr, unknown_, wanted);
      stable = true;
      for (std::size_t i = 0; i < m_.carry; ++i) {
        if (!body_->unknown_out[i] || unknown_[m_.consts + i]) continue;
        unknown_[m_.consts + i] = true;
        stable = false;
      }
    }
    const auto known_of = [&](std::size_t begin, std::size_t count) {
      const auto first = unknown_.begin() + static_cast<std::ptrdiff_t>(begin);
      return static_cast<std::size_t>(
          std::count(first, first + static_cast<std::ptrdiff_t>(count), false));
    };
    known_consts_ = known_of(0, m_.consts);
    known_carry_ = known_of(m_.consts, m_.carry);
    known_xs_ = known_of(m_.fixed(), m_.xs);
    known_ys_ = static_cast<std::size_t>(
        std::count(body_->unknown_out.begin() + static_cast<std::ptrdiff_t>(m_.carry),
                   body_->unknown_out.end(), false));
  }

  // Splits the known body again: what depends only on consts is computed once.
  void hoist() {
    const std::size_t outs = known_carry_ + known_ys_, fresh = body_->fresh_avals.size();
    Mask steps(known_consts_, false), in_loop(outs, true);
    steps.resize(known_consts_ + known_carry_ + known_xs_, true);
    in_loop.resize(outs + fresh, false);
    hoisted_ = detail::hoist_jaxpr(body_->known, steps, in_loop);
  }

  // Residuals of the body by where they are found; new rows that the known loop has to give.
  void place_residuals() {
    const Order loop_fresh = places(hoisted_->unknown_out, true);
    const Order once_fresh = places(hoisted_->unknown_out, false);
    const std::size_t outs = known_carry_ + known_ys_;
    const auto index_in = [](const Order& order, std::size_t i) {
      return static_cast<std::size_t>(std::find(order.begin(), order.end(), i) - order.begin());
    };
    for (const Residual& r : body_->residuals) {
      const auto i = static_cast<std::size_t>(r.index);
      if (r.kind == Residual::Kind::input) {
        if (i < known_consts_ || i >= known_consts_ + known_carry_)
          sources_.push_back({Source::Kind::operand, i});
        else add_rows({true, i - known_consts_});
      } else if (r.kind == Residual::Kind::output) {
        if (i >= known_carry_) sources_.push_back({Source::Kind::result, i - known_carry_});
        else add_rows({false, i});
      } else if (hoisted_->unknown_out[outs + i]) {
        add_rows({false, index_in(loop_fresh, outs + i)});
      } else {
        sources_.push_back({Source::Kind::hoisted, index_in(once_fresh, outs + i)});
      }
    }
  }
  struct Row {
    bool carry_in;      // the carry before the step; else a result of the known body
    std::size_t index;  // of the known carry, or of the body's results
  };
  void add_rows(Row row) {
    sources_.push_back({Source::Kind::rows, rows_.size()});
    rows_.push_back(row);
  }

  // The known body with the residual rows as results.
  Jaxpr loop_body() const {
    const Jaxpr& staged = hoisted_->staged;
    detail::JaxprBuilder builder;
    Atoms inputs;
    for (const Aval& aval : staged.in_avals()) inputs.push_back(Atom::var(builder.add_input(aval)));
    const Atoms results = builder.inline_jaxpr(staged, inputs);
    Atoms outs = taken(results, counting(0, known_carry_ + known_ys_));
    for (const Row& row : rows_) {
      outs.push_back(row.carry_in ? inputs[hoisted_->residuals.size() + row.index]
                                  : results[row.index]);
    }
    return builder.build(std::move(outs)).jaxpr;
  }

  Jaxpr known_program(const PartialEvalResult& r) const {
    std::vector<Aval> avals;
    Order number(n_.inputs(), 0);  // of each known operand of the source
    for (const std::size_t i : places(unknown_in_, false)) {
      number[i] = avals.size();
      avals.push_back(operand_aval(i));
    }
    const ClosedJaxpr program = detail::stage_flat(
        [&](std::span<const Array> args) {
          Arrays known;  // operands of the known loop
          for (const std::size_t i : places(unknown_, false))
            known.push_back(args[number[to_source_[i]]]);
          const Arrays consts = taken(known, counting(0, known_consts_));
          const Arrays once = eval_jaxpr(hoisted_->known, consts);
          Arrays operands;
          for (const Residual& h : hoisted_->residuals) {
            const auto i = static_cast<std::size_t>(h.index);
            const bool fresh = h.kind == Residual::Kind::fresh;
            const std::size_t first_fresh = once.size() - hoisted_->fresh_avals.size();
            operands.push_back(h.kind == Residual::Kind::input ? consts[i]
                               : fresh                         ? once[first_fresh + i]
                                                               : once[i]);
          }
          append(operands, taken(known, counting(known_consts_, known_carry_ + known_xs_)));
          Arrays outs;
          if (known_carry_ + known_ys_ + rows_.size() > 0 || body_->known.effect() != Effect::none)
            outs = scan_p.bind(with_body(p_, loop_body(), hoisted_->residuals.size(), known_carry_),
                               operands);
          Arrays results(n_.outputs());
          for (const std::size_t i : unchanged_) {
            if (!unknown_in_[n_.consts + i]) results[i] = args[number[n_.consts + i]];
          }
          std::size_t next = 0;
          for (std::size_t i = 0; i < m_.outputs(); ++i) {
            if (!body_->unknown_out[i]) results[out_to_source_[i]] = outs[next++];
          }
          results = taken(results, places(r.unknown_out, false));
          append(results, taken(outs, counting(next, rows_.size())));
          for (const Source& s : sources_) {
            if (s.kind == Source::Kind::hoisted) results.push_back(once[s.index]);
          }
          return results;
        },
        avals);
    return program.jaxpr;
  }

  // Residuals of the whole: those of the body, then initial values of carry that becomes unknown.
  void list_residuals(PartialEvalResult& r) {
    const Order known_in = places(unknown_in_, false);
    const auto operand = [&](std::size_t i) {
      const auto at = std::find(known_in.begin(), known_in.end(), i) - known_in.begin();
      return Residual{Residual::Kind::input, static_cast<int>(at)};
    };
    const Order known = places(unknown_, false), known_out = places(body_->unknown_out, false);
    const Order results = places(r.unknown_out, false);
    const auto num_known_out = results.size();
    int num_hoisted = 0;
    for (const Source& s : sources_) {
      switch (s.kind) {
        case Source::Kind::operand:
          r.residuals.push_back(operand(to_source_[known[s.index]]));
          break;
        case Source::Kind::result: {
          const std::size_t out = out_to_source_[known_out[known_carry_ + s.index]];
          const auto at = std::find(results.begin(), results.end(), out) - results.begin();
          r.residuals.push_back({Residual::Kind::output, static_cast<int>(at)});
          break;
        }
        case Source::Kind::rows:
          r.residuals.push_back({Residual::Kind::fresh, static_cast<int>(s.index)});
          break;
        case Source::Kind::hoisted:
          r.residuals.push_back(
              {Residual::Kind::invariant, static_cast<int>(rows_.size()) + num_hoisted++});
          break;
      }
    }
    const std::vector<Aval> outs = r.known_program->out_avals();
    r.fresh_avals.assign(outs.begin() + static_cast<std::ptrdiff_t>(num_known_out), outs.end());
    for (std::size_t i = 0; i < m_.carry; ++i) {
      const std::size_t from = to_source_[m_.consts + i];
      if (unknown_[m_.consts + i] && !unknown_in_[from]) r.residuals.push_back(operand(from));
    }
  }

  Jaxpr staged_program(const PartialEvalResult& r) const {
    const std::size_t num_residuals = sources_.size();
    const Order known_in = places(unknown_in_, false), known = places(unknown_, false);
    // Which residuals of the body are rows.
    Order consts, rows;
    for (std::size_t i = 0; i < num_residuals; ++i) {
      const Source& s = sources_[i];
      const bool constant = s.kind == Source::Kind::hoisted ||
                            (s.kind == Source::Kind::operand && s.index < known_consts_);
      (constant ? consts : rows).push_back(i);
    }
    // The staged body takes the residuals, then unknown consts, carry and rows.
    const std::size_t num_consts = m_.consts - known_consts_, num_carry = m_.carry - known_carry_;
    const std::size_t num_xs = m_.xs - known_xs_, begin = num_residuals;
    const Jaxpr body =
        rearranged(body_->staged,
                   joined({consts, counting(begin, num_consts + num_carry), rows,
                           counting(begin + num_consts + num_carry, num_xs)}),
                   counting(0, static_cast<std::size_t>(body_->staged.num_outputs())));

    std::vector<Aval> avals;
    const std::vector<Aval> known_out = r.known_program->out_avals();
    const std::size_t first_fresh = known_out.size() - r.fresh_avals.size();
    for (const Residual& residual : r.residuals) {
      const auto i = static_cast<std::size_t>(residual.index);
      avals.push_back(residual.kind == Residual::Kind::input    ? operand_aval(known_in[i])
                      : residual.kind == Residual::Kind::output ? known_out[i]
                                                                : known_out[first_fresh + i]);
    }
    Order number(n_.inputs(), 0);  // of each unknown operand of the source
    for (const std::size_t i : places(unknown_in_)) {
      number[i] = avals.size();
      avals.push_back(operand_aval(i));
    }
    std::size_t next_init = num_residuals;
    for (std::size_t i = 0; i < m_.carry; ++i) {
      const std::size_t from = to_source_[m_.consts + i];
      if (unknown_[m_.consts + i] && !unknown_in_[from]) number[from] = next_init++;
    }
    const ClosedJaxpr program = detail::stage_flat(
        [&](std::span<const Array> args) {
          Arrays operands = taken(args, consts);
          const auto add_unknown = [&](std::size_t first, std::size_t count) {
            for (std::size_t i = first; i < first + count; ++i) {
              if (unknown_[i]) operands.push_back(args[number[to_source_[i]]]);
            }
          };
          add_unknown(0, m_.fixed());
          append(operands, taken(args, rows));
          add_unknown(m_.fixed(), m_.xs);
          Arrays outs;
          if (body.num_outputs() > 0)
            outs =
                scan_p.bind(with_body(p_, body, consts.size() + num_consts, num_carry), operands);
          Arrays results(n_.outputs());
          for (const std::size_t i : unchanged_) {
            if (unknown_in_[n_.consts + i]) results[i] = args[number[n_.consts + i]];
          }
          std::size_t next = 0;
          for (std::size_t i = 0; i < m_.outputs(); ++i) {
            if (body_->unknown_out[i]) results[out_to_source_[i]] = outs[next++];
          }
          return taken(results, places(r.unknown_out));
        },
        avals);
    return program.jaxpr;
  }

  Aval operand_aval(std::size_t i) const {
    const Aval& aval = source_.jaxpr.in_avals()[i];
    return i < n_.fixed() ? aval : stacked(aval, source_.length);
  }

  const ScanParams& source_;
  const Mask& unknown_in_;
  const ScanShape n_;
  Order unchanged_;                  // carry components of the source
  Order to_source_, out_to_source_;  // inputs and results of p_ as numbers of the source's
  const ScanParams p_;
  const ScanShape m_;
  Mask unknown_;  // inputs of p_
  std::shared_ptr<const detail::PartialEvalJaxpr> body_, hoisted_;
  std::size_t known_consts_ = 0, known_carry_ = 0, known_xs_ = 0, known_ys_ = 0;
  std::vector<Source> sources_;  // of the body's residuals
  std::vector<Row> rows_;
};

}  // namespace

PartialEvalResult split_scan(const ScanParams& p, const Jaxpr&, const Eqn&, const Mask& unknown_in,
                             const Mask& instantiate_out, const Policy& policy) {
  const auto compute = [&] { return ScanSplitter(p, unknown_in, instantiate_out, policy).split(); };
  if (policy) return compute();
  const std::string key = "scan.split:" + loop_text(p) + detail::mask_text(unknown_in) + ":" +
                          detail::mask_text(instantiate_out);
  return *p.jaxpr.memo<PartialEvalResult>(key, compute);
}

}  // namespace control_flow
}  // namespace v1
}  // namespace telamon
