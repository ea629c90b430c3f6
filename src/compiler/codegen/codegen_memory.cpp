// Memory of CodeGen: addresses, loads and stores of numbers and vectors.
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/PatternMatch.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "compiler/codegen/codegen_impl.hpp"
#include "compiler/codegen/llvm_session_impl.hpp"
#include "core/integers.hpp"
#include "runtime/target_isa.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

using llvm::Value;

Value* CodeGen::Impl::context_field(int field) {
  if (kind == Kind::entry && field < 2) return function->getArg(static_cast<unsigned>(field + 1));
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
  if (knows_places()) return b.getInt64(static_cast<std::uint64_t>(index));
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

Pointer CodeGen::pointer_to(Scalar address) {
  Impl& m = *impl_;
  m.at(m.depth());
  return {m.make(m.b.CreateIntToPtr(node_of(address)->value, m.b.getPtrTy()), m.depth())};
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
      // One after the other, or the order of instructions would be the choice of the C++ compiler.
      Value* const offset = m.place(where.index);
      Value* const base = m.context_field(where.kind == Location::Kind::arena ? 2 : 3);
      return m.b.CreateInBoundsGEP(m.b.getInt8Ty(), base, offset);
    }
    if (where.kind == Location::Kind::none)
      throw InternalError("a value without memory is addressed");
    Value* table = m.context_field(where.kind == Location::Kind::argument ? 0 : 1);
    return m.b.CreateLoad(m.b.getPtrTy(),
                          m.b.CreateInBoundsGEP(m.b.getPtrTy(), table, m.place(where.index)));
  });
  return {p.value()};
}

std::int64_t CodeGen::add_places(std::span<const std::int64_t> indices) {
  Impl& m = *impl_;
  if (m.knows_places()) throw InternalError("an entry point has no table of places");
  const auto first = static_cast<std::int64_t>(m.places.size());
  m.places.insert(m.places.end(), indices.begin(), indices.end());
  return first;
}

Scalar CodeGen::place_at(std::int64_t first, Scalar i) {
  Impl& m = *impl_;
  m.at(m.depth());
  Value* entry = m.b.CreateInBoundsGEP(
      m.b.getInt64Ty(), m.function->getArg(3),
      m.b.CreateAdd(node_of(i)->value, m.b.getInt64(static_cast<std::uint64_t>(first))));
  return Scalar(m.make(m.b.CreateLoad(m.b.getInt64Ty(), entry), m.depth()), DType::i64);
}

Pointer CodeGen::pointer(Location::Kind kind, Scalar index) {
  using Kind = Location::Kind;
  Impl& m = *impl_;
  const bool listed = kind == Kind::argument || kind == Kind::result || kind == Kind::in_result;
  const bool in_chunk = kind == Kind::chunk || kind == Kind::chunk_slot;
  Value* base = m.context_field(listed ? (kind == Kind::argument ? 0 : 1) : in_chunk ? 3 : 2);
  m.at(m.depth());
  llvm::Type* unit = m.b.getInt8Ty();
  if (listed) unit = m.b.getPtrTy();
  Value* p = m.b.CreateInBoundsGEP(unit, base, node_of(index)->value);
  if (kind != Kind::arena && kind != Kind::chunk) p = m.b.CreateLoad(m.b.getPtrTy(), p);
  return {m.make(p, m.depth())};
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
  if (dtype != DType::bool_) return v;
  Value* truth = b.CreateICmpNE(v, llvm::Constant::getNullValue(v->getType()));
  if (llvm::isa<llvm::Instruction>(truth)) bytes_read[truth] = v;
  return truth;
}
// What is computed of bytes lies beside what it stands for, where all that reads that finds it, too.
Value* CodeGen::Impl::bytes_of(Value* truths, int depth) {
  if (const auto found = bytes_read.find(truths); found != bytes_read.end() && found->second)
    return found->second;
  llvm::Type* const t = truths->getType()->getWithNewType(b.getInt8Ty());
  if (const auto* c = llvm::dyn_cast<llvm::Constant>(truths)) {
    if (c->isNullValue()) return llvm::Constant::getNullValue(t);
    return c->isAllOnesValue() ? llvm::ConstantInt::get(t, 1) : nullptr;
  }
  auto* const op = llvm::dyn_cast<llvm::BinaryOperator>(truths);
  if (op == nullptr || depth == 0 || !op->isBitwiseLogicOp()) return nullptr;
  Value* const x = bytes_of(op->getOperand(0), depth - 1);
  Value* const y = x == nullptr ? nullptr : bytes_of(op->getOperand(1), depth - 1);
  if (y == nullptr) return nullptr;
  const llvm::IRBuilderBase::InsertPointGuard guard(b);
  if (llvm::Instruction* const next = op->getNextNode()) b.SetInsertPoint(next);
  else b.SetInsertPoint(op->getParent());
  Value* const bytes = b.CreateBinOp(op->getOpcode(), x, y);
  bytes_read[truths] = bytes;
  return bytes;
}
constexpr int kDeepest = 8;  // operations, one after the other, that are looked at
Value* CodeGen::Impl::to_memory(Value* v, DType dtype) {
  if (dtype != DType::bool_) return v;
  if (Value* const bytes = bytes_of(v, kDeepest)) return bytes;
  llvm::Type* t = b.getInt8Ty();
  if (const auto* vt = llvm::dyn_cast<llvm::FixedVectorType>(v->getType()))
    t = llvm::FixedVectorType::get(t, vt->getNumElements());
  return b.CreateZExt(v, t);
}

