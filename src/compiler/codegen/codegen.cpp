// Values, levels and functions of CodeGen.
#include "compiler/codegen/codegen.hpp"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/StructuralHash.h>

#include <algorithm>

#include "compiler/codegen/codegen_impl.hpp"
#include "compiler/codegen/native_linker.hpp"
#include "core/integers.hpp"
#include "core/size_errors.hpp"
#include "runtime/pages.hpp"
#include "runtime/thread_pool.hpp"
#include "telamon/error.hpp"
#include "telamon/memory.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

using llvm::Value;

// ---- nodes and levels ----------------------------------------------------------------------------

Node* CodeGen::Impl::make(Value* value, int depth, std::int64_t stride) {
  nodes.push_back(
      {value, stride, nullptr, depth, levels[static_cast<std::size_t>(depth)].serial, {}});
  return &nodes.back();
}

int CodeGen::Impl::pinned_depth() const {
  for (int d = depth(); d > 0; --d) {
    if (levels[static_cast<std::size_t>(d)].pinned) return d;
  }
  return 0;
}

void CodeGen::Impl::at(int depth) {
  llvm::BasicBlock* bb = levels[static_cast<std::size_t>(depth)].block;
  if (llvm::Instruction* end = bb->getTerminator()) b.SetInsertPoint(end);
  else b.SetInsertPoint(bb);
}

int CodeGen::Impl::width(const Node* n) const {
  if (n->stride != 0) return lanes;
  if (const auto* t = llvm::dyn_cast<llvm::FixedVectorType>(n->value->getType())) {
    return static_cast<int>(t->getNumElements());
  }
  return 1;
}

Value* CodeGen::Impl::widen(const Node& node, int n) {
  if (node.stride == 0 && node.value->getType()->isVectorTy()) return node.value;
  Value* wide = b.CreateVectorSplat(static_cast<unsigned>(n), node.value);
  if (node.stride == 0) return wide;
  std::vector<llvm::Constant*> steps;
  for (int i = 0; i < n; ++i)
    steps.push_back(b.getInt64(static_cast<std::uint64_t>(detail::wrapping_mul(i, node.stride))));
  return b.CreateAdd(wide, llvm::ConstantVector::get(steps));
}

Value* CodeGen::Impl::as_vector(Node* node, int n) {
  if (node->stride == 0 && node->value->getType()->isVectorTy()) return node->value;
  if (node->wide != nullptr &&
      static_cast<int>(
          llvm::cast<llvm::FixedVectorType>(node->wide->getType())->getNumElements()) == n) {
    return node->wide;
  }
  const llvm::IRBuilderBase::InsertPointGuard guard(b);
  at(node->depth);
  return node->wide = widen(*node, n);
}

bool CodeGen::is_uniform(Scalar x) const { return impl_->width(node_of(x)) == 1; }
bool CodeGen::is_live(Scalar x) const { return impl_->live(node_of(x)); }

Value* CodeGen::Impl::mask() { return mask_of(active, lanes); }

// ---- functions -----------------------------------------------------------------------------------

CodeGen::CodeGen(const std::string& name, Options options) : impl_(new Impl(name, options)) {
  if (options.contract) {
    llvm::FastMathFlags flags;
    flags.setAllowContract(true);
    impl_->b.setFastMathFlags(flags);
  }
}
CodeGen::~CodeGen() = default;

void CodeGen::Impl::start_function(llvm::Function* f, Kind k) {
  set_target_attributes(*f);
  function = f;
  kind = k;
  made.clear();
  extremes.clear();
  bytes_read.clear();
  constants.clear();
  levels.clear();
  fail = nullptr;
  places.clear();
  lanes = active = 1;
  moved_apart = 0;
  push_level(block("entry"), true);
}

void CodeGen::begin_kernel(const std::string& name) {
  Impl& m = *impl_;
  auto* type = llvm::FunctionType::get(
      m.b.getVoidTy(), {m.b.getPtrTy(), m.b.getInt64Ty(), m.b.getInt64Ty(), m.b.getPtrTy()}, false);
  auto* f = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, m.module);
  m.start_function(f, Impl::Kind::kernel);
  m.begin = Scalar(m.make(f->getArg(1), 0), DType::i64);
  m.end = Scalar(m.make(f->getArg(2), 0), DType::i64);
}

void CodeGen::begin_entry(const std::string& name) {
  Impl& m = *impl_;
  llvm::Type* p = m.b.getPtrTy();
  auto* f = llvm::Function::Create(m.entry_type(), llvm::Function::ExternalLinkage, name, m.module);
  m.entry_name = name;
  m.start_function(f, Impl::Kind::entry);
  m.at(0);
  m.b.CreateStore(f->getArg(1), f->getArg(0));
  m.b.CreateStore(f->getArg(2), m.b.CreateConstInBoundsGEP1_64(p, f->getArg(0), 1));
}

void CodeGen::begin_part(const std::string& name) {
  Impl& m = *impl_;
  m.start_function(
      llvm::Function::Create(m.part_type(), llvm::Function::InternalLinkage, name, m.module),
      Impl::Kind::part);
}

