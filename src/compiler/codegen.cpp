// Functions, loops, memory and lanes of CodeGen.
#include "compiler/codegen.hpp"

#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/StructuralHash.h>

#include <algorithm>

#include "compiler/codegen_impl.hpp"
#include "compiler/host_calls.hpp"
#include "telamon/error.hpp"

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
    steps.push_back(b.getInt64(static_cast<std::uint64_t>(i * node.stride)));
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

Value* CodeGen::Impl::mask() {
  if (active == lanes) return nullptr;
  std::vector<llvm::Constant*> on;
  for (int i = 0; i < lanes; ++i) on.push_back(b.getInt1(i < active));
  return llvm::ConstantVector::get(on);
}

// ---- functions -----------------------------------------------------------------------------------

CodeGen::CodeGen(const std::string& name, Options options)
    : impl_(std::make_unique<Impl>(name, options)) {
  if (options.contract) {
    llvm::FastMathFlags flags;
    flags.setAllowContract(true);
    impl_->b.setFastMathFlags(flags);
  }
}
CodeGen::~CodeGen() = default;

void CodeGen::Impl::start_function(llvm::Function* f) {
  set_target_attributes(*f);
  function = f;
  made.clear();
  constants.clear();
  levels.clear();
  fail = nullptr;
  places.clear();
  lanes = active = 1;
  push_level(block("entry"), true);
}

void CodeGen::begin_kernel(const std::string& name) {
  Impl& m = *impl_;
  auto* type = llvm::FunctionType::get(
      m.b.getVoidTy(), {m.b.getPtrTy(), m.b.getInt64Ty(), m.b.getInt64Ty(), m.b.getPtrTy()}, false);
  auto* f = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, m.module);
  m.is_entry = false;
  m.start_function(f);
  m.begin = Scalar(m.make(f->getArg(1), 0), DType::i64);
  m.end = Scalar(m.make(f->getArg(2), 0), DType::i64);
}

void CodeGen::begin_entry(const std::string& name) {
  Impl& m = *impl_;
  llvm::Type* p = m.b.getPtrTy();
  auto* f = llvm::Function::Create(llvm::FunctionType::get(m.b.getInt32Ty(), {p, p, p}, false),
                                   llvm::Function::ExternalLinkage, name, m.module);
  m.is_entry = true;
  m.entry_name = name;
  m.start_function(f);
  m.at(0);
  m.b.CreateStore(f->getArg(1), f->getArg(0));
  m.b.CreateStore(f->getArg(2), m.b.CreateConstInBoundsGEP1_64(p, f->getArg(0), 1));
}

void CodeGen::Impl::finish_function() {
  at(0);
  const auto leave = [&](std::uint32_t status) {
    if (is_entry) b.CreateRet(b.getInt32(status));
    else b.CreateRetVoid();
  };
  leave(0);
  if (fail != nullptr) {
    b.SetInsertPoint(fail);
    leave(1);
  }
}

void CodeGen::finish_entry() { impl_->finish_function(); }

CodeGen::KernelCode CodeGen::finish_kernel() {
  Impl& m = *impl_;
  m.finish_function();
  llvm::Function* f = m.function;
  const std::uint64_t hash = llvm::StructuralHash(*f, true);
  const auto [first, last] = m.kernels.equal_range(hash);
  const auto equal = std::find_if(first, last, [&](const auto& entry) {
    return llvm::FunctionComparator(entry.second, f, &m.numbers).compare() == 0;
  });
  if (equal == last) {
    m.kernels.emplace(hash, f);
  } else {
    f->eraseFromParent();
    f = equal->second;
  }
  llvm::Constant* table = llvm::ConstantDataArray::get(m.context, m.places);
  auto* where = new llvm::GlobalVariable(m.module, table->getType(), true,
                                         llvm::GlobalValue::PrivateLinkage, table);
  return {f, where};
}

Scalar CodeGen::kernel_begin() const { return impl_->begin; }
Scalar CodeGen::kernel_end() const { return impl_->end; }

void CodeGen::call_kernel(const KernelCode& kernel, std::int64_t begin, std::int64_t end) {
  Impl& m = *impl_;
  m.at(m.depth());
  m.b.CreateCall(
      static_cast<llvm::Function*>(kernel.function),
      {m.function->getArg(0), m.b.getInt64(static_cast<std::uint64_t>(begin)),
       m.b.getInt64(static_cast<std::uint64_t>(end)), static_cast<Value*>(kernel.where)});
}

