// Loops in stages: a chain of calls of vector functions is taken apart, and each trip does the first
// call for one vector, the second for the vector before it, and so on.
//
// A processor overlaps what is within its window of a few hundred instructions. A chain of calls
// fills that with one trip, and then a trip takes the latency of the whole chain. In stages, the calls
// of one trip do not depend on each other:
//
//   for (i = 0; i < n; ++i) y[i] = log(tanh(x[i]));
//   ->  for (i = 0; i <= n; ++i) { if (i > 0) y[i - 1] = log(t);  t = tanh(x[min(i, n - 1)]); }
//
// Each instruction is emitted once, so that code does not grow as it would by unrolling. The last
// stage, which has all the stores, is left out until there is something for it; the others work on
// zeros, or on the last vector once more, at the ends. Where there is more arithmetic than calls, the
// instructions of the stages are side by side, so that long chains of it overlap, too: the two halves
// of threefry2x32 take the time of one. What trips hand each other goes through phis, or where registers
// are too few for these, through a ring in memory.
#include <llvm/ADT/MapVector.h>

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/codegen/codegen_impl.hpp"
#include "compiler/codegen/loop_body.hpp"
#include "core/integers.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using llvm::BasicBlock;
using llvm::Instruction;
using llvm::PHINode;
using llvm::Value;

constexpr int kStageCycles = kCallCycles;
/// Loops of fewer instructions overlap as they are, and of those with a call, whose result comes late, loops of fewer than
/// kFewWithCalls (the gradient of gelu, a tanh among a dozen operations, takes 0.86 of the time in stages on Zen 3). In very
/// long ones, registers would take long to allocate.
constexpr int kFewInstructions = 2 * kCallInstructions,
              kFewWithCalls = kCallInstructions + kCallInstructions / 3,
              kManyInstructions = 64 * kCallInstructions;
constexpr int kTripsPerKept = 64;
constexpr int kMostKept = 64;    // values from trip to trip
constexpr int kMostInPhis = 16;  // of them that registers hold, about, or cheap copies

/// Which stage each instruction of a loop belongs to.
class Stages {
 public:
  explicit Stages(BasicBlock& loop) : loop_(loop) {}

  /// False where the loop, of about so many trips, is better left as it is.
  bool assign(std::int64_t trips) {
    int deepest = 0, instructions = 0, in_calls = 0;
    bool stored = false, stored_by_functions = false;
    for (Instruction& i : loop_) {
      if (llvm::isa<PHINode>(i)) continue;
      if (i.mayWriteToMemory()) {
        stored = true;
        stored_by_functions |= llvm::isa<llvm::CallInst>(i) && !llvm::isa<llvm::IntrinsicInst>(i);
      } else if (stored && i.mayReadFromMemory()) return false;
      int start = 0;  // in cycles
      for (const Value* x : i.operands()) {
        if (has(x)) start = std::max(start, of(x) + latency(*llvm::cast<Instruction>(x)));
      }
      stage_[&i] = start;
      deepest = std::max(deepest, start + latency(i));
      if (is_function_call(i)) in_calls += kCallInstructions;
      else if (latency(i) > 0) ++instructions;
    }
    // What a function stores, as many columns of rows, cannot go nowhere instead.
    side_by_side_ = instructions >= 2 * in_calls && !stored_by_functions;
    instructions += in_calls;
    // The trips at the ends are an eighth of all at most.
    const std::int64_t wanted = (deepest + kStageCycles / 2) / kStageCycles;
    count_ = static_cast<int>(std::min(wanted, 1 + trips / 8));
    const int few = in_calls > 0 ? kFewWithCalls : kFewInstructions;
    if (instructions < few || instructions > kManyInstructions || count_ < 2) return false;
    const int cycles = std::max(kStageCycles, deepest / count_);
    for (auto& [i, stage] : stage_) {
      const int start = stage;
      stage = i->mayWriteToMemory() ? count_ - 1 : std::min(start / cycles, count_ - 1);
      in_stage_[i] = start - stage * cycles;
    }
    sink();
    for (Instruction& i : loop_) {
      if (!has(&i)) continue;
      for (const Value* x : i.operands()) need(x, stage_.at(&i));
    }
    int kept = 0;
    for (const auto& [i, last] : last_use_) kept += last - of(i);
    // What is kept takes time to compile, which short loops do not win back.
    return kept <= kMostKept &&
           kept * kTripsPerKept <= detail::saturating_mul(trips, instructions) / kCallInstructions;
  }

