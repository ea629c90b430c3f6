// Folds of quotients and roots: each trip divides for the one after it.
//
// Division takes as long as ten other operations, and what follows waits for it where the processor
// keeps what it looks ahead at. There is room for a hundred vector operations, which is less than two
// trips of a loop over pairs of points: dividers stand still. Split in two, a trip first begins what the
// next one divides, and then does what follows with quotients that have been there for a while:
//
//   for (i = 0; i < n; ++i) s += f(1 / sqrt(g(x[i])));
//   ->  q = 1 / sqrt(g(x[0]));
//       for (i = 0; i < n; ++i) { r = q;  q = 1 / sqrt(g(x[min(i + 1, n - 1)]));  s += f(r); }
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicInst.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "compiler/codegen/codegen_impl.hpp"
#include "runtime/target_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using llvm::Instruction;
using llvm::PHINode;
using llvm::Value;

constexpr std::int64_t kLeastTrips = 16;  // one more is begun than there are
constexpr int kMostInstructions = 256;
constexpr int kLeastAfter = 4;  // vector instructions for each: fewer do not fill the processor

// Integers are divided as floating point of up to twice their size, in several registers: nothing is held for these.
bool takes_long(const Instruction& x) {
  const auto bits = static_cast<std::size_t>(x.getType()->getPrimitiveSizeInBits());
  if (!x.getType()->isVectorTy() || bits > 8 * runtime::target_vector_bytes()) return false;
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&x);
  return x.getOpcode() == Instruction::FDiv ||
         (call != nullptr && call->getIntrinsicID() == llvm::Intrinsic::sqrt);
}
/// Addresses, loads and conditions are not kept for the next trip; the results of masked loads are.
bool is_repeated(const Instruction& x) {
  return llvm::isa<llvm::LoadInst>(x) || !x.getType()->isVectorTy() ||
         x.getType()->getScalarType()->isIntegerTy(1);
}

/// The halves of a loop: what is begun a trip ahead, and what of it the other half needs.
class Halves {
 public:
  explicit Halves(const CodeGen::Impl::ClosedLoop& loop) : loop_(loop) {}

  /// False where the loop is better left as it is.
  bool find() {
    if (loop_.end - loop_.begin < kLeastTrips * loop_.step) return false;
    std::vector<Instruction*> todo;
    std::set<const Value*> fixed;  // computed from what the loop carries, or after a store
    bool stored = false;
    int carried = 0, all = 0;
    for (Instruction& x : *loop_.block) {
      if (llvm::isa<PHINode>(x)) {
        if (&x == loop_.i) continue;
        fixed.insert(&x);
        ++carried;
        continue;
      }
      ++all;
      stored = stored || x.mayWriteToMemory();
      const bool depends =
          std::any_of(x.op_begin(), x.op_end(), [&](const Value* v) { return fixed.contains(v); });
      if (depends || x.mayWriteToMemory() || (stored && x.mayReadFromMemory())) fixed.insert(&x);
      else if (takes_long(x)) todo.push_back(&x);
    }
    if (todo.empty() || all > kMostInstructions) return false;
    quotients_ = static_cast<int>(todo.size());
    while (!todo.empty()) {
      Instruction* x = todo.back();
      todo.pop_back();
      if (!ahead_.insert(x).second) continue;
      for (Value* v : x->operands()) {
        if (is_inside(v)) todo.push_back(llvm::cast<Instruction>(v));
      }
    }
    return find_kept() &&
           carried + static_cast<int>(kept_.size()) <= runtime::target_vector_registers() / 2;
  }

  bool is_ahead(const Instruction* x) const { return ahead_.contains(x); }
  bool is_used_after(const Value* x) const {
    const auto* i = llvm::dyn_cast<Instruction>(x);
    return i != nullptr && after_.contains(i);
  }
  const std::vector<Instruction*>& kept() const { return kept_; }

 private:
  bool is_inside(const Value* v) const {
    const auto* x = llvm::dyn_cast<Instruction>(v);
    return x != nullptr && x->getParent() == loop_.block && !llvm::isa<PHINode>(x);
  }

