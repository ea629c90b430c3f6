// Columns of arrays with short rows, as of points in space: whole vectors are read and written, and
// rearranged in registers, where a lane per row would take an access per element.
#include <algorithm>
#include <bit>
#include <climits>
#include <numeric>
#include <span>

#include "compiler/codegen/codegen_impl.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

using llvm::Value;
using Vectors = std::vector<Value*>;

constexpr int kRegister = 16;  // bytes: of all processors

// Columns that are put together or taken apart in place: of more, each part of the rows is a call, since LLVM takes 0.1 ms and
// more for each shuffle.
constexpr int kMostInPlace = 32;
// Elements of rows that are looked up there by one function.
constexpr int kMostApart = 256;

/// Whether whole vectors of rows of k take more shuffles than parts of each row take loads or stores. On Zen 3 with AVX2,
/// parts of rows of 4 take 0.6 to 0.85 of the time, of 6 or more 0.4 to 0.8, of 2 and 3 1.1 to 1.5. With 16 lanes, where any
/// shuffle is one instruction, counted are instructions. Stores that go past the caches are of whole vectors, beside which
/// the shuffles hardly count (rows of 6, 9, 12 f32: 0.7 to 0.85).
bool takes_parts(int k, int lanes, bool streaming) {
  constexpr int kLongest = 16;  // of longer ones all parts but the last are whole vectors
  if (streaming && k % lanes != 0 && k <= kMostInPlace) return false;
  return lanes >= 16 ? k > kLongest || (k > 8 && k % 4 != 0) : k > 3;
}

/// As what numbers are shuffled: integers as floats of their size. Which lane goes where is loaded for each shuffle if there
/// are many, and LLVM packs those of integers into bytes, which then have to be unpacked (maxima of 80,000 rows of seven
/// i32 on Zen 4 with AVX-512: 0.75 of the time).
llvm::Type* shuffled_as(llvm::IRBuilder<>& b, llvm::Type* t) {
  if (t->isIntegerTy(32)) return b.getFloatTy();
  return t->isIntegerTy(64) ? b.getDoubleTy() : t;
}

/// The lanes `of` (lane, vector) of several vectors, in one: each further vector is a shuffle.
template <class Of>
Value* gather_lanes(llvm::IRBuilder<>& b, const Vectors& from, int lanes, Of&& of) {
  Value* out = nullptr;
  for (std::size_t v = 0; v < from.size(); ++v) {
    std::vector<int> order;
    bool used = false;
    for (int l = 0; l < lanes; ++l) {
      const auto [lane, vector] = of(l);
      const bool here = vector == static_cast<int>(v);
      used |= here;
      order.push_back(here ? (v == 0 ? lane : lanes + lane) : v == 0 ? -1 : l);
    }
    if (!used) continue;
    if (v == 0) {
      out = from.size() == 1 ? b.CreateShuffleVector(from[0], order) : nullptr;
      if (out != nullptr) continue;
      // Together with the next vector: one shuffle of two.
      std::vector<int> both;
      for (int l = 0; l < lanes; ++l) {
        const auto [lane, vector] = of(l);
        both.push_back(vector == 0 ? lane : vector == 1 ? lanes + lane : -1);
      }
      out = b.CreateShuffleVector(from[0], from[1], both);
      ++v;
      continue;
    }
    if (out == nullptr) out = llvm::PoisonValue::get(from[v]->getType());
    out = b.CreateShuffleVector(out, from[v], order);
  }
  return out;
}

Vectors every_second(llvm::IRBuilder<>& b, const Vectors& from, int lanes, int first) {
  std::vector<int> order;
  for (int l = 0; l < lanes; ++l) order.push_back(2 * l + first);
  Vectors out;
  for (std::size_t v = 0; v < from.size(); v += 2)
    out.push_back(b.CreateShuffleVector(from[v], from[v + 1], order));
  return out;
}

/// `part`, of n lanes, in place of those of `of` from `at` on.
Value* with_part(llvm::IRBuilder<>& b, Value* of, Value* part, int lanes, int n, int at) {
  std::vector<int> widened, order;
  for (int l = 0; l < lanes; ++l) {
    widened.push_back(l < n ? l : -1);
    order.push_back(l >= at && l < at + n ? lanes + l - at : l);
  }
  return b.CreateShuffleVector(of, b.CreateShuffleVector(part, widened), order);
}