void CodeGen::Impl::leave_unless_well(Value* status) {
  if (fail == nullptr) fail = block("fail");
  llvm::BasicBlock* go_on = block("went_well");
  b.CreateCondBr(b.CreateICmpNE(status, b.getInt32(0)), fail, go_on);
  levels.back().block = go_on;
}

void CodeGen::call_parallel(const KernelCode& kernel, Scalar end, const Chunks& chunks) {
  Impl& m = *impl_;
  define_symbol("telamon_jit_parallel", reinterpret_cast<void*>(&parallel_kernel));
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
  define_symbol("telamon_jit_host_call", reinterpret_cast<void*>(&host_call));
  const auto callee = m.module.getOrInsertFunction(
      "telamon_jit_host_call",
      llvm::FunctionType::get(m.b.getInt32Ty(), {m.b.getPtrTy(), m.b.getInt64Ty()}, false));
  m.at(m.depth());
  Value* status = m.b.CreateCall(
      callee, {m.function->getArg(0), m.b.getInt64(static_cast<std::uint64_t>(step))});
  m.leave_unless_well(status);
}

// ---- lanes ---------------------------------------------------------------------------------------

void CodeGen::set_lanes(int lanes, int active) {
  impl_->lanes = lanes;
  impl_->active = active;
}
int CodeGen::lanes() const { return impl_->lanes; }
int CodeGen::active() const { return impl_->active; }

Scalar CodeGen::lane_index(Scalar base) {
  if (impl_->lanes == 1) return base;
  const Scalar index = impl_->op(
      {kOffset, impl_->lanes, base.value(), nullptr, nullptr, impl_->active}, DType::i64, {base},
      [&](int) { return node_of(base)->value; }, 1);
  const Range r = Impl::range(base);
  return Impl::with_range(index, {r.low, r.high + impl_->active - 1});
}

Scalar CodeGen::within(Scalar index, std::int64_t low, std::int64_t high) {
  const Node* n = node_of(index);
  std::int64_t known = 0;
  if (known_constant(index, known)) return index;
  return Impl::with_range(Scalar(impl_->make(n->value, n->depth, n->stride), DType::i64),
                          {low, high});
}

Scalar CodeGen::splat(Scalar x) {
  Node* n = node_of(x);
  if (impl_->lanes == 1 || !is_uniform(x)) return x;
  llvm::Value* wide = impl_->as_vector(n, impl_->lanes);
  return Scalar(impl_->make(wide, n->depth), x.dtype());
}

Scalar CodeGen::any_lane(Scalar condition) {
  Impl& m = *impl_;
  const Node* n = node_of(condition);
  if (m.width(n) == 1) return condition;
  m.at(m.depth());
  Value* v = n->value;
  if (Value* mask = m.mask()) v = m.b.CreateAnd(v, mask);
  return Scalar(m.make(m.b.CreateOrReduce(v), m.depth()), DType::bool_);
}

namespace {
bool loads_zeros(const Value* v) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(v);
  if (call == nullptr || call->getIntrinsicID() != llvm::Intrinsic::masked_load) return false;
  return llvm::cast<llvm::Constant>(call->getArgOperand(3))->isNullValue();
}
}  // namespace

Scalar CodeGen::mask_lanes(Scalar x, Scalar replacement) {
  Impl& m = *impl_;
  if (m.active == m.lanes) return x;
  // A masked load has put zeros there already.
  const auto* zero = llvm::dyn_cast<llvm::Constant>(node_of(replacement)->value);
  if (zero != nullptr && zero->isNullValue() && loads_zeros(node_of(x)->value)) return x;
  return m.op({kMask, m.active, x.value(), replacement.value()}, x.dtype(), {x, replacement},
              [&](int) {
                return m.b.CreateSelect(m.mask(), m.as_vector(node_of(x), m.lanes),
                                        m.as_vector(node_of(replacement), m.lanes));
              });
}

