// Row-major walks over strided memory, and the driver of elementwise kernels built on them.
#include "runtime/kernels/cursor.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "core/element.hpp"
#include "runtime/kernels/copy.hpp"
#include "runtime/thread_pool.hpp"

namespace telamon {
inline namespace v1 {
namespace kernels {
namespace {

constexpr std::int64_t kBlock = 512;     // elements that pass through the buffers at a time
constexpr std::int64_t kShortRun = 128;  // below: gather, above: read in place and cut the block
constexpr std::int64_t kChunkCost = 400'000;  // tenths of ns: 40 us, what a cold worker costs twice

/// One element over and over: of many, what is written already, as far as it lies in the nearest cache, is copied behind it.
template <class T>
void repeat(std::int64_t n, const char* from, char* to) {
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T)), kBlock = 4096 / kSize;
  T x;
  std::memcpy(&x, from, sizeof x);
  const std::int64_t first = std::min(n, kBlock);
  for (std::int64_t i = 0; i < first; ++i) std::memcpy(to + i * kSize, &x, sizeof x);
  for (std::int64_t done = first; done < n; done += kBlock)
    std::memcpy(to + done * kSize, to,
                static_cast<std::size_t>(std::min(kBlock, n - done) * kSize));
}
template <class T>
void copy_elements(std::int64_t n, const char* from, std::int64_t from_stride, char* to,
                   std::int64_t to_stride) {
  if (from_stride == 0 && to_stride == sizeof(T)) return repeat<T>(n, from, to);
  const auto copy = [&](std::int64_t i) {
    T x;
    std::memcpy(&x, from + i * from_stride, sizeof x);
    std::memcpy(to + i * to_stride, &x, sizeof x);
  };
  // Four at a time: where a loop of one lies across two lines of code it takes twice as long.
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    copy(i);
    copy(i + 1);
    copy(i + 2);
    copy(i + 3);
  }
  for (; i < n; ++i) copy(i);
}
struct Sixteen {
  std::uint64_t words[2];
};

/// A contiguous kernel and where its operands are: a block at a time.
class Blocks {
 public:
  Blocks(const Kernel& kernel, std::span<const View> in, const View& out, const void* params)
      : kernel_(kernel), params_(params != nullptr ? params : kernel.bound), out_(out) {
    for (const View& view : in) operands_[static_cast<std::size_t>(arity_++)].emplace(view);
    for (int i = 0; i < arity_; ++i) {
      if (widened(kernel.in_dtypes[i]))
        converts_[i] = find_convert(kernel.in_dtypes[i], DType::f32);
      direct_ = direct_ && converts_[i] == nullptr && operands_[i]->is_contiguous();
    }
    if (widened(kernel.out_dtype)) convert_out_ = find_convert(DType::f32, kernel.out_dtype);
    direct_ = direct_ && convert_out_ == nullptr && out_.is_contiguous();
  }

  void run(std::int64_t begin, std::int64_t end) {
    out_.seek(begin);
    for (int i = 0; i < arity_; ++i) operands_[i]->seek(begin);
    if (direct_) {
      const char* in[kMaxOperands] = {};
      for (int i = 0; i < arity_; ++i) in[i] = operands_[i]->at();
      kernel_.loop(end - begin, in, out_.at(), params_);
      return;
    }
    for (int i = 0; i < arity_; ++i) fill_if_scalar(i, std::min(kBlock, end - begin));
    while (begin < end) begin += block(std::min(kBlock, end - begin));
  }

 private:
  using Buffer = std::array<char, kBlock * 16>;

  bool widened(DType dtype) const { return kernel_.widens && detail::is_small_float(dtype); }

  /// Reads `count` elements of operand i into its buffer, in the dtype of the loop.
  void load(int i, std::int64_t count) {
    Cursor& operand = *operands_[i];
    char* to = buffers_[i].data();
    if (converts_[i] == nullptr) return operand.gather(to, count);
    operand.gather(raw_.data(), count);
    const char* raw = raw_.data();
    converts_[i](count, &raw, to, nullptr);
  }
  void fill_if_scalar(int i, std::int64_t count) {
    Cursor& operand = *operands_[i];
    filled_[i] = operand.is_scalar();
    if (!filled_[i]) return;
    char* const at = operand.at();
    copy_run(count, operand.element_size(), at, 0, raw_.data(), operand.element_size());
    const char* raw = raw_.data();
    if (converts_[i] != nullptr) converts_[i](count, &raw, buffers_[i].data(), nullptr);
    else
      std::memcpy(buffers_[i].data(), raw,
                  static_cast<std::size_t>(count * operand.element_size()));
  }
  bool read_in_place(int i) const {
    return !filled_[i] && converts_[i] == nullptr &&
           operands_[i]->stride() == operands_[i]->element_size() &&
           operands_[i]->run_length() >= kShortRun;
  }