/// n vectors, columns of n numbers, and vectors in which the numbers of each row are neighbours, of lanes / n rows each:
/// pairs of vectors are interleaved, first their elements, then twos of these, and so on; within 16 bytes each, as long as
/// a row fits these, for which there are instructions of one cycle, then across whole vectors. n is a power of two.
class Transposition {
 public:
  Transposition(int n, int lanes, std::size_t element) : lanes_(lanes) {
    const int near = std::min(lanes, static_cast<int>(16 / element));
    for (int l = 0; l < lanes; ++l) row_.push_back(l);
    place_.assign(static_cast<std::size_t>(n), row_);
    for (int g = 1; g < n; g *= 2) {
      for (int i = 0; i < n; ++i) {
        if ((i & g) == 0) steps_.push_back({i, i + g, interleaved(g, g < near ? near : lanes)});
      }
    }
    for (const Step& step : steps_) {
      const auto low = static_cast<std::size_t>(step.low),
                 high = static_cast<std::size_t>(step.high);
      std::vector<int> both = place_[low];
      both.insert(both.end(), place_[high].begin(), place_[high].end());
      for (std::size_t l = 0; l < both.size(); ++l)
        place_[l < row_.size() ? low : high][l % row_.size()] =
            both[static_cast<std::size_t>(step.from[l])];
    }
  }

  /// Vectors of rows, from columns.
  Vectors rows(llvm::IRBuilder<>& b, Vectors x) const {
    for (const Step& step : steps_) exchange(b, x, step, step.from);
    return x;
  }
  /// Columns, from vectors of rows.
  Vectors columns(llvm::IRBuilder<>& b, Vectors x) const {
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      std::vector<int> to(step->from.size());
      for (std::size_t l = 0; l < to.size(); ++l)
        to[static_cast<std::size_t>(step->from[l])] = static_cast<int>(l);
      exchange(b, x, *step, to);
    }
    return x;
  }
  /// Where row r begins: the vector, and the lane of it.
  std::pair<std::size_t, int> place_of(int r) const {
    for (std::size_t v = 0; v < place_.size(); ++v) {
      const auto found = std::find(place_[v].begin(), place_[v].end(), r);
      if (found != place_[v].end()) return {v, static_cast<int>(found - place_[v].begin())};
    }
    throw InternalError("a row is in none of the vectors it was put together in");
  }

 private:
  struct Step {
    int low, high;
    std::vector<int> from;  // of the lanes of both, one vector after the other
  };
  // Parts of g lanes of two vectors in turns, in each `period` of lanes: of the lower halves of the periods, then the upper.
  std::vector<int> interleaved(int g, int period) const {
    std::vector<int> from;
    for (int upper = 0; upper < 2; ++upper) {
      for (int l = 0; l < lanes_; ++l) {
        const int in = l % period, part = in / g;
        from.push_back(part % 2 * lanes_ + l - in + upper * period / 2 + part / 2 * g + in % g);
      }
    }
    return from;
  }
  void exchange(llvm::IRBuilder<>& b, Vectors& x, const Step& step,
                const std::vector<int>& from) const {
    Value *&low = x[static_cast<std::size_t>(step.low)],
          *&high = x[static_cast<std::size_t>(step.high)];
    Value* const first =
        b.CreateShuffleVector(low, high, std::vector<int>(from.begin(), from.begin() + lanes_));
    high = b.CreateShuffleVector(low, high, std::vector<int>(from.begin() + lanes_, from.end()));
    low = first;
  }

  int lanes_;
  std::vector<int> row_;
  std::vector<std::vector<int>> place_;  // in each vector: the rows of its lanes
  std::vector<Step> steps_;
};

/// Whether rows of bytes are taken apart by steps that interleave registers of 16 of them, for which all processors have
/// instructions: of fours and more lanes other shuffles are fewer.
bool are_rotated(const llvm::Type* t, int k, int lanes) {
  return t->getScalarSizeInBits() == 8 && std::has_single_bit(static_cast<unsigned>(k)) &&
         lanes <= kRegister && k * lanes >= 2 * kRegister &&
         (k >= 8 || (k == 4 && lanes < kRegister));
}

