// What loops do for the values that they carry and the rows that they read and write. Each of these chores takes some values
// and numbers; where there are many carries, a function does it for each of them in a table.
#include <array>

#include "compiler/emit/steps.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

std::span<const Carries::Chore> chores_of(const Step& s) {
  using Chore = Carries::Chore;
  static constexpr std::array kLoop{Chore::init, Chore::row, Chore::turn, Chore::pass_on,
                                    Chore::untouched};
  static constexpr std::array kRepeat{Chore::init, Chore::alternate, Chore::pass_on, Chore::result};
  if (s.kind == Step::Kind::loop) return std::span(kLoop).first(s.trips > 0 ? 4 : 5);
  if (s.kind == Step::Kind::repeat) return kRepeat;
  return {};
}

std::size_t how_many(const Step& s, Carries::Chore what) {
  return what == Carries::Chore::row ? s.rows.size() : s.carries.size();
}

}  // namespace

Carries::Operands Carries::operands(const Step& s, Chore what, std::size_t n) const {
  if (what == Chore::row) {
    const Step::Row& r = s.rows[n];
    const std::int64_t bytes = c_.value(r.view).bytes();
    return {{c_.value(r.view).slot, r.base}, {r.every * bytes, r.first * bytes}};
  }
  const Step::Carry& c = s.carries[n];
  const int in = c_.value(c.in).slot, out = c_.value(c.out).slot;
  switch (what) {
    case Chore::init: return {{in, c.init}, {}};
    case Chore::turn: return {{out, c.first, c.second}, {}};
    case Chore::alternate: return {{out, c.first, c.second, in}, {}};
    case Chore::pass_on: return {{in, out}, {}};
    case Chore::untouched: return {{c.init, c.first}, {c_.value(c.first).bytes()}};
    case Chore::result: return {{in, c.first}, {c_.value(c.first).bytes()}};
    case Chore::row: break;  // above
  }
  throw InternalError("a chore of a loop that there is not");
}

void Carries::emit_one(Chore what, std::span<const Pointer> at, std::span<const Scalar> numbers,
                       Scalar trip, Scalar end) const {
  switch (what) {
    case Chore::init: return point(at[0], gen_.address(at[1]));
    case Chore::row:
      return point(at[0],
                   gen_.add(gen_.address(at[1]), gen_.add(gen_.mul(trip, numbers[0]), numbers[1])));
    case Chore::turn: {  // the last trip writes where the result is wanted
      const Scalar left = gen_.sub(gen_.sub(end, gen_.index(1)), trip);
      const Scalar odd = gen_.compare(Compare::ne, gen_.and_(left, gen_.index(1)), gen_.index(0));
      return point(at[0], gen_.select(odd, gen_.address(at[2]), gen_.address(at[1])));
    }
    case Chore::alternate: {
      const Scalar first = gen_.address(at[1]);
      const Scalar at_first = gen_.compare(Compare::eq, pointed_at(at[3]), first);
      return point(at[0], gen_.select(at_first, gen_.address(at[2]), first));
    }
    case Chore::pass_on: return point(at[0], pointed_at(at[1]));
    case Chore::untouched: return gen_.copy_bytes(at[0], at[1], numbers[0]);
    case Chore::result: {  // where the last trip wrote to depends on their number
      const Scalar last = pointed_at(at[0]);
      return gen_.if_then(gen_.compare(Compare::ne, last, gen_.address(at[1])),
                          [&] { gen_.copy_bytes(gen_.pointer_to(last), at[1], numbers[0]); });
    }
  }
}

void Carries::outline(const Step& s) {
  for (const Chore what : chores_of(s)) outline(s, what);
}

// A table has the places and numbers of all that lie in memory of the same kinds.
void Carries::outline(const Step& s, Chore what) {
  constexpr std::size_t kMost = 50;  // one after the other
  if (!c_.plan.emit.carry_tables || how_many(s, what) <= kMost) return;
  std::map<std::vector<Location::Kind>, std::vector<std::int64_t>> tables;
  for (std::size_t n = 0; n < how_many(s, what); ++n) {
    const Operands o = operands(s, what, n);
    std::vector<Location::Kind> kinds;
    for (const int v : o.values) kinds.push_back(c_.value(v).location.kind);
    std::vector<std::int64_t>& table = tables[kinds];
    for (const int v : o.values) table.push_back(c_.value(v).location.index);
    table.insert(table.end(), o.numbers.begin(), o.numbers.end());
  }
  c_.begin_kernel("carries");
  for (const auto& [kinds, table] : tables) {
    const std::size_t values = kinds.size();
    const std::size_t width = values + operands(s, what, 0).numbers.size();
    const std::int64_t first = gen_.add_places(table);
    gen_.loop(gen_.index(0), gen_.index(std::ssize(table) / static_cast<std::int64_t>(width)),
              [&](Scalar i) {
                const Scalar row = gen_.mul(i, gen_.index(static_cast<std::int64_t>(width)));
                std::vector<Scalar> entries;
                for (std::size_t k = 0; k < width; ++k)
                  entries.push_back(gen_.place_at(first + static_cast<std::int64_t>(k), row));
                std::vector<Pointer> at;
                for (std::size_t k = 0; k < values; ++k)
                  at.push_back(gen_.pointer(kinds[k], entries[k]));
                emit_one(what, at, std::span(entries).subspan(values), gen_.kernel_begin(),
                         gen_.kernel_end());
              });
  }
  functions_[{&s, what}] = gen_.finish_kernel();
}

void Carries::emit(const Step& s, Chore what, Scalar trip, Scalar end) const {
  if (const auto found = functions_.find({&s, what}); found != functions_.end())
    return gen_.call_kernel(found->second, trip, end);
  for (std::size_t n = 0; n < how_many(s, what); ++n) {
    const Operands o = operands(s, what, n);
    std::vector<Pointer> at;
    for (const int v : o.values) at.push_back(c_.pointer(v));
    std::vector<Scalar> numbers;
    for (const std::int64_t k : o.numbers) numbers.push_back(gen_.index(k));
    emit_one(what, at, numbers, trip, end);
  }
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