  /// Computes up to `count` elements; says how many.
  std::int64_t block(std::int64_t count) {
    const bool write_in_place = convert_out_ == nullptr && out_.run_length() >= kShortRun &&
                                out_.stride() == out_.element_size();
    if (write_in_place) count = std::min(count, out_.left_in_run());
    for (int i = 0; i < arity_; ++i) {
      if (read_in_place(i)) count = std::min(count, operands_[i]->left_in_run());
    }
    const char* in[kMaxOperands] = {};
    for (int i = 0; i < arity_; ++i) {
      if (read_in_place(i)) {
        in[i] = operands_[i]->at();
        operands_[i]->advance(count);
      } else {
        if (!filled_[i]) load(i, count);
        in[i] = buffers_[i].data();
      }
    }
    if (write_in_place) {
      kernel_.loop(count, in, out_.at(), params_);
      out_.advance(count);
      return count;
    }
    kernel_.loop(count, in, result_.data(), params_);
    const char* result = result_.data();
    if (convert_out_ != nullptr) {
      convert_out_(count, &result, raw_.data(), nullptr);
      result = raw_.data();
    }
    out_.scatter(result, count);
    return count;
  }

  const Kernel& kernel_;
  const void* params_;
  int arity_ = 0;
  std::optional<Cursor> operands_[kMaxOperands];
  Cursor out_;
  ContiguousLoop converts_[kMaxOperands] = {};
  ContiguousLoop convert_out_ = nullptr;
  bool filled_[kMaxOperands] = {};
  bool direct_ = true;
  alignas(64) Buffer buffers_[kMaxOperands];
  alignas(64) Buffer result_;
  alignas(64) Buffer raw_;
};

}  // namespace

void copy_run(std::int64_t n, int size, const char* from, std::int64_t from_stride, char* to,
              std::int64_t to_stride) {
  if (from_stride == size && to_stride == size) {
    if (n > 0) std::memcpy(to, from, static_cast<std::size_t>(n * size));
    return;
  }
  switch (size) {
    case 1: return copy_elements<std::uint8_t>(n, from, from_stride, to, to_stride);
    case 2: return copy_elements<std::uint16_t>(n, from, from_stride, to, to_stride);
    case 4: return copy_elements<std::uint32_t>(n, from, from_stride, to, to_stride);
    case 8: return copy_elements<std::uint64_t>(n, from, from_stride, to, to_stride);
    case 16: return copy_elements<Sixteen>(n, from, from_stride, to, to_stride);
    default: return;  // float0 has no data
  }
}

Cursor::Cursor(const View& view)
    : base_(view.data),
      at_(view.data),
      element_size_(static_cast<std::int64_t>(size_of(view.dtype))) {
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    const std::int64_t size = view.shape[d], stride = view.strides[d];
    if (size == 1) continue;
    if (rank_ > 0 && strides_[rank_ - 1] == stride * size) {
      sizes_[rank_ - 1] *= size;
      strides_[rank_ - 1] = stride;
    } else {
      sizes_.push_back(size);
      strides_.push_back(stride);
      ++rank_;
    }
  }
  index_.resize(rank_);
}

void Cursor::seek(std::int64_t element) {
  at_ = base_;
  for (std::size_t d = rank_; d-- > 0;) {
    index_[d] = element % sizes_[d];
    element /= sizes_[d];
    at_ += index_[d] * strides_[d];
  }
  position_ = rank_ == 0 ? 0 : index_[rank_ - 1];
}

void Cursor::advance(std::int64_t count) {
  if (rank_ == 0) return;
  const std::size_t inner = rank_ - 1;
  position_ += count;
  at_ += count * strides_[inner];
  if (position_ < sizes_[inner]) return;
  position_ = 0;
  at_ -= sizes_[inner] * strides_[inner];
  for (std::size_t d = inner; d-- > 0;) {
    at_ += strides_[d];
    if (++index_[d] < sizes_[d]) return;
    at_ -= sizes_[d] * strides_[d];
    index_[d] = 0;
  }
}