Value* joined(llvm::IRBuilder<>& b, const Vectors& x, int lanes) {
  if (x.size() == 1) return x[0];
  std::vector<int> all(2 * static_cast<std::size_t>(lanes));
  std::iota(all.begin(), all.end(), 0);
  Vectors twos;
  for (std::size_t v = 0; v < x.size(); v += 2)
    twos.push_back(b.CreateShuffleVector(x[v], x[v + 1], all));
  return joined(b, twos, 2 * lanes);
}

/// Columns of such rows: the elements of registers that are half of all apart are interleaved, which turns the bits of
/// all places round by one, until those of the rows are the lowest.
Vectors rotated(llvm::IRBuilder<>& b, const Vectors& rows, int lanes) {
  const auto each = static_cast<std::size_t>(kRegister / lanes);
  Vectors x;
  for (std::size_t v = 0; v < rows.size(); v += each)
    x.push_back(joined(b, Vectors(rows.begin() + v, rows.begin() + v + each), lanes));
  std::vector<int> low, high;
  for (int l = 0; l < kRegister; ++l) {
    low.push_back(l / 2 + l % 2 * kRegister);
    high.push_back(low.back() + kRegister / 2);
  }
  const std::size_t half = x.size() / 2;
  for (int done = 1; done < lanes; done *= 2) {
    Vectors next;
    for (std::size_t v = 0; v < half; ++v) {
      next.push_back(b.CreateShuffleVector(x[v], x[v + half], low));
      next.push_back(b.CreateShuffleVector(x[v], x[v + half], high));
    }
    x = std::move(next);
  }
  if (each == 1) return x;
  Vectors out;
  for (Value* v : x) {
    for (int first = 0; first < kRegister; first += lanes) {
      std::vector<int> part(static_cast<std::size_t>(lanes));
      std::iota(part.begin(), part.end(), first);
      out.push_back(b.CreateShuffleVector(v, part));
    }
  }
  return out;
}

/// Columns of rows of k = rows.size() elements that lie one after the other.
Vectors columns_of(llvm::IRBuilder<>& b, const Vectors& rows, int lanes) {
  const int k = static_cast<int>(rows.size());
  if (k == 1) return rows;
  if (are_rotated(rows[0]->getType(), k, lanes)) return rotated(b, rows, lanes);
  Vectors out(rows.size());
  if (k % 2 == 0) {
    for (int odd = 0; odd < 2; ++odd) {
      const Vectors half = columns_of(b, every_second(b, rows, lanes, odd), lanes);
      for (std::size_t c = 0; c < half.size(); ++c)
        out[2 * c + static_cast<std::size_t>(odd)] = half[c];
    }
    return out;
  }
  for (int c = 0; c < k; ++c) {
    out[static_cast<std::size_t>(c)] = gather_lanes(
        b, rows, lanes, [&](int l) { return std::pair{(l * k + c) % lanes, (l * k + c) / lanes}; });
  }
  return out;
}

Vectors rows_of(llvm::IRBuilder<>& b, const Vectors& columns, int lanes) {
  const int k = static_cast<int>(columns.size());
  if (k == 1) return columns;
  Vectors out(columns.size());
  if (k % 2 == 0) {
    Vectors halves[2];
    for (std::size_t odd = 0; odd < 2; ++odd) {
      for (std::size_t c = odd; c < columns.size(); c += 2) halves[odd].push_back(columns[c]);
      halves[odd] = rows_of(b, halves[odd], lanes);
    }
    for (std::size_t v = 0; v < halves[0].size(); ++v) {
      for (int upper = 0; upper < 2; ++upper) {
        std::vector<int> order;
        for (int l = 0; l < lanes; ++l)
          order.push_back(upper * lanes / 2 + l / 2 + (l % 2) * lanes);
        out[2 * v + static_cast<std::size_t>(upper)] =
            b.CreateShuffleVector(halves[0][v], halves[1][v], order);
      }
    }
    return out;
  }
  for (int v = 0; v < k; ++v) {
    out[static_cast<std::size_t>(v)] = gather_lanes(b, columns, lanes, [&](int l) {
      return std::pair{(v * lanes + l) / k, (v * lanes + l) % k};
    });
  }
  return out;
}

}  // namespace

