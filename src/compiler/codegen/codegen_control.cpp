// Control in CodeGen: loops that carry values, branches, regions.
#include <llvm/IR/MDBuilder.h>

#include "compiler/codegen/codegen_impl.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

using llvm::Value;

CodeGen::Impl::Carried CodeGen::Impl::open_phis(const Scalars& init,
                                                const std::vector<Value*>& initial,
                                                llvm::BasicBlock* before) {
  Carried carried;
  for (std::size_t k = 0; k < init.size(); ++k) {
    auto* phi = b.CreatePHI(initial[k]->getType(), 2);
    phi->addIncoming(initial[k], before);
    carried.phis.push_back(phi);
    carried.scalars.emplace_back(make(phi, depth()), init[k].dtype());
  }
  return carried;
}

Scalars CodeGen::loop_carried(
    Scalar begin, Scalar end, std::int64_t step, Scalars init,
    const std::function<Scalars(Scalar i, const Scalars& carried)>& body) {
  return carry(begin, end, step, std::move(init), body, Ahead::nothing, Entry::asked);
}

Scalars CodeGen::loop_ahead(Scalar begin, Scalar end, std::int64_t step, Scalars init,
                            const std::function<Scalars(Scalar i, const Scalars& carried)>& body) {
  return carry(begin, end, step, std::move(init), body, Ahead::quotients, Entry::asked);
}

void CodeGen::loop_entered(Scalar begin, Scalar end, std::int64_t step,
                           const std::function<void(Scalar i)>& body) {
  const auto trip = [&](Scalar i, const Scalars&) {
    body(i);
    return Scalars{};
  };
  carry(begin, end, step, {}, trip, Ahead::nothing, Entry::certain);
}

// A loop of one trip is none. The trip's level is gone after it, but its code comes before all that follows.
Scalars CodeGen::only_trip(Scalar begin, const Scalars& init,
                           const std::function<Scalars(Scalar i, const Scalars& carried)>& body) {
  Impl& m = *impl_;
  const int outer = m.depth();
  Scalars out;
  region([&] { out = body(begin, init); });
  for (Scalar& x : out) {
    const Node* n = node_of(x);
    x = Scalar(m.live(n) ? x.value() : m.make(n->value, outer, n->stride), x.dtype());
  }
  return out;
}

Scalars CodeGen::carry(Scalar begin, Scalar end, std::int64_t step, Scalars init,
                       const std::function<Scalars(Scalar i, const Scalars& carried)>& body,
                       Ahead ahead, Entry entry) {
  Impl& m = *impl_;
  const int outer = m.depth();
  const std::optional<KnownBounds> known = known_bounds(begin, end);
  if (known && known->first >= known->last) return init;
  if (known && known->first + step >= known->last) return only_trip(begin, init, body);
  std::vector<int> widths;
  for (const Scalar s : init) widths.push_back(m.width(node_of(s)));
  m.at(outer);
  llvm::BasicBlock* before = m.b.GetInsertBlock();
  llvm::BasicBlock* loop = m.block("loop");
  llvm::BasicBlock* exit = m.block("done");
  Value* stop = node_of(end)->value;
  std::vector<Value*> initial;
  for (std::size_t k = 0; k < init.size(); ++k)
    initial.push_back(m.as(node_of(init[k]), widths[k]));
  m.at(outer);
  if (known || entry == Entry::certain) m.b.CreateBr(loop);
  else m.b.CreateCondBr(m.b.CreateICmpSLT(node_of(begin)->value, stop), loop, exit);

  m.push_level(loop, false);
  m.b.SetInsertPoint(loop);
  auto* i = m.b.CreatePHI(m.b.getInt64Ty(), 2, "i");
  i->addIncoming(node_of(begin)->value, before);
  const auto [phis, carried] = m.open_phis(init, initial, before);
  const Scalar index(m.make(i, m.depth()), DType::i64);
  const Scalars next =
      body(known ? Impl::with_range(index, {known->first, known->last - 1}) : index, carried);
  std::vector<Value*> values;
  for (std::size_t k = 0; k < init.size(); ++k) values.push_back(m.as(node_of(next[k]), widths[k]));
  m.at(m.depth());
  Value* following =
      m.b.CreateAdd(i, m.b.getInt64(static_cast<std::uint64_t>(step)), "", true, true);
  llvm::BasicBlock* latch = m.b.GetInsertBlock();
  m.b.CreateCondBr(m.b.CreateICmpSLT(following, stop), loop, exit);
  i->addIncoming(following, latch);
  for (std::size_t k = 0; k < phis.size(); ++k) phis[k]->addIncoming(values[k], latch);
  if (ahead == Ahead::quotients && known && latch == loop)
    m.divide_ahead({before, loop, i, known->first, known->last, step});
  m.pop_level();

  m.levels.back().block = exit;
  m.b.SetInsertPoint(exit);
  Scalars out;
  for (std::size_t k = 0; k < init.size(); ++k) {
    auto* phi = m.b.CreatePHI(initial[k]->getType(), 2);
    if (!known) phi->addIncoming(initial[k], before);
    phi->addIncoming(values[k], latch);
    out.emplace_back(m.make(phi, outer), init[k].dtype());
  }
  return out;
}

