// Concrete arrays: a reference-counted buffer on a device, seen through byte strides.
//
// Strides are row-major except that a broadcast scalar may be a view with strides of zero; whoever
// needs dense memory asks for `contiguous(x)` first.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/array_memory.hpp"
#include "telamon/array.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// Where a buffer lives. The host is the only device for now; nothing above the runtime assumes
/// host memory except explicit reads.
struct Device {
  std::string name;
};
const Device& host_device();

/// Reference-counted memory. Donation leaves the buffer empty: later use is an error that names the call.
class DeviceBuffer {
 public:
  /// Where the data of a small buffer begin in its block if `room` bytes lie before them; the size of the
  /// block is both together.
  static constexpr std::size_t data_behind(std::size_t room, std::size_t bytes) {
    const std::size_t align = std::clamp<std::size_t>(std::bit_ceil(bytes), 8, kAlign);
    return (kHeader + room + align - 1) / align * align;
  }
  static constexpr bool is_small(std::size_t bytes) { return bytes <= kInlineBytes; }
  /// Memory of that size, not initialised; behind the header there is room for the node of an array, which may
  /// lie there as long as it holds the buffer. Whoever makes a buffer holds it.
  static DeviceBuffer* make(std::size_t bytes);
  /// The same in one block of that size class (runtime/small_blocks.hpp), the data behind the room.
  static DeviceBuffer* make_in(void* block, int size_class, std::size_t data, std::size_t bytes) {
    return new (block)
        DeviceBuffer(static_cast<std::byte*>(block) + data, bytes, size_class, false);
  }
  /// Where the room is. Never at a multiple of kAlign, where all other blocks begin.
  void* room() { return reinterpret_cast<std::byte*>(this) + kHeader; }
  static bool is_room(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % kAlign != 0; }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  const Device& device() const { return host_device(); }
  bool donated() const { return data_ == nullptr; }
  const char* donated_to() const { return donated_to_; }
  /// Moves the memory into a new buffer, that of an array of this type; every handle of this one becomes
  /// unusable.
  /// `call` (a string that lives forever) names the donation in later errors.
  Array donate_into(const ShapedArray& aval, const char* call);
  /// Undoes donate_into, which gave `result`, where nothing was written there. Nobody uses that any more.
  void take_back(const Array& result);
  /// The call to which this was donated has thrown: errors will say so.
  void lose();

  void retain() const { add_reference(count_); }
  void release() const {
    if (drop_reference(count_)) destroy();
  }
  int use_count() const { return count_.load(std::memory_order_acquire); }

 private:
  friend class ConcreteNode;
  friend class LentArray;
  // A small buffer lies behind its header in one block, as aligned as its size asks for.
  static constexpr std::size_t kAlign = 64, kHeader = 40;
  static constexpr std::size_t kInlineBytes = runtime::kGuardsArrays ? 0 : 4096;

  DeviceBuffer(std::byte* data, std::size_t bytes, int size_class, bool apart)
      : data_(data),
        bytes_(bytes),
        size_class_(static_cast<std::uint16_t>(size_class)),
        apart_(apart) {}
  static DeviceBuffer* make_empty(std::size_t bytes);
  ~DeviceBuffer() = default;
  void mark_donated(const char* call) { donated_to_ = call; }
  void destroy() const;
  void destroy_at_once() const;
  [[gnu::noinline]] void destroy_both() const;  // where the memory does not lie in the block

  std::byte* data_;  // null after a donation
  std::size_t bytes_;
  const char* donated_to_ = nullptr;
  mutable std::atomic<int> count_{1};
  std::uint16_t size_class_;              // of its block: this header, and what lies behind it
  bool apart_;                            // the memory does not lie in that block
  const DeviceBuffer* lender_ = nullptr;  // whose block the memory lies in, after a donation
};

/// An array over a buffer: dense and row-major, unless it is a StridedNode. The node of an array that
/// was just made lies in the block of its buffer.
class TELAMON_API ConcreteNode : public ArrayNode {
 public:
  ConcreteNode(ShapedArray aval, DeviceBuffer* buffer);
  /// Takes over the buffer from whoever made it.
  ConcreteNode(const ShapedArray& aval, DeviceBuffer* buffer, Held)
      : ArrayNode(Kind::dense, aval, Held{}), buffer_(buffer) {}
  ~ConcreteNode() override;

  DeviceBuffer& buffer() const { return *buffer_; }
  /// First element. DonatedBufferError after donation.
  inline std::byte* data() const;
  const Shape& strides() const;  ///< in bytes, of an array that is not dense

  static void* operator new(std::size_t size);
  static void* operator new(std::size_t, void* where) { return where; }
  static void operator delete(void* p, std::size_t size);
  static void operator delete(void*, void*) {}

 protected:
  ConcreteNode(Kind kind, ShapedArray aval, DeviceBuffer* buffer);

 private:
  friend class ArrayNode;
  void destroy_in_room() const;
  [[noreturn]] void throw_donated() const;
  DeviceBuffer* buffer_;
};