// Whole vectors, none of which ends after the last element that is wanted: nothing beyond it may be read.
Value* CodeGen::Impl::load_steps(llvm::Type* t, Value* first, int step, int w, llvm::Align align) {
  const auto offset = [last = (step - 1) * (w - 1), w](int v) { return std::min(v * w, last); };
  Vectors from;
  for (int v = 0; v < step; ++v) {
    Value* address = b.CreateConstGEP1_64(t, first, static_cast<std::uint64_t>(offset(v)));
    from.push_back(b.CreateAlignedLoad(vector_type(t, w), address, align));
  }
  return gather_lanes(b, from, w, [&](int l) {
    const int at = l * step, v = at / w;
    return std::pair{at - offset(v), v};
  });
}

namespace {

/// Columns [first, first + n) of rows, of which `taken` are there.
struct Part {
  int first, n, taken;
  Transposition order;
};
struct PartOptions {
  int most = INT_MAX;  ///< columns
  bool masks = false;  ///< three are four of which a mask leaves one out
};
// As many columns at once as a vector has lanes, then eight, four, two and one of those left.
std::vector<Part> parts_of_rows(int k, int w, llvm::Align element, PartOptions options = {}) {
  std::vector<Part> parts;
  for (int c = 0; c < k; c += parts.back().taken) {
    const auto left = static_cast<unsigned>(std::min({k - c, w, options.most}));
    const bool masked = options.masks && left == 3 && w >= 4;
    const int n = masked ? 4 : static_cast<int>(std::bit_floor(left));
    parts.push_back({c, n, masked ? 3 : n, Transposition(n, w, element.value())});
  }
  return parts;
}

/// Whether there is an instruction for a load of some of such numbers.
bool has_masked_loads(const llvm::Type* t) {
  const runtime::Isa isa = runtime::target_isa();
  return isa == runtime::Isa::avx512 ||
         (isa == runtime::Isa::avx2 && t->getPrimitiveSizeInBits() >= 32);
}

/// The columns of a part of `rows` rows, of which `row(r)` is where it begins in one of them.
template <class Row>
Vectors load_part(llvm::IRBuilder<>& b, const Part& part, llvm::Type* t, llvm::Align align, int w,
                  int rows, Row&& row) {
  const auto lanes_of = [&](int n) {
    return llvm::FixedVectorType::get(t, static_cast<unsigned>(n));
  };
  Vectors vectors(static_cast<std::size_t>(part.n), llvm::Constant::getNullValue(lanes_of(w)));
  for (int r = 0; r < rows; ++r) {
    Value* const address = row(r);
    const auto [vector, lane] = part.order.place_of(r);
    Value*& to = vectors[vector];
    if (part.n == 1) {
      to = b.CreateInsertElement(to, b.CreateAlignedLoad(t, address, align),
                                 static_cast<std::uint64_t>(lane));
      continue;
    }
    llvm::Type* const type = lanes_of(part.n);
    Value* some = nullptr;
    if (part.taken == part.n) {
      some = b.CreateAlignedLoad(type, address, align);
    } else {
      std::vector<llvm::Constant*> there;
      for (int c = 0; c < part.n; ++c) there.push_back(b.getInt1(c < part.taken));
      some = b.CreateMaskedLoad(type, address, align, llvm::ConstantVector::get(there),
                                llvm::Constant::getNullValue(type));
    }
    to = part.n == w ? some : with_part(b, to, some, w, part.n, lane);
  }
  Vectors columns = part.order.columns(b, vectors);
  columns.resize(static_cast<std::size_t>(part.taken));
  return columns;
}

/// Where column c of row r lies, of rows that begin `step` apart.
std::uint64_t place_in_rows(int r, std::int64_t step, int c) {
  return static_cast<std::uint64_t>(r) * static_cast<std::uint64_t>(step) +
         static_cast<std::uint64_t>(c);
}

/// What a function is for that does this to a part of the rows.
std::string name_of_part(const char* verb, const Part& part, int rows, std::int64_t k,
                         const std::string& vectors) {
  return verb + std::to_string(part.n) + "_of_" + std::to_string(k) + "_columns_of_" +
         std::to_string(rows) + "_rows_" + vectors;
}

}  // namespace

