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
//
// Of large arrays, such a loop asks for what later turns read, line by line between its instructions, which are more
// than a processor looks ahead by (horner10 of 64 MiB on Zen 5: 0.79 of the time; all lines of a turn at once, or one
// line of two, gain less).
//
// LLVM has in registers what is the same for all trips, and where these are too few, as they are with AVX2, it saves
// some by doing one trip after the other again. There a table of it lies in memory, from which each is read where all
// trips need it (polynomials of ten, sixteen and 29 terms with AVX2: 0.84, 0.65 and 0.59 of the time).
#include <llvm/IR/InlineAsm.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "compiler/codegen/codegen_impl.hpp"
#include "compiler/codegen/loop_body.hpp"
#include "core/integers.hpp"
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

// Bytes: of a line; from what is read to what is asked for; that the caches of one processor do not hold.
constexpr std::int64_t kLine = 64, kAhead = 8 << 10, kFar = std::int64_t{1} << 20;
constexpr std::int64_t kLeastPerLine = 8;  // instructions: with fewer, loads are far ahead anyway

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

/// What arithmetic takes that is the same for all trips, but for zeros, which need no memory.
std::vector<Value*> invariants_of(const BasicBlock& loop) {
  std::set<Value*> found;
  std::vector<Value*> invariants;
  for (const Instruction& x : loop) {
    if (!llvm::isa<llvm::BinaryOperator>(x) || x.getOpcode() == Instruction::FDiv ||
        !x.getType()->isVectorTy() || !x.getType()->getScalarType()->isFloatingPointTy())
      continue;
    for (const llvm::Use& operand : x.operands()) {
      const auto* constant = llvm::dyn_cast<llvm::Constant>(operand.get());
      const auto* made = llvm::dyn_cast<Instruction>(operand.get());
      const bool outside = made != nullptr && made->getParent() != &loop;
      if (!outside && (constant == nullptr || constant->isZeroValue())) continue;
      if (found.insert(operand.get()).second) invariants.push_back(operand.get());
    }
  }
  return invariants;
}

/// Invariants in memory; none of those of a loop whose trips leave enough registers for them.
class Table {
 public:
  /// Made, or found where all are constants, by the builder, in front of the loop.
  Table(CodeGen::Impl& m, const std::vector<Value*>& invariants) : b_(m.b) {
    if (invariants.empty()) return;
    // LLVM is not to know what is there, or it would read it once, in front of the loop.
    auto* same = llvm::FunctionType::get(b_.getPtrTy(), {b_.getPtrTy()}, false);
    begin_ =
        b_.CreateCall(same, llvm::InlineAsm::get(same, "", "=r,0", true), {stored(m, invariants)});
    for (std::size_t i = 0; i < invariants.size(); ++i)
      place_[invariants[i]] = static_cast<unsigned>(i);
  }

  /// Those of the invariants that an instruction takes, read here.
  std::map<const Value*, Value*> read(const Instruction& x) {
    std::map<const Value*, Value*> values;
    for (const llvm::Use& operand : x.operands()) {
      if (const auto found = place_.find(operand.get()); found != place_.end())
        values[operand] =
            b_.CreateLoad(operand->getType(), b_.CreateStructGEP(type_, begin_, found->second));
    }
    return values;
  }

 private:
  Value* stored(CodeGen::Impl& m, const std::vector<Value*>& invariants) {
    std::vector<llvm::Constant*> constants;
    std::vector<llvm::Type*> types;
    for (Value* x : invariants) {
      types.push_back(x->getType());
      if (auto* c = llvm::dyn_cast<llvm::Constant>(x)) constants.push_back(c);
    }
    type_ = llvm::StructType::get(b_.getContext(), types);
    if (constants.size() == invariants.size())
      return m.address_of(llvm::ConstantStruct::getAnon(constants), "constants");
    BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::IRBuilder<> top(&entry, entry.begin());
    Value* room = top.CreateAlloca(type_, nullptr, "invariants");
    for (std::size_t i = 0; i < invariants.size(); ++i)
      b_.CreateStore(invariants[i], b_.CreateStructGEP(type_, room, static_cast<unsigned>(i)));
    return room;
  }

