// Small programs without an arena: what its values held is in registers from the store to the loads.
#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Pass.h>
#include <llvm/Transforms/Scalar.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "compiler/codegen/codegen_impl.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

namespace {

// What all registers together can hold, a few times over: beyond, the stack is no better than the arena.
constexpr std::int64_t kMostBytes = 4096;

/// Whether an address is used for nothing but loads and stores, at places that are known. `offset` is
/// where it points to; `end` becomes the end of what they touch, if that is beyond it.
bool only_accessed(const llvm::Value& address, std::int64_t offset, const llvm::DataLayout& layout,
                   std::int64_t& end) {
  const auto touch = [&](const llvm::Type* type) {
    const auto bytes = static_cast<std::int64_t>(
        layout.getTypeStoreSize(const_cast<llvm::Type*>(type)).getFixedValue());
    end = std::max(end, offset + bytes);
    return offset >= 0;
  };
  for (const llvm::User* user : address.users()) {
    if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(user)) {
      if (!touch(load->getType())) return false;
    } else if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(user)) {
      if (store->getValueOperand() == &address || !touch(store->getValueOperand()->getType()))
        return false;
    } else if (const auto* place = llvm::dyn_cast<llvm::GetElementPtrInst>(user)) {
      llvm::APInt by(64, 0);
      if (!place->accumulateConstantOffset(layout, by) ||
          !only_accessed(*place, offset + by.getSExtValue(), layout, end))
        return false;
    } else {
      return false;
    }
  }
  return true;
}

/// Whether a call may find the arena by itself, from the context.
bool may_use_arena(const llvm::Instruction& i) {
  const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
  return call != nullptr && !llvm::isa<llvm::IntrinsicInst>(call) && !call->doesNotAccessMemory();
}

/// The loads of the arena's address; none where calls may use it too.
std::vector<llvm::LoadInst*> arena_loads(llvm::Function& entry, const llvm::DataLayout& layout) {
  constexpr std::uint64_t kField = offsetof(Context, arena);
  std::vector<llvm::LoadInst*> loads;
  for (llvm::Instruction& i : llvm::instructions(entry)) {
    if (may_use_arena(i)) return {};
    auto* load = llvm::dyn_cast<llvm::LoadInst>(&i);
    if (load == nullptr || !load->getType()->isPointerTy()) continue;
    const auto* field = llvm::dyn_cast<llvm::GetElementPtrInst>(load->getPointerOperand());
    llvm::APInt by(64, 0);
    if (field != nullptr && field->getPointerOperand() == entry.getArg(0) &&
        field->accumulateConstantOffset(layout, by) && by == kField)
      loads.push_back(load);
  }
  return loads;
}

/// What SROA leaves of the bytes that lay between values: room that is only cleared.
void drop_unread(llvm::Function& entry) {
  for (llvm::Instruction& i : llvm::make_early_inc_range(entry.getEntryBlock())) {
    auto* clear = llvm::dyn_cast<llvm::MemSetInst>(&i);
    if (clear == nullptr) continue;
    auto* room = llvm::dyn_cast<llvm::AllocaInst>(clear->getDest());
    if (room == nullptr || !room->hasOneUse()) continue;
    clear->eraseFromParent();
    room->eraseFromParent();
  }
}

}  // namespace

void CodeGen::keep_arena_in_registers() {
  Impl& m = *impl_;
  llvm::Function& entry = *m.function;
  const llvm::DataLayout& layout = m.module.getDataLayout();
  const std::vector<llvm::LoadInst*> loads = arena_loads(entry, layout);
  std::int64_t bytes = 0;
  for (const llvm::LoadInst* load : loads) {
    if (!only_accessed(*load, 0, layout, bytes)) return;
  }
  if (bytes == 0 || bytes > kMostBytes) return;

  m.b.SetInsertPoint(&entry.getEntryBlock(), entry.getEntryBlock().begin());
  llvm::Type* type = llvm::ArrayType::get(m.b.getInt8Ty(), static_cast<std::uint64_t>(bytes));
  llvm::AllocaInst* arena = m.b.CreateAlloca(type);
  arena->setAlignment(llvm::Align(64));
  // Lanes that nobody wrote are numbers, not what LLVM may take for anything.
  m.b.CreateMemSet(arena, m.b.getInt8(0), static_cast<std::uint64_t>(bytes), arena->getAlign());
  for (llvm::LoadInst* load : loads) {
    auto* const field = llvm::cast<llvm::Instruction>(load->getPointerOperand());
    load->replaceAllUsesWith(arena);
    load->eraseFromParent();
    if (field->use_empty()) field->eraseFromParent();
  }
  const LlvmPtr<llvm::legacy::FunctionPassManager> passes(
      new llvm::legacy::FunctionPassManager(&m.module));
  passes->add(llvm::createSROAPass());
  passes->run(entry);
  drop_unread(entry);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