// Called with `arguments`, `code` makes so many vectors of it, by a function that is made once.
Vectors CodeGen::Impl::by_function(const std::string& name, int count, const Vectors& arguments,
                                   llvm::Type* vector,
                                   const std::function<Vectors(llvm::Function&)>& code) {
  llvm::Type* const all = llvm::ArrayType::get(vector, static_cast<std::uint64_t>(count));
  std::vector<llvm::Type*> types;
  for (const Value* a : arguments) types.push_back(a->getType());
  llvm::Function* const f = helper(name, all, types, [&](llvm::Function& own) {
    Value* out = llvm::PoisonValue::get(all);
    unsigned c = 0;
    for (Value* v : code(own)) out = b.CreateInsertValue(out, v, c++);
    return out;
  });
  f->setOnlyReadsMemory();
  Value* const loaded = b.CreateCall(f, arguments);
  Vectors out;
  for (unsigned c = 0; c < static_cast<unsigned>(count); ++c)
    out.push_back(b.CreateExtractValue(loaded, c));
  return out;
}

void CodeGen::Impl::store_parts_of_rows(llvm::Type* t, Value* first, llvm::Align align, int k,
                                        std::int64_t step, int w,
                                        const std::function<Vectors(int first, int n)>& columns) {
  const auto store_row = [&](const Part& part, const Vectors& rows, int r, Value* to, int skipped) {
    const auto [vector, lane] = part.order.place_of(r);
    std::vector<int> lanes(static_cast<std::size_t>(part.n));
    std::iota(lanes.begin(), lanes.end(), lane);
    Value* row = rows[vector];
    if (part.n < w) row = b.CreateShuffleVector(row, lanes);
    Value* address = b.CreateConstGEP1_64(t, to, place_in_rows(r, step, skipped));
    if (k % w == 0) store_whole(row, address, align);
    else b.CreateAlignedStore(row, address, align);
  };
  const std::vector<Part> parts = parts_of_rows(k, w, align);
  if (k > kMostInPlace) {
    for (const Part& part : parts) {
      const std::string name = name_of_part(streaming ? "stream" : "store", part, active, step,
                                            name_of(vector_type(t, w)));
      std::vector<llvm::Type*> types(static_cast<std::size_t>(part.n), vector_type(t, w));
      types.insert(types.begin(), b.getPtrTy());
      Vectors arguments = columns(part.first, part.n);
      arguments.insert(arguments.begin(),
                       b.CreateConstGEP1_64(t, first, static_cast<std::uint64_t>(part.first)));
      b.CreateCall(helper(name, b.getVoidTy(), types,
                          [&](llvm::Function& own) -> Value* {
                            Vectors given;
                            for (unsigned c = 1; c < own.arg_size(); ++c)
                              given.push_back(own.getArg(c));
                            const Vectors rows = part.order.rows(b, given);
                            for (int r = 0; r < active; ++r)
                              store_row(part, rows, r, own.getArg(0), 0);
                            return nullptr;
                          }),
                   arguments);
    }
    return;
  }
  const Vectors all = columns(0, k);
  std::vector<Vectors> rows;
  for (const Part& part : parts)
    rows.push_back(
        part.order.rows(b, {all.begin() + part.first, all.begin() + part.first + part.n}));
  for (int r = 0; r < active; ++r) {
    for (std::size_t p = 0; p < parts.size(); ++p)
      store_row(parts[p], rows[p], r, first, parts[p].first);
  }
}

// The columns of rows of k elements, of whole vectors of them.
Vectors CodeGen::Impl::load_whole_rows(llvm::Type* t, Value* first, llvm::Align align, int k,
                                       int w) {
  llvm::Type* vt = vector_type(t, w);
  Vectors rows;
  for (int v = 0; v < k; ++v) {
    const int count = std::min(w, active * k - v * w);
    if (count <= 0) {
      rows.push_back(llvm::Constant::getNullValue(vt));
      continue;
    }
    Value* address = b.CreateConstGEP1_64(
        t, first, static_cast<std::uint64_t>(v) * static_cast<std::uint64_t>(w));
    Value* mask = mask_of(count, w);
    rows.push_back(mask == nullptr ? static_cast<Value*>(b.CreateAlignedLoad(vt, address, align))
                                   : b.CreateMaskedLoad(vt, address, align, mask,
                                                        llvm::Constant::getNullValue(vt)));
  }
  return columns_of(b, rows, w);
}