  int count() const { return count_; }
  bool has(const Value* v) const {
    const auto* i = llvm::dyn_cast<Instruction>(v);
    return i != nullptr && stage_.contains(i);
  }
  int of(const Value* v) const { return stage_.at(llvm::cast<Instruction>(v)); }
  /// The cycle of its stage in which an instruction can start.
  int cycle_of(const Instruction* i) const { return in_stage_.at(i); }
  /// Whether most of the work is between the calls, and all stores are instructions.
  bool side_by_side() const { return side_by_side_; }
  /// The values that are kept from trip to trip, and the last stage that needs each; in the order of the loop, not of
  /// addresses, so that the code of a program is always the same.
  using Kept = llvm::MapVector<const Instruction*, int>;
  const Kept& kept() const { return last_use_; }

 private:
  // Instructions go where they are used when no more is kept for that: their operands are done again
  // there, or kept instead of them.
  void sink() {
    for (auto it = loop_.rbegin(); it != loop_.rend(); ++it) {
      Instruction& i = *it;
      if (!has(&i) || i.mayWriteToMemory() || is_function_call(i) || is_done_again(i)) continue;
      int first_use = count_;
      for (const llvm::User* u : i.users()) {
        if (has(u)) first_use = std::min(first_use, of(u));
      }
      if (first_use == count_ || first_use <= of(&i)) continue;
      int kept = 0;
      for (const Value* x : i.operands())
        kept += has(x) && !is_done_again(*llvm::cast<Instruction>(x)) ? 1 : 0;
      if (kept > 1) continue;
      stage_[&i] = first_use;
      in_stage_[&i] = 0;
    }
  }

  void need(const Value* x, int stage) {
    if (!has(x) || of(x) == stage) return;
    const auto* i = llvm::cast<Instruction>(x);
    if (is_done_again(*i)) {
      for (const Value* operand : i->operands()) need(operand, stage);
    } else {
      int& last = last_use_[i];
      last = std::max(last, stage);
    }
  }

  BasicBlock& loop_;
  std::map<const Instruction*, int> stage_;  ///< at first the cycle in which it can start
  std::map<const Instruction*, int> in_stage_;
  Kept last_use_;
  int count_ = 0;
  bool side_by_side_ = false;
};

/// Places in memory for values that are kept from trip to trip, as many for each as trips are under way that have one,
/// and filled up to a power of two.
class Ring {
 public:
  /// With zeros everywhere, in front of the loop.
  Ring(llvm::IRBuilder<>& b, const Stages& stages, const OpenLoop& loop) : b_(b), loop_(loop) {
    llvm::Function* f = loop.block->getParent();
    for (const auto& [x, last_use] : stages.kept())
      step_ = std::max<std::uint64_t>(
          step_, std::bit_ceil(f->getDataLayout().getTypeAllocSize(x->getType()).getFixedValue()));
    std::uint64_t bytes = 0;
    for (const auto& [x, last_use] : stages.kept()) {
      const std::uint64_t size =
          step_ * std::bit_ceil(static_cast<unsigned>(last_use - stages.of(x) + 1));
      lines_[x] = {bytes, size};
      bytes += size;
    }
    llvm::IRBuilder<> top(&f->getEntryBlock(), f->getEntryBlock().begin());
    llvm::AllocaInst* memory = top.CreateAlloca(top.getInt8Ty(), top.getInt64(bytes), "ring");
    memory->setAlignment(llvm::Align(step_));
    memory_ = memory;
    b.SetInsertPoint(loop.before->getTerminator());
    b.CreateMemSet(memory, b.getInt8(0), bytes, memory->getAlign());
    b.SetInsertPoint(loop.block, loop.block->getFirstNonPHIIt());
    turn_ = b.CreatePHI(b.getInt64Ty(), 2);
    turn_->addIncoming(b.getInt64(0), loop.before);
  }