Scalar CodeGen::fold_lanes(Scalar x, const std::function<Scalar(Scalar, Scalar)>& combine) {
  Impl& m = *impl_;
  Node* node = node_of(x);
  int n = m.width(node);
  if (n == 1) return x;
  while (n > 1) {
    const int half = n / 2;
    std::vector<int> low, high;
    for (int i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(half + i);
    }
    m.at(node->depth);
    Value* v = m.as_vector(node, n);
    Value *a, *c;
    if (half == 1) {
      a = m.b.CreateExtractElement(v, std::uint64_t{0});
      c = m.b.CreateExtractElement(v, std::uint64_t{1});
    } else {
      a = m.b.CreateShuffleVector(v, low);
      c = m.b.CreateShuffleVector(v, high);
    }
    x = combine(Scalar(m.make(a, node->depth), x.dtype()),
                Scalar(m.make(c, node->depth), x.dtype()));
    node = node_of(x);
    n = half;
  }
  return x;
}

// Two vectors of groups become one: their lower halves side by side, combined with their upper
// halves side by side. After log2(W) rounds every group is one lane.
Scalar CodeGen::fold_rows(std::vector<Scalar> rows,
                          const std::function<Scalar(Scalar, Scalar)>& combine) {
  Impl& m = *impl_;
  const int lanes = m.lanes;
  for (int group = lanes; group > 1; group /= 2) {
    std::vector<int> low, high;
    for (const int start : {0, lanes}) {  // of the first vector, of the second
      for (int g = 0; g < lanes; g += group) {
        for (int i = 0; i < group / 2; ++i) {
          low.push_back(start + g + i);
          high.push_back(start + g + group / 2 + i);
        }
      }
    }
    std::vector<Scalar> next;
    for (std::size_t r = 0; r < rows.size();
         r += 2) {  // neighbours, so that groups keep their order
      Node *a = node_of(rows[r]), *c = node_of(rows[r + 1]);
      const int d = std::max(a->depth, c->depth);
      m.at(d);
      Value *x = m.as_vector(a, lanes), *y = m.as_vector(c, lanes);
      m.at(d);
      const DType dtype = rows[r].dtype();
      const Scalar lower(m.make(m.b.CreateShuffleVector(x, y, low), d), dtype);
      const Scalar upper(m.make(m.b.CreateShuffleVector(x, y, high), d), dtype);
      next.push_back(combine(lower, upper));
    }
    rows = std::move(next);
  }
  return rows[0];
}

Scalar CodeGen::slide(Scalar a, Scalar c, int n) {
  if (n == 0) return a;
  Impl& m = *impl_;
  std::vector<int> lanes;
  for (int i = 0; i < m.lanes; ++i) lanes.push_back(n + i);
  const int d = std::max(node_of(a)->depth, node_of(c)->depth);
  Value *x = m.as_vector(node_of(a), m.lanes), *y = m.as_vector(node_of(c), m.lanes);
  m.at(d);
  return Scalar(m.make(m.b.CreateShuffleVector(x, y, lanes), d), a.dtype());
}

// Blocks of half the size change places, then those within: in round h, rows r and r + h (where bit
// h of r is 0) exchange the lanes whose bit h differs from their own.
Scalars CodeGen::transpose(Scalars rows) {
  Impl& m = *impl_;
  const int lanes = m.lanes;
  int d = 0;
  for (const Scalar r : rows) d = std::max(d, node_of(r)->depth);
  std::vector<Value*> v;
  for (const Scalar r : rows) v.push_back(m.as_vector(node_of(r), lanes));
  m.at(d);
  for (int h = lanes / 2; h > 0; h /= 2) {
    std::vector<int> low, high;
    for (int i = 0; i < lanes; ++i) {
      low.push_back((i & h) == 0 ? i : lanes + i - h);
      high.push_back((i & h) == 0 ? i + h : lanes + i);
    }
    for (int r = 0; r < lanes; ++r) {
      if ((r & h) != 0) continue;
      const auto row = static_cast<std::size_t>(r), step = static_cast<std::size_t>(h);
      Value *&x = v[row], *&y = v[row + step];
      Value* upper = m.b.CreateShuffleVector(x, y, low);
      y = m.b.CreateShuffleVector(x, y, high);
      x = upper;
    }
  }
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = Scalar(m.make(v[r], d), rows[r].dtype());
  return rows;
}

// ---- memory --------------------------------------------------------------------------------------

Value* CodeGen::Impl::context_field(int field) {
  if (is_entry && field < 2) return function->getArg(static_cast<unsigned>(field + 1));
  const Scalar loaded = op({kField, field}, DType::i64, {}, [&](int) -> Value* {
    return b.CreateLoad(b.getPtrTy(),
                        b.CreateConstInBoundsGEP1_64(b.getPtrTy(), function->getArg(0),
                                                     static_cast<unsigned>(field)));
  });
  return node_of(loaded)->value;
}