  llvm::IRBuilder<>& b_;
  llvm::Type* type_ = nullptr;
  Value* begin_ = nullptr;
  std::map<const Value*, unsigned> place_;
};

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

/// Of a vector that is read at an address that moves on with the loop: its bytes, else 0.
std::int64_t bytes_of_stream(const Instruction& x, const BasicBlock& loop) {
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(&x);
  if (load == nullptr || !load->getType()->isVectorTy()) return 0;
  const auto* address = llvm::dyn_cast<Instruction>(load->getPointerOperand());
  if (address == nullptr || address->getParent() != &loop) return 0;
  return static_cast<std::int64_t>(x.getDataLayout().getTypeStoreSize(x.getType()).getFixedValue());
}

/// Asks for lines that are far ahead of what trips side by side read, one by one between their instructions.
class Prefetches {
 public:
  Prefetches(llvm::IRBuilder<>& b, const BasicBlock& loop, const Body& body, std::int64_t trips)
      : b_(b), loop_(loop) {
    std::int64_t bytes = 0;  // of a trip
    for (const Instruction& x : loop) bytes += bytes_of_stream(x, loop);
    if (bytes == 0 || detail::saturating_mul(bytes, trips) < kFar) return;
    const std::int64_t per_line = body.instructions * kLine / bytes;
    if (per_line >= kLeastPerLine) per_line_ = per_line;
  }

  /// `copy`, of `x` of the loop, is there for trip number `trip`.
  void follow(const Instruction& x, Instruction& copy, std::size_t trip) {
    if (per_line_ == 0) return;
    const std::int64_t bytes = bytes_of_stream(x, loop_);
    if (bytes > 0 && static_cast<std::int64_t>(trip) * bytes % kLine < bytes)
      addresses_.push_back(copy.getOperand(0));
    if (latency(x) > 0 && ++since_ >= per_line_) fetch_next();
  }
  void finish() {
    while (!addresses_.empty()) fetch_next();
  }

 private:
  void fetch_next() {
    if (addresses_.empty()) return;
    ask_for_line(b_, b_.CreateConstGEP1_64(b_.getInt8Ty(), addresses_.front(), kAhead));
    addresses_.pop_front();
    since_ = 0;
  }

  llvm::IRBuilder<>& b_;
  const BasicBlock& loop_;
  std::deque<Value*> addresses_;  ///< of the lines of this turn
  std::int64_t per_line_ = 0;     ///< instructions; 0: nothing is asked for
  std::int64_t since_ = 0;        ///< the last
};

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

  b.SetInsertPoint(some->getTerminator());
  std::vector<Value*> invariants = invariants_of(*loop.block);
  if (static_cast<int>(invariants.size()) + n * body->live <= runtime::target_vector_registers())
    invariants.clear();
  Table table(*this, invariants);

  b.SetInsertPoint(several);
  PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
  std::vector<std::map<const Value*, Value*>> made(static_cast<std::size_t>(n));
  for (std::size_t k = 0; k < made.size(); ++k)
    made[k][loop.i] =
        b.CreateAdd(i, number(static_cast<std::int64_t>(k) * loop.step), "", true, true);
  Prefetches ahead(b, *loop.block, *body, trips);
  for (const Instruction& x : *loop.block) {
    if (llvm::isa<PHINode>(x)) continue;
    const std::map<const Value*, Value*> read = table.read(x);
    for (std::size_t k = 0; k < made.size(); ++k) {
      Instruction* copy = x.clone();
      for (llvm::Use& operand : copy->operands()) {
        if (const auto found = read.find(operand.get()); found != read.end())
          operand.set(found->second);
        if (const auto found = made[k].find(operand.get()); found != made[k].end())
          operand.set(found->second);
      }
      made[k][&x] = b.Insert(copy);
      ahead.follow(x, *copy, k);
    }
  }
  ahead.finish();
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