  void put(const Instruction* x, Value* value) {
    b_.CreateAlignedStore(value, place(x, 0), llvm::Align(step_));
  }
  Value* get(const Instruction* x, int trips_ago) {
    return b_.CreateAlignedLoad(x->getType(), place(x, trips_ago), llvm::Align(step_));
  }
  /// At the end of a trip, which is where the builder stands.
  void turn() { turn_->addIncoming(b_.CreateAdd(turn_, b_.getInt64(step_)), b_.GetInsertBlock()); }

 private:
  struct Line {
    std::uint64_t begin, size;
  };

  Value* place(const Instruction* x, int trips_ago) {
    const Line& line = lines_.at(x);
    Value*& offset = offsets_[{trips_ago, line.size}];
    if (offset == nullptr) {
      llvm::IRBuilder<> head(loop_.block, loop_.block->getFirstNonPHIIt());
      const std::uint64_t back = step_ * static_cast<std::uint64_t>(trips_ago);
      offset = head.CreateAnd(head.CreateSub(turn_, head.getInt64(back)), line.size - 1);
    }
    llvm::Type* byte = b_.getInt8Ty();
    return b_.CreateGEP(byte, b_.CreateConstGEP1_64(byte, memory_, line.begin), offset);
  }

  llvm::IRBuilder<>& b_;
  const OpenLoop& loop_;
  std::uint64_t step_ = 1;  ///< bytes
  std::map<const Instruction*, Line> lines_;
  Value* memory_;
  PHINode* turn_;
  std::map<std::pair<int, std::uint64_t>, Value*> offsets_;  ///< of a trip ago, in a line
};

/// Writes the stages in the place of `loop`, a block of trips `i` from `begin` to `stop`.
class StageWriter {
 public:
  StageWriter(llvm::IRBuilder<>& b, const Stages& stages, const OpenLoop& loop)
      : b_(b), stages_(stages), loop_(loop) {}

  void run() {
    const int last = stages_.count() - 1;
    for (Instruction& x : *loop_.block) {
      if (stages_.has(&x)) body_.push_back(&x);
    }
    b_.SetInsertPoint(loop_.before->getTerminator());
    last_base_ = b_.CreateSub(loop_.stop, number(loop_.step));
    Value* full = b_.CreateAdd(loop_.begin, number(lag(last)));  // where the last stage begins
    Value* stop = b_.CreateAdd(loop_.stop, number(lag(last)));
    if (stages_.kept().size() > kMostInPhis) ring_.emplace(b_, stages_, loop_);
    else open_phis();

    b_.SetInsertPoint(loop_.block);
    here_.resize(static_cast<std::size_t>(stages_.count()));
    full_ = b_.CreateICmpSGE(loop_.i, full);
    if (stages_.side_by_side()) side_by_side();
    else in_turn();
    if (ring_) ring_->turn();
    Value* following = b_.CreateAdd(loop_.i, number(loop_.step), "", true, true);
    b_.CreateCondBr(b_.CreateICmpSLT(following, stop), loop_.block, loop_.exit);
    BasicBlock* latch = b_.GetInsertBlock();
    loop_.i->addIncoming(following, latch);
    for (auto& [x, line] : delayed_) {
      Value* value = made_.at(x);
      for (PHINode* phi : line) {
        phi->addIncoming(value, latch);
        value = phi;
      }
    }
    for (auto x = body_.rbegin(); x != body_.rend(); ++x) (*x)->eraseFromParent();
  }