  bool find_kept() {
    // What is done again in the other half belongs to both.
    int after = 0;
    for (auto x = loop_.block->rbegin(); x != loop_.block->rend(); ++x) {
      if (llvm::isa<PHINode>(*x)) continue;
      const bool again = ahead_.contains(&*x) && is_repeated(*x) &&
                         std::any_of(x->user_begin(), x->user_end(),
                                     [&](const Value* u) { return is_used_after(u); });
      if (!ahead_.contains(&*x) || again) after_.insert(&*x);
      if (!ahead_.contains(&*x) && x->getType()->isVectorTy()) ++after;
    }
    for (Instruction& x : *loop_.block) {
      if (!ahead_.contains(&x)) continue;
      const auto is_phi = [&](const Value* u) { return llvm::isa<PHINode>(u); };
      if (std::any_of(x.user_begin(), x.user_end(), is_phi)) return false;
      const bool needed = std::any_of(x.user_begin(), x.user_end(),
                                      [&](const Value* u) { return is_used_after(u); });
      if (needed && !is_repeated(x)) kept_.push_back(&x);
    }
    return after >= kLeastAfter * quotients_;
  }

  const CodeGen::Impl::ClosedLoop& loop_;
  std::set<const Instruction*> ahead_, after_;
  std::vector<Instruction*> kept_;
  int quotients_ = 0;
};

/// An instruction of no code that takes the quotients of both trips: LLVM, which orders a block by the
/// registers that are in use, would bring the divisions back to behind what follows them.
void divide_before_use([[maybe_unused]] llvm::IRBuilder<>& b,
                       [[maybe_unused]] const std::vector<Instruction*>& kept,
                       [[maybe_unused]] std::map<const Instruction*, Value*>& here) {
#ifdef __x86_64__
  for (const Instruction* x : kept) {
    if (!takes_long(*x)) continue;
    auto* phi = llvm::cast<PHINode>(here.at(x));
    Value* next = phi->getIncomingValueForBlock(phi->getParent());
    llvm::Type* type = x->getType();
    auto* both = llvm::StructType::get(type, type);
    auto* fence = llvm::InlineAsm::get(llvm::FunctionType::get(both, {type, type}, false), "",
                                       "=v,=v,0,1", true);
    Value* pair = b.CreateCall(fence, {phi, next});
    here[x] = b.CreateExtractValue(pair, 0);
    phi->setIncomingValueForBlock(phi->getParent(), b.CreateExtractValue(pair, 1));
  }
#endif
}

}  // namespace

void CodeGen::Impl::divide_ahead(const ClosedLoop& loop) {
  Halves halves(loop);
  if (!halves.find()) return;
  std::vector<Instruction*> ahead;
  for (Instruction& x : *loop.block) {
    if (halves.is_ahead(&x)) ahead.push_back(&x);
  }
  const auto begun = [&](Instruction* before, Value* i) {
    std::map<const Value*, Value*> made = {{loop.i, i}};
    for (const Instruction* x : ahead) {
      Instruction* copy = x->clone();
      for (llvm::Use& operand : copy->operands()) {
        if (const auto found = made.find(operand.get()); found != made.end())
          operand.set(found->second);
      }
      copy->insertBefore(before);
      made[x] = copy;
    }
    return made;
  };
  const auto first =
      begun(loop.before->getTerminator(), b.getInt64(static_cast<std::uint64_t>(loop.begin)));
  // The last trip begins its own once more.
  llvm::IRBuilder<> top(loop.block, loop.block->getFirstNonPHIIt());
  Value* next = top.CreateAdd(loop.i, top.getInt64(static_cast<std::uint64_t>(loop.step)));
  next = top.CreateBinaryIntrinsic(
      llvm::Intrinsic::smin, next,
      top.getInt64(static_cast<std::uint64_t>(loop.begin + (loop.end - 1 - loop.begin) / loop.step *
                                                               loop.step)));
  const auto following = begun(&*top.GetInsertPoint(), next);
  std::map<const Instruction*, Value*> here;
  for (Instruction* x : halves.kept()) {
    auto* phi = PHINode::Create(x->getType(), 2, "ahead", loop.i->getIterator());
    phi->addIncoming(first.at(x), loop.before);
    phi->addIncoming(following.at(x), loop.block);
    here[x] = phi;
  }
  divide_before_use(top, halves.kept(), here);
  for (Instruction* x : halves.kept()) {
    x->replaceUsesWithIf(here.at(x),
                         [&](const llvm::Use& use) { return halves.is_used_after(use.getUser()); });
  }
  for (auto x = ahead.rbegin(); x != ahead.rend(); ++x) {
    if ((*x)->use_empty()) (*x)->eraseFromParent();
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