constexpr std::int64_t kLongestStep = 4;  // between elements of which whole vectors are read
constexpr std::int64_t kMostNear = 4;     // of these, for elements at known places

// Whether processors have loads of some elements of a vector, of so many bits each.
static bool has_masked_loads(std::int64_t bits) {
  const runtime::Isa isa = runtime::target_isa();
  return isa == runtime::Isa::avx512 || (isa == runtime::Isa::avx2 && bits >= 32);
}

// Whether processors have stores of the elements of a vector to places of their own. LLVM would take each place out of a
// vector of addresses.
static bool has_scatters(std::int64_t bits) {
  return runtime::target_isa() == runtime::Isa::avx512 && bits >= 32;
}

// Elements at known places, or known but for a number that all have in common, that lie within one vector, as at the ends
// of rows that are rolled or padded, or within a few, as every other of short rows: one load, of no more than lies between
// them, or several, and as many permutations.
Value* CodeGen::Impl::load_near(llvm::Type* t, const Node* base, Value* indices,
                                llvm::Align align) {
  using namespace llvm::PatternMatch;
  Value *from = nullptr, *some = nullptr;
  llvm::Constant* known = llvm::dyn_cast<llvm::Constant>(indices);
  if (known == nullptr) {
    if (!match(indices, m_c_Add(m_Value(some), m_ImmConstant(known)))) return nullptr;
    from = llvm::getSplatValue(some);
    if (from == nullptr) return nullptr;
  }
  const int all =
      static_cast<int>(llvm::cast<llvm::FixedVectorType>(indices->getType())->getNumElements());
  const int count = mask() == nullptr ? all : active;
  std::vector<std::int64_t> at;
  for (int l = 0; l < count; ++l) {
    const auto* one = llvm::dyn_cast_or_null<llvm::ConstantInt>(
        known->getAggregateElement(static_cast<unsigned>(l)));
    if (one == nullptr) return nullptr;
    at.push_back(one->getSExtValue());
  }
  const auto [low, high] = std::minmax_element(at.begin(), at.end());
  const std::int64_t first = *low, span = *high - first + 1;
  // What a tail has room for may be spread over more than it: a whole vector is read.
  const std::int64_t bits = t->getScalarSizeInBits();
  const std::int64_t most = std::max<std::int64_t>(
      8 * runtime::target_vector_bytes() / std::max<std::int64_t>(bits, 8), all);
  const auto size = static_cast<std::uint64_t>(span);
  // Where a masked load would be one of each element, two that overlap are of what lies there.
  const auto room = has_masked_loads(bits) || span == 1
                        ? std::clamp<std::int64_t>(std::bit_ceil(size), all, most)
                        : std::min<std::int64_t>(std::bit_floor(size), most);
  const bool several = span > room;
  if (span > kMostNear * room || (several && count < all)) return nullptr;
  llvm::Type* vt = vector_type(t, static_cast<int>(room));
  llvm::Constant* const zeros = llvm::Constant::getNullValue(vt);
  const auto load = [&](std::int64_t skipped) -> Value* {
    std::vector<llvm::Constant*> read;
    for (std::int64_t l = 0; l < room; ++l) read.push_back(b.getInt1(skipped + l < span));
    Value* place = b.getInt64(static_cast<std::uint64_t>(first + skipped));
    if (from != nullptr) place = b.CreateAdd(from, place);
    return b.CreateMaskedLoad(vt, b.CreateGEP(t, base->value, place), align,
                              llvm::ConstantVector::get(read), zeros);
  };
  Value* const lower = load(0);
  if (!several) {
    std::vector<int> lanes;
    for (int l = 0; l < all; ++l)
      lanes.push_back(static_cast<int>(l < count ? at[static_cast<std::size_t>(l)] - first : room));
    return b.CreateShuffleVector(lower, zeros, lanes);
  }
  // Whole vectors, of which the last ends with the last element: each after the first is a shuffle.
  Value* near = lower;
  for (std::int64_t done = room; done < span; done += room) {
    const std::int64_t next = std::min(done, span - room);
    const bool is_last = done + room >= span;
    std::vector<int> lanes;
    for (int l = 0; l < (is_last ? all : static_cast<int>(room)); ++l) {
      const std::int64_t place = l < all ? at[static_cast<std::size_t>(l)] - first : span;
      const std::int64_t before = done == room ? place : l;  // it is in its lane by then
      lanes.push_back(static_cast<int>(place < done          ? before
                                       : place < done + room ? room + place - next
                                                             : -1));
    }
    near = b.CreateShuffleVector(near, load(next), lanes);
  }
  return near;
}