 private:
  llvm::ConstantInt* number(std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); }
  /// How far a stage is behind the first.
  std::int64_t lag(int stage) const { return stage * loop_.step; }

  // What is kept moves on by one phi per trip.
  void open_phis() {
    for (const auto& [x, last_use] : stages_.kept()) {
      b_.SetInsertPoint(loop_.block, loop_.block->getFirstNonPHIIt());
      for (int n = stages_.of(x); n < last_use; ++n) {
        PHINode* phi = b_.CreatePHI(x->getType(), 2);
        phi->addIncoming(llvm::Constant::getNullValue(x->getType()), loop_.before);
        delayed_[x].push_back(phi);
      }
    }
  }

  // One after the other; the last one, which has all the stores, is left out at the beginning.
  void in_turn() {
    const int last = stages_.count() - 1;
    for (int s = 0; s < last; ++s) stage(s);
    BasicBlock* store = block("last_stage");
    BasicBlock* next = block("next");
    b_.CreateCondBr(full_, store, next);
    b_.SetInsertPoint(store);
    stage(last);
    b_.CreateBr(next);
    b_.SetInsertPoint(next);
  }
  void stage(int s) {
    bool stored = false;
    for (auto x = body_.begin(); x != body_.end(); ++x) {
      if (stages_.of(*x) != s) continue;
      if (!stored && (*x)->mayWriteToMemory()) {
        stored = true;
        load_for(x, s);
      }
      make(**x, s);
    }
  }
  // What instructions of a stage from `first` on load again, before the first of them writes: perhaps where that is.
  void load_for(std::vector<Instruction*>::const_iterator first, int s) {
    for (; first != body_.end(); ++first) {
      if (stages_.of(*first) == s) load_operands(**first, s);
    }
  }
  void load_operands(const Instruction& x, int s) {
    for (Value* operand : x.operands()) {
      if (!stages_.has(operand) || here(s).contains(operand)) continue;
      const auto& made_by = llvm::cast<Instruction>(*operand);
      // Others were made in this stage, or kept.
      if (!is_done_again(made_by)) continue;
      if (made_by.mayReadFromMemory()) find(operand, s);
      else load_operands(made_by, s);
    }
  }

  // All but the last in the order of the cycles of each: a processor looks ahead by fewer instructions
  // than a stage may have. Each call begins a block, for within a block LLVM brings the instructions of
  // one stage together again. So it does with a branch around the last stage: at the beginning, that
  // stores where nobody looks instead.
  void side_by_side() {
    const int last = stages_.count() - 1;
    nowhere_ = make_nowhere();
    std::vector<std::pair<int, std::size_t>> order;  // the cycle, the place in the body
    for (std::size_t i = 0; i < body_.size(); ++i) {
      if (stages_.of(body_[i]) < last) order.emplace_back(stages_.cycle_of(body_[i]), i);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [cycle, place] : order) {
      const Instruction* x = body_[place];
      if (is_function_call(*x)) {
        BasicBlock* next = block("call");
        b_.CreateBr(next);
        b_.SetInsertPoint(next);
      }
      make(*x, stages_.of(x));
    }
    BasicBlock* store = block("last_stage");
    b_.CreateBr(store);
    b_.SetInsertPoint(store);
    stage(last);
  }
  BasicBlock* block(const char* name) {
    return BasicBlock::Create(b_.getContext(), name, loop_.block->getParent());
  }

  void make(const Instruction& x, int stage) {
    made_[&x] = do_again(x, stage);
    if (ring_ && stages_.kept().contains(&x)) ring_->put(&x, made_[&x]);
  }
  std::map<const Value*, Value*>& here(int stage) { return here_[static_cast<std::size_t>(stage)]; }
  Value* do_again(const Instruction& x, int stage) {
    Instruction* copy = x.clone();
    for (llvm::Use& operand : copy->operands()) operand.set(find(operand.get(), stage));
    if (x.mayWriteToMemory() && nowhere_ != nullptr) store_when_full(*copy);
    return here(stage)[&x] = b_.Insert(copy);
  }
  /// A value of the loop, in a stage.
  Value* find(Value* x, int stage) {
    if (const auto found = here(stage).find(x); found != here(stage).end()) return found->second;
    if (x == loop_.i) return here(stage)[x] = index(stage);
    if (!stages_.has(x)) return x;
    const auto* original = llvm::cast<Instruction>(x);
    if (ring_ && stages_.kept().contains(original))
      return ring_->get(original, stage - stages_.of(x));
    if (const auto found = delayed_.find(original); found != delayed_.end()) {
      return found->second[static_cast<std::size_t>(stage - stages_.of(x) - 1)];
    }
    return do_again(*original, stage);
  }
  void store_when_full(Instruction& store) {
    constexpr unsigned kAddress = 1;  // the operand, also of masked stores and scatters
    Value* address = store.getOperand(kAddress);
    Value* nowhere = nowhere_;
    if (const auto* many = llvm::dyn_cast<llvm::VectorType>(address->getType()))
      nowhere = b_.CreateVectorSplat(many->getElementCount(), nowhere);
    store.setOperand(kAddress, b_.CreateSelect(full_, address, nowhere));
  }
  llvm::AllocaInst* make_nowhere() {
    constexpr std::uint64_t kLine = 64;
    llvm::Function* f = loop_.block->getParent();
    std::uint64_t bytes = kLine;
    for (const Instruction* x : body_) {
      if (x->mayWriteToMemory())
        bytes = std::max<std::uint64_t>(
            bytes, f->getDataLayout().getTypeAllocSize(x->getOperand(0)->getType()));
    }
    llvm::IRBuilder<> top(&f->getEntryBlock(), f->getEntryBlock().begin());
    llvm::AllocaInst* place = top.CreateAlloca(top.getInt8Ty(), top.getInt64(bytes));
    place->setAlignment(llvm::Align(kLine));
    return place;
  }
  Value* index(int stage) {
    if (stage == 0) return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, loop_.i, last_base_);
    Value* i = b_.CreateSub(loop_.i, number(lag(stage)));
    const bool is_last = stage + 1 == stages_.count();
    if (is_last && nowhere_ == nullptr) return i;
    i = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, i, loop_.begin);
    if (is_last) return i;
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, i, last_base_);
  }

  llvm::IRBuilder<>& b_;
  const Stages& stages_;
  OpenLoop loop_;
  std::vector<Instruction*> body_;
  Value* last_base_ = nullptr;
  /// What there is of the loop's values in each stage.
  std::vector<std::map<const Value*, Value*>> here_;
  std::optional<Ring> ring_;  ///< instead of phis
  Value* full_ = nullptr;     ///< whether the last stage has something to store
  Value* nowhere_ = nullptr;
  std::map<const Instruction*, Value*> made_;
  std::map<const Instruction*, std::vector<PHINode*>> delayed_;  ///< by one trip, by two, ...
};

}  // namespace