Value* CodeGen::Impl::element_address(llvm::Type* t, const Node* base, const Node* index) {
  const auto* known = llvm::dyn_cast<llvm::ConstantInt>(index->value);
  if (known != nullptr && known->isZero()) return base->value;
  return b.CreateGEP(t, base->value, index->value);
}

Value* CodeGen::Impl::place(std::int64_t index) {
  if (is_entry) return b.getInt64(static_cast<std::uint64_t>(index));
  // In the order in which code asks for them, so that equal kernels have equal tables.
  Value* entry = b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), function->getArg(3), places.size());
  places.push_back(index);
  return b.CreateLoad(b.getInt64Ty(), entry);
}

Scalar CodeGen::address(Pointer p) {
  Impl& m = *impl_;
  const auto* n = static_cast<Node*>(p.handle);
  m.at(m.depth());
  return Scalar(m.make(m.b.CreatePtrToInt(n->value, m.b.getInt64Ty()), m.depth()), DType::i64);
}

Pointer CodeGen::pointer(Location where) {
  Impl& m = *impl_;
  if (where.kind == Location::Kind::arena_slot || where.kind == Location::Kind::chunk_slot) {
    const bool arena = where.kind == Location::Kind::arena_slot;
    const Pointer slot =
        pointer({arena ? Location::Kind::arena : Location::Kind::chunk, where.index});
    // Loaded once per region: what it holds changes from trip to trip.
    const OpKey key{kPointer, static_cast<int>(where.kind), nullptr, nullptr, nullptr, where.index};
    if (const auto found = m.made.find(key); found != m.made.end() && m.live(found->second))
      return {found->second};
    const int d = m.pinned_depth();
    m.at(d);
    Value* v = m.b.CreateLoad(m.b.getPtrTy(), static_cast<Node*>(slot.handle)->value);
    Node* n = m.make(v, d);
    m.made[key] = n;
    return {n};
  }
  const OpKey key{kPointer, static_cast<int>(where.kind), nullptr, nullptr, nullptr, where.index};
  const Scalar p = m.op(key, DType::i64, {}, [&](int) -> Value* {
    if (where.kind == Location::Kind::arena || where.kind == Location::Kind::chunk) {
      return m.b.CreateInBoundsGEP(m.b.getInt8Ty(),
                                   m.context_field(where.kind == Location::Kind::arena ? 2 : 3),
                                   m.place(where.index));
    }
    if (where.kind == Location::Kind::none)
      throw InternalError("a value without memory is addressed");
    Value* table = m.context_field(where.kind == Location::Kind::argument ? 0 : 1);
    return m.b.CreateLoad(m.b.getPtrTy(),
                          m.b.CreateInBoundsGEP(m.b.getPtrTy(), table, m.place(where.index)));
  });
  return {p.value()};
}

Pointer CodeGen::offset(Pointer base, DType dtype, Scalar elements) {
  Impl& m = *impl_;
  const Scalar p =
      m.op({kOffset, static_cast<int>(dtype), base.handle, elements.value()}, DType::i64,
           {Scalar(base.handle, DType::i64), elements}, [&](int) {
             return m.b.CreateGEP(m.memory_type(dtype), static_cast<Node*>(base.handle)->value,
                                  node_of(elements)->value);
           });
  return {p.value()};
}

Value* CodeGen::Impl::from_memory(Value* v, DType dtype) {
  return dtype == DType::bool_ ? b.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType())) : v;
}
Value* CodeGen::Impl::to_memory(Value* v, DType dtype) {
  if (dtype != DType::bool_) return v;
  llvm::Type* t = b.getInt8Ty();
  if (const auto* vt = llvm::dyn_cast<llvm::FixedVectorType>(v->getType()))
    t = llvm::FixedVectorType::get(t, vt->getNumElements());
  return b.CreateZExt(v, t);
}