Scalars CodeGen::loop_while(Scalars init,
                            const std::function<Scalar(const Scalars& carried)>& condition,
                            const std::function<Scalars(const Scalars& carried)>& body) {
  Impl& m = *impl_;
  const int outer = m.depth();
  std::vector<int> widths;
  std::vector<Value*> initial;
  for (const Scalar s : init) {
    widths.push_back(m.width(node_of(s)));
    initial.push_back(m.as(node_of(s), widths.back()));
  }
  m.at(outer);
  llvm::BasicBlock* before = m.b.GetInsertBlock();
  llvm::BasicBlock* head = m.block("while");
  llvm::BasicBlock* inside = m.block("do");
  llvm::BasicBlock* exit = m.block("done");
  m.b.CreateBr(head);

  m.push_level(head, false);
  m.b.SetInsertPoint(head);
  const auto [phis, carried] = m.open_phis(init, initial, before);
  const Scalar go_on = condition(carried);
  m.at(m.depth());
  m.b.CreateCondBr(node_of(go_on)->value, inside, exit);

  m.push_level(inside, false);
  const Scalars next = body(carried);
  std::vector<Value*> values;
  for (std::size_t k = 0; k < init.size(); ++k) values.push_back(m.as(node_of(next[k]), widths[k]));
  m.at(m.depth());
  llvm::BasicBlock* latch = m.b.GetInsertBlock();
  m.b.CreateBr(head);
  for (std::size_t k = 0; k < phis.size(); ++k) phis[k]->addIncoming(values[k], latch);
  m.pop_level();
  m.pop_level();

  m.levels.back().block = exit;
  Scalars out;
  for (std::size_t k = 0; k < init.size(); ++k)
    out.emplace_back(m.make(phis[k], outer), init[k].dtype());
  return out;
}

void CodeGen::Impl::inside(const std::function<void()>& body, bool pinned) {
  llvm::BasicBlock* inner = block("region");
  llvm::BasicBlock* after = block("after");
  at(depth());
  b.CreateBr(inner);
  push_level(inner, pinned);
  body();
  at(depth());
  b.CreateBr(after);
  pop_level();
  levels.back().block = after;
}
void CodeGen::region(const std::function<void()>& body) { impl_->inside(body, true); }
void CodeGen::scope(const std::function<void()>& body) { impl_->inside(body, false); }

void CodeGen::loop(Scalar begin, Scalar end, const std::function<void(Scalar i)>& body) {
  loop_carried(begin, end, 1, {}, [&](Scalar i, const Scalars&) {
    body(i);
    return Scalars{};
  });
}

void CodeGen::if_then(Scalar condition, const std::function<void()>& then) {
  Impl& m = *impl_;
  llvm::BasicBlock* inside = m.block("then");
  llvm::BasicBlock* after = m.block("endif");
  m.at(m.depth());
  m.b.CreateCondBr(node_of(condition)->value, inside, after);
  m.push_level(inside, true);
  then();
  m.at(m.depth());
  m.b.CreateBr(after);
  m.pop_level();
  m.levels.back().block = after;
}

// The sides stay open until both are known: the wider one decides how wide a result is.
Scalars CodeGen::if_else(Scalar condition, const std::function<Scalars()>& then,
                         const std::function<Scalars()>& otherwise, Likely likely) {
  Impl& m = *impl_;
  const int outer = m.depth();
  llvm::BasicBlock* blocks[] = {m.block("then"), m.block("else")};
  llvm::BasicBlock* after = m.block("endif");
  m.at(outer);
  llvm::MDNode* weights =
      likely == Likely::either ? nullptr : llvm::MDBuilder(m.context).createUnlikelyBranchWeights();
  m.b.CreateCondBr(node_of(condition)->value, blocks[0], blocks[1], weights);
  Scalars results[2];
  llvm::BasicBlock* ends[2];
  for (int side = 0; side < 2; ++side) {
    m.push_level(blocks[side], true, true);
    results[side] = side == 0 ? then() : otherwise();
    ends[side] = m.levels.back().block;
    m.pop_level();
  }
  Scalars out;
  for (std::size_t k = 0; k < results[0].size(); ++k) {
    Node* nodes[] = {node_of(results[0][k]), node_of(results[1][k])};
    const int w = std::max(m.width(nodes[0]), m.width(nodes[1]));
    Value* in[2];
    for (int side = 0; side < 2; ++side) {
      m.b.SetInsertPoint(ends[side]);
      in[side] = w == 1 ? nodes[side]->value : m.widen(*nodes[side], w);
    }
    m.b.SetInsertPoint(after);
    auto* phi = m.b.CreatePHI(in[0]->getType(), 2);
    for (int side = 0; side < 2; ++side) phi->addIncoming(in[side], ends[side]);
    out.emplace_back(m.make(phi, outer), results[0][k].dtype());
  }
  for (llvm::BasicBlock* end : ends) {
    m.b.SetInsertPoint(end);
    m.b.CreateBr(after);
  }
  m.levels.back().block = after;
  return out;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