void CodeGen::loop_overlapping(Scalar begin, Scalar end, std::int64_t step, std::int64_t trips,
                               Overlap overlap, const std::function<void(Scalar i)>& body) {
  Impl& m = *impl_;
  const std::optional<KnownBounds> known = known_bounds(begin, end);
  if (trips < 8 ||
      (known && ((known->last - known->first) % step != 0 || known->last <= known->first + step))) {
    loop_carried(begin, end, step, {}, [&](Scalar i, const Scalars&) {
      body(i);
      return Scalars{};
    });
    return;
  }
  m.at(m.depth());
  BasicBlock* before = m.b.GetInsertBlock();
  BasicBlock* loop = m.block("loop");
  BasicBlock* exit = m.block("done");
  Value *start = node_of(begin)->value, *stop = node_of(end)->value;
  if (known) m.b.CreateBr(loop);
  else m.b.CreateCondBr(m.b.CreateICmpSLT(start, stop), loop, exit);

  m.push_level(loop, false);
  m.b.SetInsertPoint(loop);
  auto* i = m.b.CreatePHI(m.b.getInt64Ty(), 2, "i");
  i->addIncoming(start, before);
  body(Scalar(m.make(i, m.depth()), DType::i64));
  m.at(m.depth());
  BasicBlock* latch = m.b.GetInsertBlock();
  const OpenLoop whole{before, loop, exit, i, start, stop, step};
  Stages stages(*loop);
  if (latch == loop && overlap.stages && stages.assign(trips)) {
    StageWriter(m.b, stages, whole).run();
  } else {
    if (latch == loop && overlap.interleave) m.interleave(whole, trips);
    Value* next = m.b.CreateAdd(i, m.b.getInt64(static_cast<std::uint64_t>(step)), "", true, true);
    m.b.CreateCondBr(m.b.CreateICmpSLT(next, stop), loop, exit);
    i->addIncoming(next, latch);
  }
  m.pop_level();
  m.levels.back().block = exit;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