// The same of parts of each row, as store_parts_of_rows writes them.
Vectors CodeGen::Impl::load_parts_of_rows(llvm::Type* t, Value* first, llvm::Align align, int k,
                                          std::int64_t step, int w) {
  const auto load = [&](const Part& part, Value* from, int skipped) {
    return load_part(b, part, t, align, w, active, [&](int r) {
      return b.CreateConstGEP1_64(t, from, place_in_rows(r, step, skipped));
    });
  };
  Vectors columns;
  for (const Part& part : parts_of_rows(k, w, align)) {
    if (k <= kMostInPlace) {
      for (Value* column : load(part, first, part.first)) columns.push_back(column);
      continue;
    }
    const Vectors taken = by_function(
        name_of_part("load", part, active, step, name_of(vector_type(t, w))), part.n,
        {b.CreateConstGEP1_64(t, first, static_cast<std::uint64_t>(part.first))}, vector_type(t, w),
        [&](llvm::Function& own) { return load(part, own.getArg(0), 0); });
    columns.insert(columns.end(), taken.begin(), taken.end());
  }
  return columns;
}

// What would be much code in several places is a function, of no more columns than calls return in registers where there are
// few of these. Narrow numbers stay so: half as many registers hold them.
Vectors CodeGen::Impl::load_rows_anywhere(llvm::Type* t, Value* base, Value* rows,
                                          llvm::Align align, int k, int w) {
  using namespace llvm::PatternMatch;
  constexpr int kReturned = 4;
  Value* given = nullptr;
  if (!match(rows, m_SExt(m_Value(given)))) given = rows;
  const bool in_place = (moved_apart += k * active) <= kMostApart;
  const int most = in_place || runtime::target_isa() == runtime::Isa::avx512 ? w : kReturned;
  const std::vector<Part> parts =
      parts_of_rows(k, w, align, {.most = most, .masks = has_masked_loads(t)});
  const auto load = [&](Value* from, Value* numbers, std::span<const Part> some) {
    Lanes number(b, numbers);
    Vectors addresses;
    for (int r = 0; r < active; ++r)
      addresses.push_back(
          b.CreateGEP(t, from, b.CreateMul(number(r), b.getInt64(static_cast<std::uint64_t>(k)))));
    Vectors columns;
    for (const Part& part : some) {
      const Vectors taken = load_part(b, part, t, align, w, active, [&](int r) {
        return b.CreateConstGEP1_64(t, addresses[static_cast<std::size_t>(r)],
                                    static_cast<std::uint64_t>(part.first));
      });
      columns.insert(columns.end(), taken.begin(), taken.end());
    }
    return columns;
  };
  if (in_place) return load(base, rows, parts);
  const std::string name = "look_up_" + std::to_string(active) + "_rows_of_" + std::to_string(k) +
                           "_" + name_of(vector_type(t, w)) + "_by_" + name_of(given->getType());
  const auto called = [&](const std::string& which, int count, std::span<const Part> some) {
    return by_function(name + which, count, {base, given}, vector_type(t, w),
                       [&](llvm::Function& own) {
                         Value* const numbers = b.CreateSExt(own.getArg(1), rows->getType());
                         return load(own.getArg(0), numbers, some);
                       });
  };
  if (most == w) return called("", k, parts);
  Vectors columns;
  for (const Part& part : parts) {
    const Vectors some = called("_from_" + std::to_string(part.first), part.taken, {&part, 1});
    columns.insert(columns.end(), some.begin(), some.end());
  }
  return columns;
}