void CodeGen::call_part(const std::string& name) {
  Impl& m = *impl_;
  m.at(m.depth());
  m.leave_unless_well(m.b.CreateCall(m.module.getFunction(name), {m.function->getArg(0)}));
}

void CodeGen::Impl::finish_function() {
  at(0);
  const auto leave = [&](std::uint32_t status) {
    if (knows_places()) b.CreateRet(b.getInt32(status));
    else b.CreateRetVoid();
  };
  leave(0);
  if (fail != nullptr) {
    b.SetInsertPoint(fail);
    leave(1);
  }
}

llvm::GlobalVariable* CodeGen::Impl::address_of(llvm::Constant* table, const char* name) {
  llvm::GlobalVariable*& at = in_memory[table];
  if (at == nullptr) {
    at = llvm::cast<llvm::GlobalVariable>(module.getOrInsertGlobal("", table->getType()));
    at->setInitializer(table);
    at->setConstant(true);
    at->setLinkage(llvm::GlobalValue::PrivateLinkage);
    at->setName(name);
  }
  return at;
}

void CodeGen::finish_entry() { impl_->finish_function(); }

/// Also of numbers, which LLVM's hash leaves out: the kernels of a chain differ in these alone, and would all be compared.
static std::uint64_t hash_of(const llvm::Function& f) {
  llvm::hash_code hash{llvm::StructuralHash(f, true)};
  for (const llvm::Instruction& x : llvm::instructions(f)) {
    for (const llvm::Value* operand : x.operands()) {
      if (llvm::isa<llvm::ConstantData>(operand)) hash = llvm::hash_combine(hash, operand);
    }
  }
  return hash;
}

llvm::Function* CodeGen::Impl::shared(llvm::Function* f) {
  if (!options.share_kernels) return f;
  const std::uint64_t hash = hash_of(*f);
  const auto [first, last] = functions.equal_range(hash);
  const auto equal = std::find_if(first, last, [&](const auto& entry) {
    return llvm::FunctionComparator(entry.second, f, &numbers).compare() == 0;
  });
  if (equal == last) return functions.emplace(hash, f)->second;
  f->eraseFromParent();
  return equal->second;
}

CodeGen::KernelCode CodeGen::finish_kernel() {
  Impl& m = *impl_;
  m.finish_function();
  llvm::Function* f = m.shared(m.function);
  llvm::Constant* table = llvm::ConstantDataArray::get(m.context, m.places);
  return {f, m.address_of(table, "places")};
}

Scalar CodeGen::kernel_begin() const { return impl_->begin; }
Scalar CodeGen::kernel_end() const { return impl_->end; }

void CodeGen::call_kernel(const KernelCode& kernel, Scalar begin, Scalar end) {
  Impl& m = *impl_;
  m.at(m.depth());
  m.b.CreateCall(static_cast<llvm::Function*>(kernel.function),
                 {m.function->getArg(0), node_of(begin)->value, node_of(end)->value,
                  static_cast<Value*>(kernel.where)});
}

void CodeGen::call_native(const std::string& symbol, const std::vector<Pointer>& buffers,
                          const std::vector<std::int64_t>& numbers) {
  Impl& m = *impl_;
  m.at(m.depth());
  llvm::Type* p = m.b.getPtrTy();
  // One slot per function, not one per trip of a loop.
  llvm::IRBuilder<> top(&m.function->getEntryBlock(), m.function->getEntryBlock().begin());
  Value* table = top.CreateAlloca(p, top.getInt64(buffers.size()));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    m.b.CreateStore(static_cast<Node*>(buffers[i].handle)->value,
                    m.b.CreateConstInBoundsGEP1_64(p, table, i));
  }
  llvm::GlobalVariable* list =
      m.address_of(llvm::ConstantDataArray::get(m.context, llvm::ArrayRef(numbers)), "numbers");
  llvm::FunctionCallee callee =
      m.module.getOrInsertFunction(symbol, llvm::FunctionType::get(m.b.getVoidTy(), {p, p}, false));
  llvm::cast<llvm::Function>(callee.getCallee())->setDoesNotThrow();
  m.b.CreateCall(callee, {table, list});
}

CodeGen& CodeGen::part(std::size_t size) {
  constexpr std::size_t kLargest = 1000;
  Impl& m = *impl_;
  if (m.parts.empty() || m.parts.back()->impl_->size + size > kLargest) {
    Options options = m.options;
    // What may be one operation becomes one where code is optimised.
    options.quick = options.quick_segments && !options.contract;
    m.parts.push_back(std::make_unique<CodeGen>(m.module.getModuleIdentifier(), options));
  }
  return *m.parts.back();
}

std::string CodeGen::segment_name(const std::string& kernel) {
  return kernel + "_part_" + std::to_string(impl_->num_segments++);
}

CodeGen::SegmentArguments CodeGen::begin_segment(const std::string& name) {
  Impl& m = *impl_;
  auto* f =
      llvm::Function::Create(m.segment_type(), llvm::Function::ExternalLinkage, name, m.module);
  m.start_function(f, Impl::Kind::segment);
  return {{m.make(f->getArg(0), 0)}, Scalar(m.make(f->getArg(1), 0), DType::i64)};
}