Value* CodeGen::Impl::mask_of(int count, int of) {
  if (count >= of) return nullptr;
  std::vector<llvm::Constant*> bits;
  for (int l = 0; l < of; ++l) bits.push_back(b.getInt1(l < count));
  return llvm::ConstantVector::get(bits);
}

// Processors without masks of their own take long for such a store (tens of operations on Zen 2 and 3), or have none:
// there it is a few of half as many lanes each.
void CodeGen::Impl::store_lanes(Value* v, Value* address, llvm::Align align, int count) {
  const auto* const type = llvm::cast<llvm::FixedVectorType>(v->getType());
  Value* const mask = mask_of(count, static_cast<int>(type->getNumElements()));
  if (mask == nullptr) {
    b.CreateAlignedStore(v, address, align);
  } else if (runtime::target_isa() == runtime::Isa::avx512) {
    b.CreateMaskedStore(v, address, align, mask);
  } else {
    for (int first = 0; first < count;) {
      const auto left = static_cast<unsigned>(count - first);
      const auto some = static_cast<int>(std::bit_floor(left));
      std::vector<int> lanes_of(static_cast<std::size_t>(some));
      std::iota(lanes_of.begin(), lanes_of.end(), first);
      Value* const part = some == 1 ? b.CreateExtractElement(v, static_cast<std::uint64_t>(first))
                                    : b.CreateShuffleVector(v, lanes_of);
      b.CreateAlignedStore(
          part,
          b.CreateConstGEP1_64(type->getElementType(), address, static_cast<std::uint64_t>(first)),
          align);
      first += some;
    }
  }
}

void CodeGen::Impl::store_whole(Value* v, Value* address, llvm::Align align) {
  if (!streaming) {
    b.CreateAlignedStore(v, address, align);
    return;
  }
  const auto bytes =
      b.GetInsertBlock()->getModule()->getDataLayout().getTypeStoreSize(v->getType());
  auto* s = b.CreateAlignedStore(v, address, llvm::Align(bytes.getFixedValue()));
  s->setMetadata(llvm::LLVMContext::MD_nontemporal,
                 llvm::MDNode::get(context, llvm::ConstantAsMetadata::get(b.getInt32(1))));
}