// All columns at once, if these are not at hand.
Scalars CodeGen::Impl::columns(int kind, Node* from, Node* first, DType dtype, int k, int w,
                               const std::function<Vectors(llvm::Type*, llvm::Align)>& load) {
  const auto key = [&](int c) {
    constexpr std::int64_t kMostLanes = 128, kMostColumns = std::int64_t{1} << 24;
    const std::int64_t which = (k * kMostColumns + c) * kMostLanes + active;
    return OpKey{kind, static_cast<int>(dtype), from, first, nullptr, which};
  };
  Scalars out;
  for (int c = 0; c < k; ++c) {
    const auto found = made.find(key(c));
    if (found == made.end() || !live(found->second)) break;
    out.emplace_back(found->second, dtype);
  }
  if (static_cast<int>(out.size()) == k) return out;
  out.clear();
  const int d = std::max({from->depth, first->depth, pinned_depth()});
  at(d);
  llvm::Type* const in_memory = memory_type(dtype);
  for (Value* column : load(shuffled_as(b, in_memory), llvm::Align(size_of(dtype)))) {
    Node* const n = make(from_memory(b.CreateBitCast(column, vector_type(in_memory, w)), dtype), d);
    made[key(static_cast<int>(out.size()))] = n;
    out.emplace_back(n, dtype);
  }
  return out;
}

// Of rows in the opposite order the last lane's comes first.
bool CodeGen::goes_by_rows(Scalar first, int k) {
  const Node* const i = node_of(first);
  return impl_->width(i) > 1 && (i->stride == k || (i->stride == -k && impl_->mask() == nullptr));
}

Scalars CodeGen::load_columns(Pointer from, DType dtype, Scalar first, int k) {
  Impl& m = *impl_;
  Node *p = static_cast<Node*>(from.handle), *i = node_of(first);
  const int w = m.width(i);
  const bool backward = i->stride == -k;
  const bool apart = w > 1 && i->stride > k;
  if (!apart && !goes_by_rows(first, k)) {
    Scalars out;
    for (int c = 0; c < k; ++c) out.push_back(load(from, dtype, add(first, index(c))));
    return out;
  }
  return m.columns(kColumn, p, i, dtype, k, w, [&](llvm::Type* t, llvm::Align align) {
    Value* address = m.element_address(t, p, i);
    if (backward)
      address = m.b.CreateGEP(t, address,
                              m.b.CreateNeg(m.b.getInt64(static_cast<std::uint64_t>(k) *
                                                         static_cast<std::uint64_t>(w - 1))));
    const std::int64_t step = apart ? i->stride : k;
    Vectors columns = apart || (takes_parts(k, w, false) && !are_rotated(t, k, w))
                          ? m.load_parts_of_rows(t, address, align, k, step, w)
                          : m.load_whole_rows(t, address, align, k, w);
    for (Value*& column : columns)
      if (backward) column = m.b.CreateVectorReverse(column);
    return columns;
  });
}

Scalars CodeGen::look_up_columns(Pointer from, DType dtype, Scalar rows, int k) {
  Impl& m = *impl_;
  Node *p = static_cast<Node*>(from.handle), *i = node_of(rows);
  const int w = m.width(i);
  if (w == 1) {  // the same row for all lanes
    Scalars out;
    for (int c = 0; c < k; ++c)
      out.push_back(load(from, dtype, add(mul(rows, index(k)), index(c))));
    return out;
  }
  return m.columns(kRowColumn, p, i, dtype, k, w, [&](llvm::Type* t, llvm::Align align) {
    return m.load_rows_anywhere(t, p->value, m.as_vector(i, w), align, k, w);
  });
}

void CodeGen::store_columns(Pointer to, DType dtype, Scalar first, const Scalars& columns) {
  store_columns(to, dtype, first, static_cast<int>(columns.size()),
                [&](int c) { return columns[static_cast<std::size_t>(c)]; });
}

void CodeGen::store_columns(Pointer to, DType dtype, Scalar first, int k,
                            const std::function<Scalar(int)>& column) {
  Impl& m = *impl_;
  Node *p = static_cast<Node*>(to.handle), *i = node_of(first);
  const int w = m.width(i);
  if (w == 1 || !affine(i) || i->stride < k) {
    Scalars columns;
    for (int c = 0; c < k; ++c) columns.push_back(column(c));
    for (int c = 0; c < k; ++c)
      store(to, dtype, add(first, index(c)), columns[static_cast<std::size_t>(c)]);
    return;
  }
  llvm::Type* t = shuffled_as(m.b, m.memory_type(dtype));
  const auto values_of = [&](int from, int n) {
    Scalars columns;
    for (int c = from; c < from + n; ++c) columns.push_back(column(c));
    Vectors values;
    for (const Scalar c : columns) values.push_back(m.as_vector(node_of(c), w));
    m.at(m.depth());
    for (Value*& v : values) v = m.b.CreateBitCast(m.to_memory(v, dtype), m.vector_type(t, w));
    return values;
  };
  const llvm::Align align(size_of(dtype));
  if (i->stride > k || takes_parts(k, w, m.streaming)) {
    m.at(m.depth());
    return m.store_parts_of_rows(t, m.element_address(t, p, i), align, k, i->stride, w, values_of);
  }
  const Vectors rows = rows_of(m.b, values_of(0, k), w);
  for (int v = 0; v < k; ++v) {
    const int count = std::min(w, m.active * k - v * w);
    if (count <= 0) break;
    Value* address =
        m.b.CreateConstGEP1_64(t, m.element_address(t, p, i),
                               static_cast<std::uint64_t>(v) * static_cast<std::uint64_t>(w));
    Value* row = rows[static_cast<std::size_t>(v)];
    if (count == w) m.store_whole(row, address, align);
    else m.store_lanes(row, address, align, count);
  }
}

