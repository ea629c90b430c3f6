// The inside of CodeGen: nodes, loop levels and the merging of equal instructions. LLVM is seen here.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/IR/ValueMap.h>
#include <llvm/Transforms/Utils/FunctionComparator.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/codegen/codegen.hpp"
#include "compiler/codegen/index_range.hpp"
#include "compiler/codegen/llvm_session_impl.hpp"
#include "runtime/math/vector_math.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

struct OpenLoop;

/// What a Scalar's handle points to.
struct Node {
  llvm::Value* value = nullptr;
  std::int64_t stride = 0;      ///< not 0: affine
  llvm::Value* wide = nullptr;  ///< the value as a vector, once somebody needed it
  int depth = 0;                ///< the level at which it was computed
  unsigned level = 0;           ///< the serial number of that level
  IndexRange range{};           ///< of indices: what all lanes are known to lie in
  Node* common = nullptr;  ///< with `apart`: the number to which each lane adds one that is known
  llvm::Constant* apart = nullptr;
};
inline Node* node_of(Scalar s) { return static_cast<Node*>(s.value()); }
/// For a line that will be read, into all caches.
inline void ask_for_line(llvm::IRBuilder<>& b, llvm::Value* address) {
  b.CreateIntrinsic(llvm::Intrinsic::prefetch, {b.getPtrTy()},
                    {address, b.getInt32(0), b.getInt32(3), b.getInt32(1)});
}

inline bool affine(const Node* n) { return n->stride != 0; }
inline bool is_floating(Scalar x) { return is_float(x.dtype()); }
inline bool is_boolean(Scalar x) { return x.dtype() == DType::bool_; }
inline bool is_unsigned(Scalar x) { return is_unsigned_integer(x.dtype()) || is_boolean(x); }

/// What an instruction is, for merging equal ones.
struct OpKey {
  int op = 0;
  int dtype = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  std::int64_t extra = 0;
  bool operator==(const OpKey&) const = default;
};
struct OpKeyHash {
  std::size_t operator()(const OpKey& k) const {
    std::size_t h = static_cast<std::size_t>(k.op) * 1000003u + static_cast<std::size_t>(k.dtype);
    for (const std::size_t part :
         {reinterpret_cast<std::size_t>(k.a), reinterpret_cast<std::size_t>(k.b),
          reinterpret_cast<std::size_t>(k.c), static_cast<std::size_t>(k.extra)}) {
      h = (h ^ part) * 0x9E3779B97F4A7C15u;
      h ^= h >> 29;
    }
    return h;
  }
};

enum Opcode : int {
  kNeg = 1,
  kAbs,
  kSqrt,
  kFloor,
  kCeil,
  kRoundEven,
  kRoundAway,
  kNot,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kRem,
  kMax,
  kMin,
  kAnd,
  kOr,
  kXor,
  kShl,
  kLshr,
  kAshr,
  kCompare,
  kSelect,
  kConvert,
  kBitcast,
  kFma,
  kQuads,
  kLoad,
  kField,
  kPointer,
  kOffset,
  kMask,
  kColumn,
  kRowColumn,
  kMath0
};

struct Level {
  llvm::BasicBlock* block;  ///< where the level's instructions go, in front of its terminator
  unsigned serial;
  bool pinned;  ///< loads must not leave this level (a branch or another kernel)
  int floor;    ///< nothing made here leaves this level (a branch that may not run)
};

/// The greatest or least of some vectors, in parts. The result is an instruction that uses all of these: they are there as
/// long as it is.
struct Extreme {
  bool greatest = false;
  llvm::Value* number = nullptr;   ///< the result, if none of them is NaN
  llvm::Value* ordered = nullptr;  ///< whether those that were looked at are no NaN; null: none was
  std::vector<llvm::Value*> untested;  ///< those that were not
};

/// What is put in the place of an instruction is not known to be an extreme.
struct ForgetReplaced : llvm::ValueMapConfig<llvm::Value*> {
  enum { FollowRAUW = false };
};

