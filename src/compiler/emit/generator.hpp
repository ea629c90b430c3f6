// Generator: the value of any variable of a kernel at any index, by composing the lowering rules of
// the equations fused into it. Composition is fusion.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "compiler/plan/plan.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

/// Large values that the next tile reads as this one does, each with how many of its elements lie between the two.
using NextTile = std::map<int, std::int64_t>;

/// An element of an array: by all its indices, by its row-major number, or both.
struct Point {
  Shape shape;
  std::optional<Index> indices;
  std::optional<Scalar> flat;
};

class Generator {
 public:
  virtual ~Generator() = default;
  Generator(CodeGen& gen, const Plan& plan, const Scope& scope, const Kernel& kernel,
            const std::vector<int>& producer)
      : gen_(gen), plan_(plan), scope_(scope), kernel_(kernel), producer_(producer) {}

  /// Emits what it takes to have the element; the same element is emitted once per loop level.
  Scalar operator()(const Atom& atom, const Point& at);
  Scalar operator()(Var v, const Point& at);
  /// Makes the value known: what a reduction has folded.
  void define(Var v, const Point& at, Scalar value);
  /// The value in memory that has all elements of this one in the same order; -1 if the kernel computes them.
  int in_memory(Var v) const;
  /// The elements of whole rows of `k`, which lie there one after the other: of each lane's row, by columns.
  Scalars columns(Var v, const Point& first, int k);
  /// Where vectors of these values are read, the same of the next tile is asked for.
  void ask_for(const NextTile& next) { next_ = &next; }
  /// What an equation of the form `index` would have at these indices with other parameters.
  Scalar with_params(const Eqn& eqn, const Params& params, const Index& at);
  /// Stores an element of a value in memory.
  void store(int value, const Point& at, Scalar x);
  /// The same of a whole row of a concatenation, of which `at` knows all indices but the last, or of parts that lie one after
  /// the other.
  void store_columns(Var root, const Point& at, int k, const std::function<Scalar(int)>& column);
  Pointer pointer(int value) {
    return gen_.pointer(plan_.values[static_cast<std::size_t>(value)].location);
  }

  Scalar flat(const Point& at);
  Index indices(const Point& at);
  /// The same element seen in another shape of equal size.
  Point reshaped(const Point& at, const Shape& shape);
  Scalar literal(const Array& scalar);

 protected:
  /// A variable that no member computes: read from memory.
  virtual Scalar outside(Var v, const Point& at);
  /// Whether `outside` reads the elements of whole arrays.
  virtual bool reads_arrays() const { return true; }
  /// An equation that kernels do not fuse.
  virtual Scalar other(const Eqn& eqn, Var v, const Point& at);
  CodeGen& gen() { return gen_; }
  const Jaxpr& jaxpr() const { return scope_.jaxpr; }

 private:
  struct Key {
    Var var;
    int active;  // lanes: those beyond were not loaded
    std::vector<void*> index;
    auto operator<=>(const Key&) const = default;
  };
  Key key(Var v, const Point& at) const;
  std::optional<Scalar> column_at(const Eqn& eqn, const Point& at);
  std::optional<Scalar> only_part(const Eqn& eqn, const Point& at);
  std::optional<Scalar> column_of_steps(const Eqn& eqn, const Point& at);
  std::optional<Scalar> column_looked_up(const Eqn& eqn, Var v, const Point& at);
  std::vector<Source> sources_of(const Eqn& eqn);
  std::int64_t slices_of(int value);
  std::optional<Index> split_constants(const Point& at, const Shape& shape);
  Scalar compute(const Eqn& eqn, Var v, const Point& at);
  Scalar element(const Eqn& eqn, Var v, const Point& at);
  Scalar at_index(const Eqn& eqn, Var v, const Point& at);
  void ask_for_next(int value, Scalar index);

  CodeGen& gen_;
  const Plan& plan_;
  const Scope& scope_;
  const Kernel& kernel_;
  const std::vector<int>& producer_;
  std::map<Key, Scalar> known_;
  std::map<int, std::int64_t> slices_;  // by value
  const NextTile* next_ = nullptr;
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