int CodeGen::shuffles_of_permuted(int lanes, const std::vector<int>& places) {
  int all = 0;
  for (std::size_t first = 0; first < places.size(); first += static_cast<std::size_t>(lanes)) {
    const std::size_t last = std::min(first + static_cast<std::size_t>(lanes), places.size());
    std::vector<int> from;
    for (std::size_t c = first; c < last; ++c) from.push_back(places[c] / lanes);
    std::sort(from.begin(), from.end());
    const auto vectors = std::unique(from.begin(), from.end()) - from.begin();
    all += std::max(1, static_cast<int>(vectors) - 1);
  }
  return all;
}

void CodeGen::store_permuted(Pointer to, Scalar at, Pointer from, Scalar first, DType dtype,
                             int length, const std::vector<int>& places) {
  Impl& m = *impl_;
  m.at(m.depth());
  const int w = m.lanes, k = static_cast<int>(places.size());
  llvm::Type* t = shuffled_as(m.b, m.memory_type(dtype));
  llvm::Type* vt = m.vector_type(t, w);
  const llvm::Align align(size_of(dtype));
  const auto vector_at = [&](Pointer base, Scalar index, int c) {
    Value* const row = m.element_address(t, static_cast<Node*>(base.handle), node_of(index));
    return m.b.CreateConstGEP1_64(t, row, static_cast<std::uint64_t>(c));
  };
  std::vector<int> number(static_cast<std::size_t>(length / w) + 1, -1);  // of those that are read
  Vectors rows;
  for (const int place : places) {
    const int v = place / w, count = std::min(w, length - v * w);
    if (number[static_cast<std::size_t>(v)] >= 0) continue;
    number[static_cast<std::size_t>(v)] = static_cast<int>(rows.size());
    Value *const address = vector_at(from, first, v * w), *const mask = m.mask_of(count, w);
    rows.push_back(mask == nullptr ? static_cast<Value*>(m.b.CreateAlignedLoad(vt, address, align))
                                   : m.b.CreateMaskedLoad(vt, address, align, mask,
                                                          llvm::Constant::getNullValue(vt)));
  }
  // All of them before the first is stored, which may be where the row is.
  std::vector<Value*> out;
  for (int c = 0; c < k; c += w) {
    Vectors used;
    std::vector<int> number_of(rows.size(), -1);
    const auto place_of = [&](int l) {
      const int place = places[static_cast<std::size_t>(std::min(c + l, k - 1))];
      return std::pair{place % w, number[static_cast<std::size_t>(place / w)]};
    };
    for (int l = 0; l < w; ++l) {
      const auto v = static_cast<std::size_t>(place_of(l).second);
      if (number_of[v] >= 0) continue;
      number_of[v] = static_cast<int>(used.size());
      used.push_back(rows[v]);
    }
    out.push_back(gather_lanes(m.b, used, w, [&](int l) {
      const auto [lane, v] = place_of(l);
      return std::pair{lane, number_of[static_cast<std::size_t>(v)]};
    }));
  }
  for (int c = 0; c < k; c += w) {
    Value *const row = out[static_cast<std::size_t>(c / w)], *const address = vector_at(to, at, c);
    if (k % w == 0) m.store_whole(row, address, align);
    else m.store_lanes(row, address, align, std::min(w, k - c));
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