Scalar CodeGen::load(Pointer from, DType dtype, Scalar index) {
  Impl& m = *impl_;
  Node *p = static_cast<Node*>(from.handle), *i = node_of(index);
  const int w = m.width(i);
  // A single number is the same for any lanes.
  const int active = w == 1 && i->stride == 0 ? 0 : m.active;
  const OpKey key{kLoad, static_cast<int>(dtype), p, i, nullptr, active};
  if (const auto found = m.made.find(key); found != m.made.end() && m.live(found->second)) {
    return Scalar(found->second, dtype);
  }
  const int d = std::max({p->depth, i->depth, m.pinned_depth()});
  m.at(d);
  llvm::Type* t = m.memory_type(dtype);
  const llvm::Align align(std::max<std::size_t>(size_of(dtype), 1));
  Value* v;
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
    } else if (mask == nullptr && i->stride >= 2 && i->stride <= kLongestStep) {
      v = m.load_steps(t, m.element_address(t, p, i), static_cast<int>(i->stride), w, align);
    } else if (std::abs(i->stride) > kLongestStep && gathers_one_by_one()) {
      v = m.load_apart(t, m.element_address(t, p, i), i->stride, w, align);
    } else if (Value* near = m.load_near(t, p, m.as_vector(i, w), align)) {
      v = near;
    } else if (gathers_one_by_one()) {
      v = m.load_one_by_one(t, p, m.as_vector(i, w), align);
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
  if (const int w = m.width(node_of(index)); w > 1) t = m.vector_type(t, w);
  Value* v =
      m.b.CreateAlignedLoad(t, address, llvm::Align(std::max<std::size_t>(size_of(dtype), 1)));
  return Scalar(m.make(m.from_memory(v, dtype), m.depth()), dtype);
}

Scalar CodeGen::load_bits(Pointer from, Scalar byte) {
  Impl& m = *impl_;
  m.at(m.depth());
  Value* address =
      m.element_address(m.b.getInt8Ty(), static_cast<Node*>(from.handle), node_of(byte));
  Value* v =
      m.b.CreateAlignedLoad(m.vector_type(m.b.getInt1Ty(), m.lanes), address, llvm::Align(1));
  return Scalar(m.make(v, m.depth()), DType::bool_);
}

Scalar CodeGen::load_pairs(Pointer from, DType dtype, Scalar first) {
  Impl& m = *impl_;
  m.at(m.depth());
  llvm::Type *t = m.memory_type(dtype), *halves = m.vector_type(m.b.getInt16Ty(), 2 * m.lanes);
  Value* v =
      m.b.CreateAlignedLoad(m.vector_type(t, 2 * m.lanes),
                            m.element_address(t, static_cast<Node*>(from.handle), node_of(first)),
                            llvm::Align(size_of(dtype)));
  v = dtype == DType::u8 ? m.b.CreateZExt(v, halves) : m.b.CreateSExt(v, halves);
  v = m.b.CreateBitCast(v, m.vector_type(m.b.getInt32Ty(), m.lanes));
  return Scalar(m.make(v, m.depth()), DType::i32);
}

Scalar CodeGen::load_quads(Pointer from, DType dtype, Scalar first, int count) {
  Impl& m = *impl_;
  m.at(m.depth());
  Value* address =
      m.element_address(m.memory_type(dtype), static_cast<Node*>(from.handle), node_of(first));
  llvm::Type* number = m.b.getInt32Ty();
  Value* v = m.b.CreateAlignedLoad(count == 1 ? number : m.vector_type(number, count), address,
                                   llvm::Align(1));
  return Scalar(m.make(v, m.depth()), DType::i32);
}

void CodeGen::store_bits(Pointer to, Scalar byte, Scalar conditions) {
  Impl& m = *impl_;
  m.at(m.depth());
  m.b.CreateAlignedStore(
      m.as_vector(node_of(conditions), m.lanes),
      m.element_address(m.b.getInt8Ty(), static_cast<Node*>(to.handle), node_of(byte)),
      llvm::Align(1));
}

