// What those who take loops apart ask of the instructions of a body. LLVM is seen here.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>

#include <cstdint>

namespace telamon {
inline namespace v1 {
namespace compiler {

/// A loop that is one block, whose branch back is still missing, of trips `i` from `begin` to `stop`.
struct OpenLoop {
  llvm::BasicBlock *before, *block, *exit;
  llvm::PHINode* i;
  llvm::Value *begin, *stop;
  std::int64_t step;
};

// Of vector functions, about: cycles until the result is there, and instructions.
constexpr int kCallCycles = 64, kCallInstructions = 30;

inline bool is_function_call(const llvm::Instruction& i) {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
  return call != nullptr && !llvm::isa<llvm::IntrinsicInst>(call) && call->doesNotAccessMemory();
}

inline bool is_masked_load(const llvm::Instruction& i) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&i);
  return call != nullptr && call->getIntrinsicID() == llvm::Intrinsic::masked_load;
}

inline bool is_condition(const llvm::Instruction& i) {
  return i.getType()->isVectorTy() && i.getType()->getScalarType()->isIntegerTy(1);
}

/// What is done again in each part that needs it, rather than kept from trip to trip: addresses,
/// loads, and conditions, which have no good form in memory.
inline bool is_done_again(const llvm::Instruction& i) {
  if (llvm::isa<llvm::LoadInst>(i) || is_masked_load(i)) return true;
  return !i.getType()->isVectorTy() || is_condition(i);
}

/// Cycles until the result of a vector instruction is there, about.
inline int latency(const llvm::Instruction& i) {
  if (is_function_call(i)) return kCallCycles;
  if (!i.getType()->isVectorTy() || is_done_again(i) || i.isCast()) return 0;
  if (i.getOpcode() == llvm::Instruction::FDiv) return 16;
  return i.getType()->getScalarType()->isFloatingPointTy() && !llvm::isa<llvm::SelectInst>(i) ? 4
                                                                                              : 1;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