Scalar CodeGen::load(Pointer from, DType dtype, Scalar index) {
  Impl& m = *impl_;
  Node *p = static_cast<Node*>(from.handle), *i = node_of(index);
  const OpKey key{kLoad, static_cast<int>(dtype), p, i, nullptr, m.active};
  if (const auto found = m.made.find(key); found != m.made.end() && m.live(found->second)) {
    return Scalar(found->second, dtype);
  }
  const int d = std::max({p->depth, i->depth, m.pinned_depth()});
  m.at(d);
  llvm::Type* t = m.memory_type(dtype);
  const llvm::Align align(std::max<std::size_t>(size_of(dtype), 1));
  Value* v;
  const int w = m.width(i);
  if (w == 1) {
    v = m.b.CreateAlignedLoad(t, m.element_address(t, p, i), align);
  } else {
    llvm::Type* vt = m.vector_type(t, w);
    Value* mask = m.mask();
    if (i->stride == 1) {
      Value* address = m.element_address(t, p, i);
      v = mask == nullptr
              ? static_cast<Value*>(m.b.CreateAlignedLoad(vt, address, align))
              : m.b.CreateMaskedLoad(vt, address, align, mask, llvm::Constant::getNullValue(vt));
    } else if (i->stride == -1 && mask == nullptr) {
      Value* last = m.b.CreateSub(i->value, m.b.getInt64(static_cast<std::uint64_t>(w - 1)));
      v = m.b.CreateVectorReverse(
          m.b.CreateAlignedLoad(vt, m.b.CreateGEP(t, p->value, last), align));
    } else {
      Value* addresses = m.b.CreateGEP(t, p->value, m.as_vector(i, w));
      if (mask == nullptr)
        mask = llvm::Constant::getAllOnesValue(m.vector_type(m.b.getInt1Ty(), w));
      v = m.b.CreateMaskedGather(vt, addresses, align, mask, llvm::Constant::getNullValue(vt));
    }
  }
  Node* n = m.make(m.from_memory(v, dtype), d);
  m.made[key] = n;
  return Scalar(n, dtype);
}

Scalar CodeGen::load_now(Pointer from, DType dtype, Scalar index) {
  Impl& m = *impl_;
  m.at(m.depth());
  llvm::Type* t = m.memory_type(dtype);
  Value* address = m.element_address(t, static_cast<Node*>(from.handle), node_of(index));
  Value* v =
      m.b.CreateAlignedLoad(t, address, llvm::Align(std::max<std::size_t>(size_of(dtype), 1)));
  return Scalar(m.make(m.from_memory(v, dtype), m.depth()), dtype);
}

void CodeGen::store(Pointer to, DType dtype, Scalar index, Scalar value) {
  Impl& m = *impl_;
  Node *p = static_cast<Node*>(to.handle), *i = node_of(index);
  m.at(m.depth());
  llvm::Type* t = m.memory_type(dtype);
  const llvm::Align align(std::max<std::size_t>(size_of(dtype), 1));
  const int w = m.width(i);
  if (w == 1) {
    m.b.CreateAlignedStore(m.to_memory(node_of(value)->value, dtype), m.element_address(t, p, i),
                           align);
    return;
  }
  Value* v = m.to_memory(m.as_vector(node_of(value), w), dtype);
  Value* mask = m.mask();
  if (i->stride == 1) {
    Value* address = m.element_address(t, p, i);
    if (mask != nullptr) {
      m.b.CreateMaskedStore(v, address, align, mask);
    } else if (m.streaming) {
      auto* s = m.b.CreateAlignedStore(v, address,
                                       llvm::Align(size_of(dtype) * static_cast<std::size_t>(w)));
      s->setMetadata(llvm::LLVMContext::MD_nontemporal,
                     llvm::MDNode::get(m.context, llvm::ConstantAsMetadata::get(m.b.getInt32(1))));
    } else {
      m.b.CreateAlignedStore(v, address, align);
    }
    return;
  }
  Value* addresses = m.b.CreateGEP(t, p->value, m.as_vector(i, w));
  if (mask == nullptr) mask = llvm::Constant::getAllOnesValue(m.vector_type(m.b.getInt1Ty(), w));
  m.b.CreateMaskedScatter(v, addresses, align, mask);
}

void CodeGen::prefetch(Pointer from, DType dtype, Scalar index) {
  Impl& m = *impl_;
  m.at(m.depth());
  Value* address = m.b.CreateGEP(m.memory_type(dtype), static_cast<Node*>(from.handle)->value,
                                 node_of(index)->value);
  m.b.CreateIntrinsic(llvm::Intrinsic::prefetch, {m.b.getPtrTy()},
                      {address, m.b.getInt32(0), m.b.getInt32(3), m.b.getInt32(1)});
}

void CodeGen::copy_bytes(Pointer from, Pointer to, std::int64_t bytes) {
  Impl& m = *impl_;
  m.at(m.depth());
  m.b.CreateMemMove(static_cast<Node*>(to.handle)->value, llvm::MaybeAlign(1),
                    static_cast<Node*>(from.handle)->value, llvm::MaybeAlign(1),
                    static_cast<std::uint64_t>(bytes));
}