void CodeGen::store(Pointer to, DType dtype, Scalar index, Scalar value) {
  Impl& m = *impl_;
  Node *p = static_cast<Node*>(to.handle), *i = node_of(index);
  m.at(m.depth());
  llvm::Type* t = m.memory_type(dtype);
  const llvm::Align align(std::max<std::size_t>(size_of(dtype), 1));
  const int w = m.width(i);
  if (w == 1) {
    if (m.width(node_of(value)) != 1)
      throw InternalError("generated code would store a vector where there is room for a number");
    m.b.CreateAlignedStore(m.to_memory(node_of(value)->value, dtype), m.element_address(t, p, i),
                           align);
    return;
  }
  Value* v = m.to_memory(m.as_vector(node_of(value), w), dtype);
  Value* mask = m.mask();
  if (i->stride == 1) {
    Value* address = m.element_address(t, p, i);
    if (mask != nullptr) m.store_lanes(v, address, align, m.active);
    else m.store_whole(v, address, align);
    return;
  }
  if (affine(i) && !has_scatters(t->getScalarSizeInBits()))
    return m.store_apart(v, m.element_address(t, p, i), i->stride, align);
  Value* addresses = m.b.CreateGEP(t, p->value, m.as_vector(i, w));
  if (mask == nullptr) mask = llvm::Constant::getAllOnesValue(m.vector_type(m.b.getInt1Ty(), w));
  m.b.CreateMaskedScatter(v, addresses, align, mask);
}

void CodeGen::prefetch(Pointer from, DType dtype, Scalar index) {
  Impl& m = *impl_;
  m.at(m.depth());
  if (node_of(index)->value->getType()->isVectorTy()) return;  // lanes all over the place
  Value* address = m.b.CreateGEP(m.memory_type(dtype), static_cast<Node*>(from.handle)->value,
                                 node_of(index)->value);
  ask_for_line(m.b, address);
}

void CodeGen::copy_bytes(Pointer from, Pointer to, Scalar bytes) {
  Impl& m = *impl_;
  m.at(m.depth());
  m.b.CreateMemMove(static_cast<Node*>(to.handle)->value, llvm::MaybeAlign(1),
                    static_cast<Node*>(from.handle)->value, llvm::MaybeAlign(1),
                    node_of(bytes)->value);
}

void CodeGen::set_streaming(bool on) { impl_->streaming = on; }

void CodeGen::finish_streaming() {
#if defined(__x86_64__)
  Impl& m = *impl_;
  m.at(m.depth());
  m.b.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
#endif
}

// ---- the kernel form -----------------------------------------------------------------------------

Scalar CodeGen::flat_index(const Shape& shape, const Index& at) {
  // What changes in outer loops only is added there, and once.
  const auto outer_first = [](const Scalar& x, const Scalar& y) {
    return node_of(x)->depth < node_of(y)->depth;
  };
  std::vector<Scalar> terms;
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1) {
      const Scalar term = mul(at[d], index(stride));
      terms.insert(std::upper_bound(terms.begin(), terms.end(), term, outer_first), term);
    }
    stride = detail::wrapping_mul(stride, shape[d]);
  }
  Scalar flat = index(0);
  for (const Scalar& term : terms) flat = add(term, flat);
  return flat;
}

Scalar CodeGen::load(const Buffer& buffer, const Index& index) {
  return load_now({buffer.pointer()}, buffer.dtype(), flat_index(buffer.shape(), index));
}
void CodeGen::store(const Buffer& buffer, const Index& index, Scalar value) {
  store({buffer.pointer()}, buffer.dtype(), flat_index(buffer.shape(), index), value);
}
void CodeGen::copy(const Buffer& from, const Buffer& to) {
  if (from.pointer() == to.pointer()) return;  // in place
  copy_bytes({from.pointer()}, {to.pointer()},
             index(from.shape().num_elements() * static_cast<std::int64_t>(size_of(from.dtype()))));
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