/// The lanes of `index`, one by one.
class Lanes {
 public:
  Lanes(llvm::IRBuilder<>& b, llvm::Value* indices) : b_(b), all_(indices) {
    using namespace llvm::PatternMatch;
    const auto* const type = llvm::cast<llvm::FixedVectorType>(indices->getType());
    const unsigned count = type->getNumElements();
    // Of indices of 32 bits, which are inside and so not below 0, two are taken at once.
    llvm::Value* narrow = nullptr;
    if (count % 2 != 0 || !match(indices, m_SExt(m_Value(narrow))) ||
        narrow->getType()->getScalarType() != b.getInt32Ty())
      return;
    twos_ = b.CreateBitCast(narrow, llvm::FixedVectorType::get(b.getInt64Ty(), count / 2));
    // LLVM 19 forgets to cut the lower one of two off where it knows that lanes are small and scales them: what cuts off
    // comes out of assembly, which nothing is known of.
    auto* const type_of_mask = llvm::FunctionType::get(b.getInt64Ty(), {b.getInt64Ty()}, false);
    lower_ = b.CreateCall(llvm::InlineAsm::get(type_of_mask, "", "=r,0", false),
                          {b.getInt64(UINT32_MAX)});
    lower_->setDoesNotAccessMemory();
    lower_->setDoesNotThrow();
  }
  /// In their order.
  llvm::Value* operator()(int lane) {
    const auto l = static_cast<std::uint64_t>(lane);
    if (twos_ == nullptr) return b_.CreateExtractElement(all_, l);
    if (l % 2 == 1) return b_.CreateLShr(two_, 32);
    two_ = b_.CreateExtractElement(twos_, l / 2);
    return b_.CreateAnd(two_, lower_);
  }

 private:
  llvm::IRBuilder<>& b_;
  llvm::Value *all_, *twos_ = nullptr, *two_ = nullptr;
  llvm::CallInst* lower_ = nullptr;  ///< what leaves the lower one of two
};

struct CodeGen::Impl {
  Impl(const std::string& name, Options o)
      : owned(make_module(name)),
        module(*owned.module),
        context(*owned.context),
        options(o),
        b(context) {}

  OwnedModule owned;
  llvm::Module& module;
  llvm::LLVMContext& context;
  Options options;
  llvm::IRBuilder<> b;
  llvm::Function* function = nullptr;
  enum class Kind : std::uint8_t { entry, part, kernel, segment };
  Kind kind = Kind::kernel;          // of the current function
  std::vector<std::int64_t> places;  // of the values of a kernel: arguments, results, offsets
  // By the result, of this function. Some are erased, where loops are made anew: then they are forgotten here.
  llvm::ValueMap<llvm::Value*, Extreme, ForgetReplaced> extremes;
  // By truth values that were read, or computed of such ones: the bytes that they are in memory, each 0 or 1.
  llvm::ValueMap<llvm::Value*, llvm::WeakVH, ForgetReplaced> bytes_read;
  std::multimap<std::uint64_t, llvm::Function*> functions;  // kernels and segments, by hash
  llvm::GlobalNumberState numbers;                          // of globals, for comparing functions
  std::map<llvm::Constant*, llvm::GlobalVariable*> in_memory;  // what functions read as tables
  llvm::BasicBlock* fail = nullptr;  // returns at once, from the entry point with 1
  std::deque<Node> nodes;
  std::vector<Level> levels;
  unsigned next_serial = 1;
  std::unordered_map<OpKey, Node*, OpKeyHash> made;
  std::map<std::pair<int, std::uint64_t>, Node*> constants;
  int lanes = 1, active = 1;
  bool streaming = false;
  int moved_apart = 0;  // elements, in this function, each by a load or store of its own
  std::string entry_name;
  Scalar begin, end;
  std::vector<std::unique_ptr<CodeGen>> parts;
  std::size_t size = 0;  // of the segments in this
  int num_segments = 0;

