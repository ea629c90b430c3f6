// What the emitters of steps share, and those of steps that are more than one kernel: tiles, and what loops carry.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/emit/emit.hpp"
#include "compiler/fusion/fuse.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// The values of a plan in the program that is emitted.
class StepContext {
 public:
  StepContext(CodeGen& gen, const Plan& plan) : gen(gen), plan(plan) {
    for (const Scope& s : plan.scopes) producers_.push_back(producers(s.jaxpr));
  }

  CodeGen& gen;
  const Plan& plan;

  const Value& value(int v) const { return plan.values[static_cast<std::size_t>(v)]; }
  Pointer pointer(int v) const { return gen.pointer(value(v).location); }
  /// Of the variables of a scope.
  const std::vector<int>& producers_of(int scope) const {
    return producers_[static_cast<std::size_t>(scope)];
  }
  KernelContext kernel(const Step& step, Scalar begin, Scalar end) const {
    const Scope& scope = plan.scopes[static_cast<std::size_t>(step.scope)];
    return {gen, plan, scope, step, producers_of(step.scope), begin, end};
  }
  /// A function of its own, whose name nothing else has.
  void begin_kernel(const std::string& name) {
    gen.begin_kernel(name + "_" + std::to_string(next_function_++));
  }

 private:
  std::vector<std::vector<int>> producers_;  // of each scope
  int next_function_ = 0;
};

/// Kernels that are done tile by tile, in one pass over rows or columns (emit_tiles.cpp).
class Tiles {
 public:
  Tiles(const StepContext& context, const Step& step) : c_(context), gen_(c_.gen), s_(step) {}

  /// What threads share: the tiles that add to the same partial results, else one each.
  std::int64_t num_parts() const;
  std::int64_t cost() const;
  /// Some of these parts; `emit` is told of each kernel.
  void emit(Scalar begin, Scalar end, const std::function<void(KernelContext&)>& emit) const;
  bool has_partials() const;
  /// Folds what the parts of the rows have left.
  void emit_end() const;

 private:
  std::int64_t trips_of_part() const;
  std::map<const Step*, NextTile> next_tiles() const;
  Scalar num_tiles(Scalar trips) const;
  KernelContext of_tile(const Step& k, Scalar low, Scalar high) const;

  const StepContext& c_;
  CodeGen& gen_;
  const Step& s_;
};

/// What is done for the carries and rows of loops (emit_carries.cpp). Views are pointers in memory, which loops move.
class Carries {
 public:
  enum class Chore : std::uint8_t { init, row, turn, alternate, pass_on, untouched, result };

  explicit Carries(StepContext& context) : c_(context), gen_(c_.gen) {}

  /// Functions for what is done for many carries of a loop: for each of them in a table.
  void outline(const Step& s);
  /// In the trip `trip` of those before `end`.
  void emit(const Step& s, Chore what, Scalar trip, Scalar end) const;

 private:
  struct Operands {
    std::vector<int> values;
    std::vector<std::int64_t> numbers;
  };
  Operands operands(const Step& s, Chore what, std::size_t n) const;
  void outline(const Step& s, Chore what);
  void emit_one(Chore what, std::span<const Pointer> at, std::span<const Scalar> numbers,
                Scalar trip, Scalar end) const;
  void point(Pointer slot, Scalar to) const { gen_.store(slot, DType::i64, gen_.index(0), to); }
  Scalar pointed_at(Pointer slot) const { return gen_.load_now(slot, DType::i64, gen_.index(0)); }

  StepContext& c_;
  CodeGen& gen_;
  std::map<std::pair<const Step*, Chore>, CodeGen::KernelCode> functions_;
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