std::string CodeGen::finish_segment(std::size_t size) {
  Impl& m = *impl_;
  m.finish_function();
  const std::string own = m.function->getName().str();
  const std::string name = m.shared(m.function)->getName().str();
  if (name == own) m.size += size;
  return name;
}

void CodeGen::call_segment(const std::string& name, const SegmentArguments& arguments) {
  Impl& m = *impl_;
  m.at(m.depth());
  auto callee = m.module.getOrInsertFunction(name, m.segment_type());
  llvm::cast<llvm::Function>(callee.getCallee())->setDoesNotThrow();
  m.b.CreateCall(callee,
                 {static_cast<Node*>(arguments.tape.handle)->value, node_of(arguments.end)->value});
}

void CodeGen::Impl::leave_unless_well(Value* status) {
  if (fail == nullptr) fail = block("fail");
  llvm::BasicBlock* go_on = block("went_well");
  b.CreateCondBr(b.CreateICmpNE(status, b.getInt32(0)), fail, go_on);
  levels.back().block = go_on;
}

void CodeGen::call_parallel(const KernelCode& kernel, Scalar end, const Chunks& chunks) {
  Impl& m = *impl_;
  llvm::Type *i64 = m.b.getInt64Ty(), *p = m.b.getPtrTy();
  const auto callee = m.module.getOrInsertFunction(
      "telamon_jit_parallel",
      llvm::FunctionType::get(m.b.getInt32Ty(), {p, p, p, i64, i64, i64, i64, i64}, false));
  m.at(m.depth());
  const auto n = [&](std::int64_t v) { return m.b.getInt64(static_cast<std::uint64_t>(v)); };
  Value* status = m.b.CreateCall(
      callee, {m.function->getArg(0), static_cast<Value*>(kernel.function),
               static_cast<Value*>(kernel.where), node_of(end)->value, n(chunks.grain),
               n(chunks.most), n(chunks.slice), n(chunks.slice_bytes)});
  if (chunks.may_fail) m.leave_unless_well(status);
}

void CodeGen::call_host(std::int64_t step) {
  Impl& m = *impl_;
  const auto callee = m.module.getOrInsertFunction(
      "telamon_jit_host_call",
      llvm::FunctionType::get(m.b.getInt32Ty(), {m.b.getPtrTy(), m.b.getInt64Ty()}, false));
  m.at(m.depth());
  Value* status = m.b.CreateCall(
      callee, {m.function->getArg(0), m.b.getInt64(static_cast<std::uint64_t>(step))});
  m.leave_unless_well(status);
}

void CodeGen::mark_step(std::int64_t step) {
  Impl& m = *impl_;
  const auto callee = m.module.getOrInsertFunction(
      "telamon_jit_mark_step",
      llvm::FunctionType::get(m.b.getVoidTy(), {m.b.getPtrTy(), m.b.getInt64Ty()}, false));
  m.at(m.depth());
  m.b.CreateCall(callee, {m.function->getArg(0), m.b.getInt64(static_cast<std::uint64_t>(step))});
}

// ---- the end -------------------------------------------------------------------------------------

std::string CodeGen::ir() const {
  std::string text = ir_text(impl_->module);
  for (const auto& part : impl_->parts) text += part->ir();
  return text;
}
std::string CodeGen::assembly() {
  require_memory();
  std::string text = compiler::assembly(impl_->module, impl_->options.quick);
  for (const auto& part : impl_->parts) text += part->assembly();
  return text;
}

/// Where memory runs out within LLVM, the locks that it holds stay locked, and a stack that cannot grow
/// ends the process: there is to be enough before it begins. Measured: 2 MiB, and 1 KiB for each
/// instruction.
void CodeGen::require_memory() const {
  constexpr std::size_t kAtLeast = std::size_t{8} << 20, kPerInstruction = std::size_t{2} << 10;
  std::size_t instructions = impl_->module.getInstructionCount();
  for (const auto& part : impl_->parts) instructions += part->impl_->module.getInstructionCount();
  const std::size_t bytes = kAtLeast + kPerInstruction * instructions;
  if (runtime::can_take(bytes)) return;
  trim_memory();
  if (runtime::can_take(bytes)) return;
  throw detail::UnnamedOutOfMemoryError("out of memory: compiling " + std::to_string(instructions) +
                                        " instructions takes up to " + std::to_string(bytes >> 20) +
                                        " MiB, which the system does not grant");
}

std::vector<std::string> CodeGen::objects() {
  require_memory();
  std::vector<std::string> objects(1 + impl_->parts.size());
  runtime::parallel_for(static_cast<std::int64_t>(objects.size()), [&](std::int64_t i) {
    Impl& m = i == 0 ? *impl_ : *impl_->parts[static_cast<std::size_t>(i) - 1]->impl_;
    objects[static_cast<std::size_t>(i)] = object_file(m.module, m.options.quick);
  });
  return objects;
}

std::string CodeGen::link(const std::vector<std::string>& objects) const {
  return link_objects(objects, impl_->entry_name);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