void Cursor::gather(char* to, std::int64_t count) {
  while (count > 0) {
    const std::int64_t n = rank_ == 0 ? count : std::min(count, left_in_run());
    copy_run(n, element_size(), at_, stride(), to, element_size_);
    advance(n);
    to += n * element_size_;
    count -= n;
  }
}
void Cursor::scatter(const char* from, std::int64_t count) {
  while (count > 0) {
    const std::int64_t n = rank_ == 0 ? count : std::min(count, left_in_run());
    copy_run(n, element_size(), from, element_size_, at_, stride());
    advance(n);
    from += n * element_size_;
    count -= n;
  }
}

namespace {

constexpr std::size_t kFewBytes = 1024;

bool is_one_element(const View& view) {
  return std::all_of(view.strides.begin(), view.strides.end(), [](auto s) { return s == 0; });
}

/// Few elements, of which some operands repeat one: those are written out on the stack, which costs
/// less than blocks. False where that is not the case.
bool run_few(const Kernel& kernel, std::span<const View> in, const View& out, std::int64_t n,
             const void* params) {
  alignas(64) char repeated[kMaxOperands][kFewBytes];
  const char* at[kMaxOperands] = {};
  for (std::size_t i = 0; i < in.size(); ++i) {
    at[i] = in[i].data;
    if (is_contiguous(in[i])) continue;
    const auto size = static_cast<int>(size_of(in[i].dtype));
    if (!is_one_element(in[i]) || static_cast<std::size_t>(n * size) > kFewBytes) return false;
    copy_run(n, size, in[i].data, 0, repeated[i], size);
    at[i] = repeated[i];
  }
  kernel.loop(n, at, out.data, params != nullptr ? params : kernel.bound);
  return true;
}

}  // namespace

void run_kernel(const Kernel& kernel, std::span<const View> in, const View& out, const void* params,
                int cost) {
  const std::int64_t n = out.shape.num_elements();
  // Whole cache lines in every chunk, whatever the element; the same cut for any number of threads.
  const std::int64_t chunk = std::max<std::int64_t>(kChunkCost / cost / 1024, 1) * 1024;
  if (!kernel.widens && is_contiguous(out) &&
      std::all_of(in.begin(), in.end(), [](const View& view) { return is_contiguous(view); })) {
    const void* bound = params != nullptr ? params : kernel.bound;
    const auto run = [&](std::int64_t begin, std::int64_t end) {
      const char* at[kMaxOperands] = {};
      for (std::size_t i = 0; i < in.size(); ++i) {
        at[i] = in[i].data + begin * static_cast<std::int64_t>(size_of(in[i].dtype));
      }
      kernel.loop(end - begin, at, out.data + begin * static_cast<std::int64_t>(size_of(out.dtype)),
                  bound);
    };
    if (n <= 2 * chunk) return run(0, n);
    return runtime::parallel_for((n + chunk - 1) / chunk, [&](std::int64_t i) {
      run(i * chunk, std::min(n, (i + 1) * chunk));
    });
  }
  if (!kernel.widens && n > 0 && n <= static_cast<std::int64_t>(kFewBytes) && is_contiguous(out) &&
      run_few(kernel, in, out, n, params)) {
    return;
  }
  if (n <= 2 * chunk) {
    if (n > 0) Blocks(kernel, in, out, params).run(0, n);
    return;
  }
  runtime::parallel_for((n + chunk - 1) / chunk, [&](std::int64_t i) {
    Blocks(kernel, in, out, params).run(i * chunk, std::min(n, (i + 1) * chunk));
  });
}

void Kernel::operator()(std::int64_t n, const char* const* in, const std::int64_t* in_strides,
                        char* out, std::int64_t out_stride, const void* params) const {
  if (n <= 0) return;
  std::array<View, kMaxOperands> views;
  for (int i = 0; i < arity; ++i) {
    views[static_cast<std::size_t>(i)] = {const_cast<char*>(in[i]), in_dtypes[i], Shape{n},
                                          Shape{in_strides[i]}};
  }
  const View result{out, out_dtype, Shape{n}, Shape{out_stride}};
  Blocks(*this, {views.data(), static_cast<std::size_t>(arity)}, result, params).run(0, n);
}

}  // namespace kernels
}  // namespace v1
}  // namespace telamon