void CodeGen::set_streaming(bool on) { impl_->streaming = on; }

// ---- control -------------------------------------------------------------------------------------

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
  Impl& m = *impl_;
  const int outer = m.depth();
  std::int64_t first = 0, last = 0;
  const bool known = known_constant(begin, first) && known_constant(end, last);
  if (known && first >= last) return init;
  if (known && first + step >= last) {  // one trip: no loop
    Scalars out;
    region([&] { out = body(begin, init); });
    for (Scalar& x : out) {  // the trip's level is gone, but its code comes before all that follows
      const Node* n = node_of(x);
      x = Scalar(m.live(n) ? x.value() : m.make(n->value, outer, n->stride), x.dtype());
    }
    return out;
  }
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
  if (known) m.b.CreateBr(loop);
  else m.b.CreateCondBr(m.b.CreateICmpSLT(node_of(begin)->value, stop), loop, exit);

  m.push_level(loop, false);
  m.b.SetInsertPoint(loop);
  auto* i = m.b.CreatePHI(m.b.getInt64Ty(), 2, "i");
  i->addIncoming(node_of(begin)->value, before);
  const auto [phis, carried] = m.open_phis(init, initial, before);
  const Scalars next = body(Scalar(m.make(i, m.depth()), DType::i64), carried);
  std::vector<Value*> values;
  for (std::size_t k = 0; k < init.size(); ++k) values.push_back(m.as(node_of(next[k]), widths[k]));
  m.at(m.depth());
  Value* following =
      m.b.CreateAdd(i, m.b.getInt64(static_cast<std::uint64_t>(step)), "", true, true);
  llvm::BasicBlock* latch = m.b.GetInsertBlock();
  m.b.CreateCondBr(m.b.CreateICmpSLT(following, stop), loop, exit);
  i->addIncoming(following, latch);
  for (std::size_t k = 0; k < phis.size(); ++k) phis[k]->addIncoming(values[k], latch);
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

void CodeGen::region(const std::function<void()>& body) {
  Impl& m = *impl_;
  llvm::BasicBlock* inside = m.block("region");
  llvm::BasicBlock* after = m.block("after");
  m.at(m.depth());
  m.b.CreateBr(inside);
  m.push_level(inside, true);
  body();
  m.at(m.depth());
  m.b.CreateBr(after);
  m.pop_level();
  m.levels.back().block = after;
}

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
                         const std::function<Scalars()>& otherwise) {
  Impl& m = *impl_;
  const int outer = m.depth();
  llvm::BasicBlock* blocks[] = {m.block("then"), m.block("else")};
  llvm::BasicBlock* after = m.block("endif");
  m.at(outer);
  m.b.CreateCondBr(node_of(condition)->value, blocks[0], blocks[1]);
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

// ---- the kernel form -----------------------------------------------------------------------------

namespace {
Scalar flat_index(CodeGen& e, const Shape& shape, const Index& index) {
  Scalar flat = e.index(0);
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    flat = e.add(flat, e.mul(index[d], e.index(stride)));
    stride *= shape[d];
  }
  return flat;
}
}  // namespace

Scalar CodeGen::load(const Buffer& buffer, const Index& index) {
  return load_now({buffer.pointer()}, buffer.dtype(), flat_index(*this, buffer.shape(), index));
}
void CodeGen::store(const Buffer& buffer, const Index& index, Scalar value) {
  store({buffer.pointer()}, buffer.dtype(), flat_index(*this, buffer.shape(), index), value);
}
void CodeGen::copy(const Buffer& from, const Buffer& to) {
  if (from.pointer() == to.pointer()) return;  // in place
  copy_bytes({from.pointer()}, {to.pointer()},
             from.shape().num_elements() * static_cast<std::int64_t>(size_of(from.dtype())));
}

// ---- the end -------------------------------------------------------------------------------------

std::string CodeGen::ir() const { return ir_text(impl_->module); }
std::string CodeGen::assembly() { return compiler::assembly(impl_->module); }

std::shared_ptr<NativeCode> CodeGen::compile(Timing& timing) {
  CodegenTimes times;
  auto code = compile_module(impl_->module, impl_->entry_name, times);
  timing = {times.optimise, times.codegen, times.link};
  return code;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
