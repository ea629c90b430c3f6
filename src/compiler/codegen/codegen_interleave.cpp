// Several trips side by side: chains of arithmetic whose operations wait for each other.
//
// A polynomial of ten terms takes 60 cycles from end to end, and its twenty instructions ten: to be busy
// all the time, a processor needs six trips at hand, which are more instructions than wait in its schedulers
// (Zen 4 keeps 64 there; horner10 takes 0.75 of the time with four trips side by side, 0.72 with eight).
// Written one instruction of each trip after the other, a few instructions are enough:
//
//   for (i = 0; i < n; i += 1) { a = x[i] * c;  y[i] = a + d; }
//   ->  for (i = 0; i + 2 <= n; i += 2) {
//         a = x[i] * c;  a' = x[i + 1] * c;
//         y[i] = a + d;  y[i + 1] = a' + d;
//       }
//       for (; i < n; i += 1) { a = x[i] * c;  y[i] = a + d; }
#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "compiler/codegen/codegen_impl.hpp"
#include "compiler/codegen/loop_body.hpp"
#include "runtime/target_isa.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using llvm::BasicBlock;
using llvm::Instruction;
using llvm::PHINode;
using llvm::Value;

constexpr int kMostTrips = 8;            // side by side
constexpr int kMostInstructions = 256;   // of all of them
constexpr int kEachCycle = 2;            // vector instructions that are done
constexpr int kWaiting = 32;             // cycles of a chain that processors overlap by themselves
constexpr std::int64_t kLeastTurns = 8;  // of the loop: others do not pay for compiling it

/// What a body takes.
struct Body {
  int instructions = 0, cycles = 0;  ///< of vectors; from the first to the last
  int live = 0, conditions = 0;      ///< the most values and conditions that are needed later
};

/// Nothing where trips cannot be done side by side: something is called, or read after it is written.
std::optional<Body> look_at(const BasicBlock& loop) {
  Body body;
  std::map<const Value*, int> ready;  // in cycles
  bool stored = false;
  for (const Instruction& x : loop) {
    if (llvm::isa<PHINode>(x)) continue;
    if (is_function_call(x) || (stored && x.mayReadFromMemory())) return std::nullopt;
    if (x.mayWriteToMemory()) stored = true;
    int start = 0;
    for (const Value* operand : x.operands()) {
      if (const auto found = ready.find(operand); found != ready.end())
        start = std::max(start, found->second);
    }
    ready[&x] = start + latency(x);
    body.cycles = std::max(body.cycles, start + latency(x));
    if (latency(x) > 0) ++body.instructions;
  }
  std::set<const Value*> live, conditions;
  for (const Instruction& x : llvm::reverse(loop)) {
    live.erase(&x);
    conditions.erase(&x);
    for (const Value* operand : x.operands()) {
      const auto* made = llvm::dyn_cast<Instruction>(operand);
      if (made == nullptr || !ready.contains(made) || !made->getType()->isVectorTy()) continue;
      (is_condition(*made) ? conditions : live).insert(made);
    }
    body.live = std::max(body.live, static_cast<int>(live.size()));
    body.conditions = std::max(body.conditions, static_cast<int>(conditions.size()));
  }
  return body;
}

/// How many trips are worth doing side by side, a power of two.
int trips_at_once(const Body& body, std::int64_t trips) {
  if (body.instructions == 0 || body.cycles <= kWaiting) return 1;
  constexpr int kOthers = 4,
                kMasks = 8;  // registers for constants; for conditions, where these have their own
  const int registers = runtime::target_vector_registers() - kOthers;
  const auto turns = static_cast<int>(std::min<std::int64_t>(trips / kLeastTurns, kMostTrips));
  const int most = std::min(
      {turns, kMostInstructions / body.instructions, body.cycles * kEachCycle / body.instructions,
       registers / std::max(body.live, 1), kMasks / std::max(body.conditions, 1)});
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(std::max(most, 1))));
}

}  // namespace

void CodeGen::Impl::interleave(const OpenLoop& loop, std::int64_t trips) {
  const std::optional<Body> body = look_at(*loop.block);
  const int n = body ? trips_at_once(*body, trips) : 1;
  if (n < 2) return;
  const auto number = [&](std::int64_t x) { return b.getInt64(static_cast<std::uint64_t>(x)); };
  BasicBlock *some = block("some"), *several = block("several"), *rest = block("rest");
  for (BasicBlock* made : {some, several, rest}) made->moveBefore(loop.block);
  loop.before->getTerminator()->replaceSuccessorWith(loop.block, some);

  b.SetInsertPoint(some);
  const std::int64_t step = n * loop.step;  // a power of two
  Value* stop = b.CreateAdd(
      loop.begin, b.CreateAnd(b.CreateSub(loop.stop, loop.begin), number(-step)), "", true, true);
  b.CreateCondBr(b.CreateICmpSLT(loop.begin, stop), several, loop.block);

  b.SetInsertPoint(several);
  PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
  std::vector<std::map<const Value*, Value*>> made(static_cast<std::size_t>(n));
  for (std::size_t k = 0; k < made.size(); ++k)
    made[k][loop.i] =
        b.CreateAdd(i, number(static_cast<std::int64_t>(k) * loop.step), "", true, true);
  for (const Instruction& x : *loop.block) {
    if (llvm::isa<PHINode>(x)) continue;
    for (auto& trip : made) {
      Instruction* copy = x.clone();
      for (llvm::Use& operand : copy->operands()) {
        if (const auto found = trip.find(operand.get()); found != trip.end())
          operand.set(found->second);
      }
      trip[&x] = b.Insert(copy);
    }
  }
  Value* next = b.CreateAdd(i, number(step), "", true, true);
  b.CreateCondBr(b.CreateICmpSLT(next, stop), several, rest);
  i->addIncoming(loop.begin, some);
  i->addIncoming(next, several);

  b.SetInsertPoint(rest);
  b.CreateCondBr(b.CreateICmpSLT(stop, loop.stop), loop.block, loop.exit);
  loop.i->removeIncomingValue(loop.before, false);
  loop.i->addIncoming(loop.begin, some);
  loop.i->addIncoming(stop, rest);
  b.SetInsertPoint(loop.block);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