/// A view with byte strides. Once compiled code has asked for its elements in dense memory they are kept
/// with it: weights of zeros(...) are written out at the first of a thousand calls.
class StridedNode final : public ConcreteNode {
 public:
  StridedNode(ShapedArray aval, DeviceBuffer* buffer, Shape strides, std::ptrdiff_t offset)
      : ConcreteNode(Kind::strided, std::move(aval), buffer),
        strides_(std::move(strides)),
        offset_(offset) {}

 private:
  friend class ConcreteNode;
  friend Array contiguous_and_kept(const Array& x);
  Shape strides_;
  std::ptrdiff_t offset_;
  mutable std::once_flag once_;
  mutable Array dense_;
};

inline const Shape& ConcreteNode::strides() const {
  return static_cast<const StridedNode&>(*this).strides_;
}
inline std::byte* ConcreteNode::data() const {
  std::byte* const first = buffer_->data();
  if (first == nullptr) [[unlikely]]
    throw_donated();
  return is_dense() ? first : first + static_cast<const StridedNode&>(*this).offset_;
}

/// ShapeError unless an array can have this type: "eye: sizes must not be negative, got (2, -1)".
void check_type(std::string_view name, const ShapedArray& aval);
/// The same, and OutOfMemoryError when it is about to be computed and larger than the memory. Asked
/// early by functions that would take long to fail, or fail in a primitive that the user did not name.
void check_dense(std::string_view name, const ShapedArray& aval);
/// An uninitialised dense array.
Array make_uninitialized(const ShapedArray& aval);
/// The same of a type that is known to be one of an array, for those who make many.
class DenseType {
 public:
  explicit DenseType(const ShapedArray& aval);
  const ShapedArray& aval() const { return aval_; }
  std::size_t bytes() const { return bytes_; }
  Array make_uninitialized() const;
  /// One of each, in places that are empty, and where their elements begin.
  static void make_uninitialized(std::span<const DenseType> types, std::span<Array> places,
                                 void** data);

 private:
  bool is_small() const { return size_class_ >= 0; }
  ConcreteNode* make_node() const;
  static const DenseType* make_run(const DenseType* type, const DenseType* end, Array*& place,
                                   void**& data);
  ShapedArray aval_;
  std::size_t bytes_;  // of its elements together
  // The block of a small array.
  std::size_t data_ = 0;
  int size_class_ = -1;
  int class_in_run_ = -1;  // the same of those that are made in a run
};
/// Makes every byte that is not 0 a 1: memory from outside may hold anything as a bool.
void make_bools(void* bytes, std::size_t n);
/// The node of a concrete array; InternalError on a tracer.
ConcreteNode& concrete_node(const Array& x);
/// The same of an array that is known to be concrete.
inline const ConcreteNode& known_concrete_node(const Array& x) {
  return static_cast<const ConcreteNode&>(*x.node_or_null());
}
inline bool is_dense_value(const Array& x) { return x.node_or_null()->is_dense(); }
/// First element of an array that is known to be concrete and dense.
inline std::byte* dense_data(const Array& x) {
  std::byte* const first = known_concrete_node(x).buffer().data();
  return first != nullptr ? first : known_concrete_node(x).data();  // which throws
}
/// The same elements in dense row-major memory (the array itself when it is dense already).
Array contiguous(const Array& x);
/// The same elements in dense memory that nobody else has: donations of x do not change them.
Array private_copy(const Array& x);
/// Its elements in dense row-major memory from there on.
void copy_elements(const Array& x, void* to);
/// As `contiguous`, made once for all who hold this view: to be read, and as large as the view as long as that
/// lives.
Array contiguous_and_kept(const Array& x);
/// An array over memory that others have and nobody writes as long as this lives, which nobody may hold any longer.
class LentArray {
 public:
  LentArray(const ShapedArray& aval, const void* data);
  ~LentArray();
  LentArray(const LentArray&) = delete;
  LentArray& operator=(const LentArray&) = delete;
  const Array& array() const { return array_; }

 private:
  Array array_;
};
/// Dense data for reading. The array must be dense.
template <class T> const T* data_of(const Array& x) {
  return reinterpret_cast<const T*>(concrete_node(x).data());
}
/// Memory of an array that was just made and is not shared yet.
template <class T> T* mutable_data_of(const Array& x) {
  return reinterpret_cast<T*>(concrete_node(x).data());
}
/// Byte strides of x, computed when it is dense.
Shape byte_strides(const Array& x);
Shape dense_strides(const Shape& shape, DType dtype);
/// The same buffer under another aval of equal byte size (reshape, weak type). x must be dense.
Array with_aval(const Array& x, ShapedArray aval);
/// A view with zero strides along broadcast dimensions.
Array broadcast_view(const Array& x, const ShapedArray& aval, const Shape& strides);
/// A strong scalar of `dtype` with the (converted) value; throws TypeError when an integer literal
/// does not fit the dtype.
Array convert_scalar(const Array& scalar, DType dtype, bool weak = false);
/// TypeError when an element of a concrete array of integers does not fit the integer dtype.
void check_integers_fit(const Array& x, DType dtype);
/// A concrete array of one repeated value (zero-stride view).
Array full_of(const ShapedArray& aval, double value);
/// Same shape, dtype and bits of concrete arrays; weak types are not compared.
bool same_bits(const Array& a, const Array& b);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
