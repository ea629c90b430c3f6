// Elements that lie apart, in one vector: a load or a store for each lane. That is as much code as there are lanes, and LLVM
// takes more than twice as long for twice as much: a function that does it often calls others for it, each of which is made
// once.
#include <llvm/IR/PatternMatch.h>

#include "compiler/codegen/codegen_impl.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

using llvm::Value;

namespace {

// Elements that a function moves in place. Calls take registers from what is around them.
constexpr int kMostInPlace = 512;

}  // namespace

llvm::Function* CodeGen::Impl::helper(const std::string& name, llvm::Type* result,
                                      const std::vector<llvm::Type*>& types,
                                      const std::function<Value*(llvm::Function&)>& code) {
  if (llvm::Function* const made = module.getFunction(name)) return made;
  auto* const f = llvm::Function::Create(llvm::FunctionType::get(result, types, false),
                                         llvm::Function::InternalLinkage, name, module);
  set_target_attributes(*f);
  const llvm::IRBuilderBase::InsertPointGuard guard(b);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", f));
  if (Value* const value = code(*f)) b.CreateRet(value);
  else b.CreateRetVoid();
  return f;
}

std::string CodeGen::Impl::name_of(const llvm::Type* t) {
  std::string name;
  llvm::raw_string_ostream stream(name);
  t->print(stream);
  std::erase_if(name, [](char c) { return c == '<' || c == '>' || c == ' '; });
  return name;
}

Value* CodeGen::Impl::load_apart(llvm::Type* t, Value* first, std::int64_t step, int w,
                                 llvm::Align align) {
  const int count = mask() == nullptr ? w : active;
  const auto one_by_one = [&](Value* from, Value* each) {
    Value* v = llvm::Constant::getNullValue(vector_type(t, w));
    for (int l = 0; l < count; ++l) {
      const auto lane = static_cast<std::uint64_t>(l);
      Value* const at = l == 0 ? from : b.CreateGEP(t, from, b.CreateMul(b.getInt64(lane), each));
      v = b.CreateInsertElement(v, b.CreateAlignedLoad(t, at, align), lane);
    }
    return v;
  };
  Value* const each = b.getInt64(static_cast<std::uint64_t>(step));
  if ((moved_apart += count) <= kMostInPlace) return one_by_one(first, each);
  llvm::Function* const f =
      helper("apart_" + std::to_string(count) + "_of_" + name_of(vector_type(t, w)),
             vector_type(t, w), {b.getPtrTy(), b.getInt64Ty()},
             [&](llvm::Function& own) { return one_by_one(own.getArg(0), own.getArg(1)); });
  f->setOnlyReadsMemory();
  return b.CreateCall(f, {first, each});
}

void CodeGen::Impl::store_apart(Value* v, Value* first, std::int64_t step, llvm::Align align) {
  const auto* const type = llvm::cast<llvm::FixedVectorType>(v->getType());
  llvm::Type* const t = type->getElementType();
  const int count = mask() == nullptr ? static_cast<int>(type->getNumElements()) : active;
  const auto one_by_one = [&](Value* from, Value* to, Value* each) {
    for (int l = 0; l < count; ++l) {
      const auto lane = static_cast<std::uint64_t>(l);
      Value* const at = l == 0 ? to : b.CreateGEP(t, to, b.CreateMul(b.getInt64(lane), each));
      b.CreateAlignedStore(b.CreateExtractElement(from, lane), at, align);
    }
  };
  Value* const each = b.getInt64(static_cast<std::uint64_t>(step));
  if ((moved_apart += count) <= kMostInPlace) return one_by_one(v, first, each);
  llvm::Function* const f =
      helper("lay_" + std::to_string(count) + "_of_" + name_of(v->getType()), b.getVoidTy(),
             {v->getType(), b.getPtrTy(), b.getInt64Ty()}, [&](llvm::Function& own) -> Value* {
               one_by_one(own.getArg(0), own.getArg(1), own.getArg(2));
               return nullptr;
             });
  b.CreateCall(f, {v, first, each});
}

Value* CodeGen::Impl::load_one_by_one(llvm::Type* t, const Node* base, Value* indices,
                                      llvm::Align align) {
  const int all =
      static_cast<int>(llvm::cast<llvm::FixedVectorType>(indices->getType())->getNumElements());
  const int count = mask() == nullptr ? all : active;
  const auto one_by_one = [&](Value* from, Value* places) {
    Lanes index(b, places);
    Value* v = llvm::Constant::getNullValue(vector_type(t, all));
    for (int l = 0; l < count; ++l) {
      Value* const address = b.CreateGEP(t, from, index(l));
      v = b.CreateInsertElement(v, b.CreateAlignedLoad(t, address, align),
                                static_cast<std::uint64_t>(l));
    }
    return v;
  };
  if ((moved_apart += count) <= kMostInPlace) return one_by_one(base->value, indices);
  // Narrow indices stay as they are: half as many registers hold them.
  using namespace llvm::PatternMatch;
  Value* given = nullptr;
  if (!match(indices, m_SExt(m_Value(given)))) given = indices;
  llvm::Function* const f =
      helper("found_" + std::to_string(count) + "_of_" + name_of(vector_type(t, all)) + "_by_" +
                 name_of(given->getType()),
             vector_type(t, all), {b.getPtrTy(), given->getType()}, [&](llvm::Function& own) {
               return one_by_one(own.getArg(0), b.CreateSExt(own.getArg(1), indices->getType()));
             });
  f->setOnlyReadsMemory();
  return b.CreateCall(f, {base->value, given});
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