  // types
  llvm::Type* type(DType dtype);         ///< in registers (bool: i1)
  llvm::Type* memory_type(DType dtype);  ///< bool: i8
  llvm::FunctionType* segment_type() {
    return llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getInt64Ty()}, false);
  }
  llvm::FunctionType* entry_type() {
    llvm::Type* p = b.getPtrTy();
    return llvm::FunctionType::get(b.getInt32Ty(), {p, p, p}, false);
  }
  llvm::FunctionType* part_type() {
    return llvm::FunctionType::get(b.getInt32Ty(), {b.getPtrTy()}, false);
  }
  /// Entry points and their parts do, and say whether all went well; kernels are told where their values lie.
  bool knows_places() const { return kind == Kind::entry || kind == Kind::part; }
  llvm::Type* vector_type(llvm::Type* t, int n) {
    return llvm::FixedVectorType::get(t, static_cast<unsigned>(n));
  }

  // nodes
  Node* make(llvm::Value* value, int depth, std::int64_t stride = 0);
  bool live(const Node* n) const {
    return n->depth < static_cast<int>(levels.size()) &&
           levels[static_cast<std::size_t>(n->depth)].serial == n->level;
  }
  int depth() const { return static_cast<int>(levels.size()) - 1; }
  int pinned_depth() const;
  /// Of which types it is known what numbers lie in: those of indices.
  static bool has_range(DType dtype) { return dtype == DType::i64 || dtype == DType::i32; }
  /// What all lanes are known to lie in; said of a number, unless its type does not hold that.
  static IndexRange range(Scalar x);
  static Scalar with_range(Scalar x, IndexRange range);
  /// Sums, differences and products of which more is known than of other numbers: only what all lanes share is computed.
  /// Nothing where they are like others.
  std::optional<Scalar> index_sum(CodeGen& gen, Scalar a, Scalar c);
  std::optional<Scalar> index_difference(CodeGen& gen, Scalar a, Scalar c);
  std::optional<Scalar> index_product(CodeGen& gen, Scalar a, Scalar c);
  /// The node of an i64 constant.
  Node* constant_node(std::int64_t v);
  /// Positions the builder at the end of a level.
  void at(int depth);
  /// 1 for uniform nodes, else the lanes; affine nodes count as vectors.
  int width(const Node* n) const;
  /// The value as a vector of `n` lanes, made where the builder stands.
  llvm::Value* widen(const Node& node, int n);
  /// The same, made once, where the value is.
  llvm::Value* as_vector(Node* node, int n);
  /// value or vector, as `n` says (1: uniform)
  llvm::Value* as(Node* node, int n) { return n == 1 ? node->value : as_vector(node, n); }

  void push_level(llvm::BasicBlock* block, bool pinned, bool lazy = false) {
    const int floor = lazy             ? static_cast<int>(levels.size())
                      : levels.empty() ? 0
                                       : levels.back().floor;
    levels.push_back({block, next_serial++, pinned, floor});
  }
  /// Code in a block of its own.
  void inside(const std::function<void()>& body, bool pinned);
  void pop_level() { levels.pop_back(); }
  llvm::BasicBlock* block(const char* name) {
    return llvm::BasicBlock::Create(context, name, function);
  }

  /// The instruction of that key, made by `emit(width)` if there is none yet.
  template <class Emit>
  Scalar op(OpKey key, DType result, std::initializer_list<Scalar> operands, Emit&& emit,
            std::int64_t stride = 0) {
    if (const auto found = made.find(key); found != made.end() && live(found->second)) {
      return Scalar(found->second, result);
    }
    int d = operands.size() == 0 ? 0 : levels.back().floor, w = 1;
    for (const Scalar s : operands) {
      Node* n = node_of(s);
      d = n->depth > d ? n->depth : d;
      const int nw = width(n);
      w = nw > w ? nw : w;
    }
    at(d);
    llvm::Value* value = emit(w);
    // Equal integer constants are one node, so that indices that are known compare equal.
    const auto* known = llvm::dyn_cast<llvm::ConstantInt>(value);
    Node* n = known != nullptr && stride == 0 && result == DType::i64
                  ? constant_node(known->getSExtValue())
                  : make(value, d, stride);
    made[key] = n;
    return Scalar(n, result);
  }
  template <class Emit>  // emit(x)
  Scalar unary(int opcode, Scalar x, DType result, Emit&& emit) {
    return op({opcode, static_cast<int>(result), x.value()}, result, {x},
              [&](int w) { return emit(as(node_of(x), w)); });
  }
  template <class Emit>  // emit(a, b)
  Scalar binary(int opcode, Scalar a, Scalar c, DType result, Emit&& emit, std::int64_t extra = 0) {
    return op({opcode, static_cast<int>(a.dtype()), a.value(), c.value(), nullptr, extra}, result,
              {a, c}, [&](int w) {
                llvm::Value* x = as(node_of(a), w);
                llvm::Value* y = as(node_of(c), w);
                return emit(x, y);
              });
  }
  /// Whether neither of two floating-point numbers is NaN.
  Scalar ordered(Scalar a, Scalar c) {
    constexpr std::int64_t kOrdered = -1;  // among the comparisons
    return binary(
        kCompare, a, c, DType::bool_,
        [&](llvm::Value* x, llvm::Value* y) { return b.CreateFCmpORD(x, y); }, kOrdered);
  }
  /// The greatest or the least of two floating-point numbers, NaN where one is.
  llvm::Value* extreme(bool greatest, llvm::Value* x, llvm::Value* y);
  llvm::Value* intrinsic(llvm::Intrinsic::ID id, std::initializer_list<llvm::Value*> args);
  Scalar count_bits(std::string_view name, Scalar x);
  llvm::Value* call_math(const telamon::math::MathEntry& entry, llvm::Type* vector,
                         llvm::ArrayRef<llvm::Value*> args);
  /// What a loop carries, at its head: values that come in from `before`, and later from its end.
  struct Carried {
    std::vector<llvm::PHINode*> phis;
    Scalars scalars;
  };
  Carried open_phis(const Scalars& init, const std::vector<llvm::Value*>& initial,
                    llvm::BasicBlock* before);
  /// A loop that is one block, of constant bounds; what it carries has come in from both sides.
  struct ClosedLoop {
    llvm::BasicBlock *before, *block;
    llvm::PHINode* i;
    std::int64_t begin, end, step;
  };
  /// See loop_ahead; leaves alone what would not gain by that.
  void divide_ahead(const ClosedLoop& loop);
  /// Puts a loop of several trips side by side in front of one whose trips wait for their arithmetic.
  void interleave(const OpenLoop& loop, std::int64_t trips);
  /// Mask of the active lanes; null when all are.
  llvm::Value* mask();
  /// Mask of the lanes from the first up to `count`; null for all.
  llvm::Value* mask_of(int count, int lanes);
  /// Stores a vector that lies as whole vectors do from where rows begin: past the caches, where stores do that.
  void store_whole(llvm::Value* v, llvm::Value* address, llvm::Align align);
  /// Stores the lanes of a vector from the first up to `count`, and touches nothing behind them.
  void store_lanes(llvm::Value* v, llvm::Value* address, llvm::Align align, int count);
  llvm::Value* from_memory(llvm::Value* v, DType dtype);
  llvm::Value* to_memory(llvm::Value* v, DType dtype);
  /// The bytes of truth values, where they are there, or computed of bytes that are; else null.
  llvm::Value* bytes_of(llvm::Value* truths, int depth);
  /// A field of the Context, loaded once per function. At level 0.
  llvm::Value* context_field(int field);
  /// The index or offset of a location: a constant, or in kernels an entry of their table.
  llvm::Value* place(std::int64_t index);
  /// Where a table of constants lies. Equal ones are one, or equal kernels would not be.
  llvm::GlobalVariable* address_of(llvm::Constant* table, const char* name);
  void finish_function();
  /// An earlier function that is equal, in place of this one; else this.
  llvm::Function* shared(llvm::Function* f);
  /// The address of an element, by a uniform index.
  llvm::Value* element_address(llvm::Type* t, const Node* base, const Node* index);
  /// A function of the module for what would be too much code wherever it is done: made by `code` when it is first asked
  /// for by that name. Null: it returns nothing.
  llvm::Function* helper(const std::string& name, llvm::Type* result,
                         const std::vector<llvm::Type*>& types,
                         const std::function<llvm::Value*(llvm::Function&)>& code);
  static std::string name_of(const llvm::Type* t);
  /// Elements from an address on, `step` from each to the next, a load for each lane.
  llvm::Value* load_apart(llvm::Type* t, llvm::Value* first, std::int64_t step, int w,
                          llvm::Align align);
  /// The other way round, of the lanes that are active.
  void store_apart(llvm::Value* v, llvm::Value* first, std::int64_t step, llvm::Align align);
  /// Elements by indices, a load for each lane.
  llvm::Value* load_one_by_one(llvm::Type* t, const Node* base, llvm::Value* indices,
                               llvm::Align align);
  /// Elements by constant indices that differ by less than there are lanes; null for others.
  llvm::Value* load_near(llvm::Type* t, const Node* base, llvm::Value* indices, llvm::Align align);
  /// Every second element, or third, ..., from an address on.
  llvm::Value* load_steps(llvm::Type* t, llvm::Value* first, int step, int w, llvm::Align align);
  /// Columns of rows of k elements, each of which lies at its lane.
  std::vector<llvm::Value*> load_whole_rows(llvm::Type* t, llvm::Value* first, llvm::Align align,
                                            int k, int w);
  /// The same, and the other way round, part by part, of rows that begin `step` apart.
  std::vector<llvm::Value*> load_parts_of_rows(llvm::Type* t, llvm::Value* first, llvm::Align align,
                                               int k, std::int64_t step, int w);
  void store_parts_of_rows(
      llvm::Type* t, llvm::Value* first, llvm::Align align, int k, std::int64_t step, int w,
      const std::function<std::vector<llvm::Value*>(int first, int n)>& columns);
  /// Columns of rows, which `load` makes of elements of that type.
  Scalars columns(int kind, Node* from, Node* first, DType dtype, int k, int w,
                  const std::function<std::vector<llvm::Value*>(llvm::Type*, llvm::Align)>& load);
  /// So many vectors that `code` makes of the arguments of a function, which is made when it is first asked for by that name.
  std::vector<llvm::Value*> by_function(
      const std::string& name, int count, const std::vector<llvm::Value*>& arguments,
      llvm::Type* vector, const std::function<std::vector<llvm::Value*>(llvm::Function&)>& code);
  /// Of rows that begin anywhere, at k times the numbers that the lanes of `rows` are.
  std::vector<llvm::Value*> load_rows_anywhere(llvm::Type* t, llvm::Value* base, llvm::Value* rows,
                                               llvm::Align align, int k, int w);
  /// Returns from the function when a status is not 0.
  void leave_unless_well(llvm::Value* status);
  void start_function(llvm::Function* f, Kind k);
};

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
