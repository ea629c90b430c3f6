// Buffers and concrete arrays.
#include "core/concrete.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/counted.hpp"
#include "core/element.hpp"
#include "core/kept_names.hpp"
#include "core/sanitizers.hpp"
#include "core/size_errors.hpp"
#include "core/trace.hpp"
#include "runtime/allocator.hpp"
#include "runtime/kernels/copy.hpp"
#include "runtime/small_blocks.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

const Device& host_device() {
  static const auto* device = new Device{"cpu:0"};  // leaked: usable while the process ends
  return *device;
}

// The header and the room, for memory that is still to come.
DeviceBuffer* DeviceBuffer::make_empty(std::size_t bytes) {
  static_assert(sizeof(DeviceBuffer) <= kHeader);
  constexpr int kClass = runtime::size_class(kHeader + sizeof(ConcreteNode)).index;
  return new (runtime::take_block(kClass)) DeviceBuffer(nullptr, bytes, kClass, true);
}

DeviceBuffer* DeviceBuffer::make(std::size_t bytes) {
  DeviceBuffer* const buffer = make_empty(bytes);
  try {
    buffer->data_ = static_cast<std::byte*>(runtime::allocate_array(bytes));
  } catch (...) {
    buffer->release();
    throw;
  }
  return buffer;
}

// Of every array, so within its callers here.
[[gnu::always_inline]] inline void DeviceBuffer::destroy_at_once() const {
  if (apart_) return destroy_both();
  runtime::give_block(const_cast<DeviceBuffer*>(this), size_class_);
}
void DeviceBuffer::destroy() const { destroy_at_once(); }
void DeviceBuffer::destroy_both() const {
  if (lender_ != nullptr) lender_->release();
  else if (data_ != nullptr) runtime::deallocate_array(data_, bytes_);
  runtime::give_block(const_cast<DeviceBuffer*>(this), size_class_);
}

// The first array over a buffer, which it takes over: without memory for it, the buffer goes too.
static ConcreteNode* node_of(const ShapedArray& aval, DeviceBuffer* buffer) {
  try {
    return new (buffer->room()) ConcreteNode(aval, buffer, ArrayNode::Held{});
  } catch (...) {
    buffer->release();
    throw;
  }
}

// Nothing has changed yet where there is no memory for it.
Array DeviceBuffer::donate_into(const ShapedArray& aval, const char* call) {
  DeviceBuffer* const fresh = make_empty(bytes_);
  Array array = Array::holder_of(node_of(aval, fresh));
  fresh->data_ = std::exchange(data_, nullptr);
  if (lender_ != nullptr || !apart_) {
    fresh->lender_ = lender_ != nullptr ? lender_ : this;
    fresh->lender_->retain();
  }
  mark_donated(call);
  return array;
}

void DeviceBuffer::take_back(const Array& result) {
  DeviceBuffer& other = concrete_node(result).buffer();
  data_ = std::exchange(other.data_, nullptr);
  donated_to_ = nullptr;
  if (const DeviceBuffer* lender = std::exchange(other.lender_, nullptr)) lender->release();
}

void DeviceBuffer::lose() {
  try {
    mark_donated(kept_name(std::string(donated_to_) +
                           ", which threw when it had begun to write its results there,"));
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the call alone is named then
  }
}

ConcreteNode::ConcreteNode(ShapedArray aval, DeviceBuffer* buffer)
    : ConcreteNode(Kind::dense, std::move(aval), buffer) {}
ConcreteNode::ConcreteNode(Kind kind, ShapedArray aval, DeviceBuffer* buffer)
    : ArrayNode(kind, std::move(aval)), buffer_(buffer) {
  buffer_->retain();
}
ConcreteNode::~ConcreteNode() { buffer_->release(); }
void* ConcreteNode::operator new(std::size_t size) { return runtime::allocate(size); }
void ConcreteNode::operator delete(void* p, std::size_t size) { runtime::deallocate(p, size); }
// In the buffer's block the node holds the buffer until its own memory is no longer needed.
inline void ConcreteNode::destroy_in_room() const {
  const DeviceBuffer* const buffer = buffer_;
  std::destroy_at(&aval_);  // all that a destructor would do
  if (drop_reference(buffer->count_)) buffer->destroy_at_once();
}

// The way of most arrays: their node lies in the block of their buffer, which nobody shares.
void ArrayNode::destroy() const {
  if (is_dense() && DeviceBuffer::is_room(this)) [[likely]]
    static_cast<const ConcreteNode*>(this)->destroy_in_room();
  else delete this;
}

void ConcreteNode::throw_donated() const {
  throw DonatedBufferError(
      "the array " + aval().to_string() + " was donated to " + buffer_->donated_to() +
      " and its buffer no longer holds its value; use the result of that call, if it gave one, "
      "or do not donate the argument");
}

void check_type(std::string_view name, const ShapedArray& aval) {
  for (const std::int64_t n : aval.shape) {
    if (n >= 0) continue;
    throw ShapeError(std::string(name) + ": sizes must not be negative, got " +
                     aval.shape.to_string());
  }
  with_operation([&] { return std::string(name); }, [&] { return checked_bytes(aval); });
}

void check_dense(std::string_view name, const ShapedArray& aval) {
  check_type(name, aval);
  const auto bytes = static_cast<std::size_t>(checked_bytes(aval));
  if (has_dynamic_trace() || bytes <= runtime::memory_limit()) return;
  throw OutOfMemoryError(std::string(name) + ": an array of type " + aval.to_string() + " has " +
                         counted(bytes, "byte") + ", but the machine has " +
                         std::to_string(runtime::memory_limit()) +
                         "; use smaller sizes, or compute it under jit with what it is used for");
}

namespace {

struct SmallBlock {
  std::size_t data;
  int size_class;
};
SmallBlock small_block(std::size_t bytes) {
  const std::size_t data = DeviceBuffer::data_behind(sizeof(ConcreteNode), bytes);
  return {data, runtime::size_class(data + bytes).index};
}
inline DeviceBuffer* make_small_buffer(std::size_t bytes, SmallBlock b, void* block) {
  DeviceBuffer* const buffer = DeviceBuffer::make_in(block, b.size_class, b.data, bytes);
  // The block is as large as its class: overruns within it would go unnoticed.
  forbid(buffer->data() + bytes,
         static_cast<std::byte*>(block) + runtime::class_size(b.size_class));
  return buffer;
}
ConcreteNode* make_small(const ShapedArray& aval, std::size_t bytes, SmallBlock b) {
  return node_of(aval, make_small_buffer(bytes, b, runtime::take_block(b.size_class)));
}
ConcreteNode* make_large(const ShapedArray& aval, std::size_t bytes) {
  return node_of(aval, DeviceBuffer::make(bytes));
}

}  // namespace

Array make_uninitialized(const ShapedArray& aval) {
  const auto bytes = static_cast<std::size_t>(checked_bytes(aval));
  if (!DeviceBuffer::is_small(bytes)) return Array::holder_of(make_large(aval, bytes));
  return Array::holder_of(make_small(aval, bytes, small_block(bytes)));
}

DenseType::DenseType(const ShapedArray& aval)
    : aval_(aval), bytes_(static_cast<std::size_t>(checked_bytes(aval))) {
  if (!DeviceBuffer::is_small(bytes_)) return;
  const SmallBlock block = small_block(bytes_);
  data_ = block.data;
  size_class_ = block.size_class;
  // A longer shape has memory of its own. Where there is none for a copy the block goes back, which must not happen
  // while others are taken.
  constexpr std::size_t kWithinShapes = 4;
  if (aval.shape.size() <= kWithinShapes) class_in_run_ = size_class_;
}
inline ConcreteNode* DenseType::make_node() const {
  return is_small() ? make_small(aval_, bytes_, {data_, size_class_}) : make_large(aval_, bytes_);
}
Array DenseType::make_uninitialized() const { return Array::holder_of(make_node()); }
// The first ones, as long as they are of one class of blocks and this thread has kept such. The first that was
// not made.
[[gnu::always_inline]] inline const DenseType* DenseType::make_run(const DenseType* type,
                                                                   const DenseType* end,
                                                                   Array*& place, void**& data) {
  const int index = type->class_in_run_;
  if (index < 0) return type;
  runtime::BlockTaker blocks(index);
  do {
    void* const block = blocks.take();
    if (block == nullptr) return type;
    DeviceBuffer* const buffer = make_small_buffer(type->bytes_, {type->data_, index}, block);
    auto* const node = new (buffer->room()) ConcreteNode(type->aval_, buffer, ArrayNode::Held{});
    ::new (place++) Array(Array::holder_of(node));
    *data++ = static_cast<std::byte*>(block) + type->data_;
  } while (++type != end && type->class_in_run_ == index);
  return type;
}
void DenseType::make_uninitialized(std::span<const DenseType> types, std::span<Array> places,
                                   void** data) {
  if (types.size() == 1) {
    types[0].make_uninitialized().swap(places[0]);
    *data = dense_data(places[0]);
    return;
  }
  const DenseType* const end = types.data() + types.size();
  Array* place = places.data();
  for (const DenseType* type = types.data(); type != end; ++type) {
    type = make_run(type, end, place, data);
    if (type == end) return;
    ConcreteNode* const node = type->make_node();
    ::new (place++) Array(Array::holder_of(node));  // an empty handle needs no destruction
    *data++ = node->buffer().data();
  }
}

ConcreteNode& concrete_node(const Array& x) {
  if (x.is_tracer()) {
    throw InternalError("a tracer " + x.aval().to_string() +
                        " reached code that computes on concrete arrays");
  }
  return static_cast<ConcreteNode&>(*x.node());
}

Shape dense_strides(const Shape& shape, DType dtype) {
  Shape strides(shape.size(), 0);
  // Unsigned: in an array without elements, like (0, 2^62, 8), the other sizes may wrap around.
  std::uint64_t step = size_of(dtype);
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = static_cast<std::int64_t>(step);
    step *= static_cast<std::uint64_t>(shape[i]);
  }
  return strides;
}

Shape byte_strides(const Array& x) {
  const ConcreteNode& node = concrete_node(x);
  return node.is_dense() ? dense_strides(x.shape(), x.dtype()) : node.strides();
}

void copy_elements(const Array& x, void* to) {
  const ConcreteNode& node = concrete_node(x);
  const Shape dense = dense_strides(x.shape(), x.dtype());
  const Shape& strides = node.is_dense() ? dense : node.strides();
  kernels::run_copy({reinterpret_cast<char*>(node.data()), x.dtype(), x.shape(), strides},
                    {static_cast<char*>(to), x.dtype(), x.shape(), dense});
}

Array private_copy(const Array& x) {
  Array out = make_uninitialized(x.aval());
  copy_elements(x, mutable_data_of<char>(out));
  return out;
}

// An empty array may have no address.
LentArray::LentArray(const ShapedArray& aval, const void* data) {
  DeviceBuffer* const buffer =
      DeviceBuffer::make_empty(static_cast<std::size_t>(checked_bytes(aval)));
  Array::holder_of(node_of(aval, buffer)).swap(array_);
  buffer->data_ = data == nullptr ? static_cast<std::byte*>(buffer->room())
                                  : static_cast<std::byte*>(const_cast<void*>(data));
}
LentArray::~LentArray() { concrete_node(array_).buffer().data_ = nullptr; }

Array contiguous(const Array& x) { return concrete_node(x).is_dense() ? x : private_copy(x); }

Array contiguous_and_kept(const Array& x) {
  const ConcreteNode& node = concrete_node(x);
  if (node.is_dense()) return x;
  const auto& view = static_cast<const StridedNode&>(node);
  view.data();  // throws if it was donated since
  std::call_once(view.once_, [&] { view.dense_ = contiguous(x); });
  return view.dense_;
}

Array with_aval(const Array& x, ShapedArray aval) {
  const ConcreteNode& node = concrete_node(x);
  if (node.is_dense()) return Array(new ConcreteNode(std::move(aval), &node.buffer()));
  if (aval.shape == x.shape()) return broadcast_view(x, aval, node.strides());
  return with_aval(contiguous(x), std::move(aval));
}

Array broadcast_view(const Array& x, const ShapedArray& aval, const Shape& strides) {
  const ConcreteNode& node = concrete_node(x);
  return Array(new StridedNode(aval, &node.buffer(), strides, node.data() - node.buffer().data()));
}

namespace {

// An integer scalar literal must fit the dtype it takes on.
void check_fits(const Element& e, DType dtype) {
  if (!is_integer(dtype) || e.form == Element::Form::real || e.form == Element::Form::complex)
    return;
  const bool is_signed = is_signed_integer(dtype);
  const int value_bits = static_cast<int>(size_of(dtype)) * 8 - (is_signed ? 1 : 0);
  const std::uint64_t highest = ~std::uint64_t{0} >> (64 - value_bits);
  const std::int64_t lowest = is_signed ? -static_cast<std::int64_t>(highest) - 1 : 0;
  const bool is_int = e.form == Element::Form::signed_int;
  const bool negative = is_int && e.i < 0;
  const std::uint64_t magnitude = is_int ? static_cast<std::uint64_t>(e.i) : e.u;
  if (negative ? e.i >= lowest : magnitude <= highest) return;
  throw TypeError("the integer " + (negative ? std::to_string(e.i) : std::to_string(magnitude)) +
                  " does not fit dtype " + std::string(short_name(dtype)) + ", which holds " +
                  std::to_string(lowest) + " to " + std::to_string(highest) +
                  "; use a number in between, or convert the array to a wider dtype first");
}

}  // namespace

Array convert_scalar(const Array& scalar, DType dtype, bool weak) {
  if (scalar.dtype() == dtype && scalar.weak_type() == weak) return scalar;
  const Element e = load_element(concrete_node(scalar).data(), scalar.dtype());
  if (scalar.weak_type()) check_fits(e, dtype);
  Array out = make_uninitialized({{}, dtype, weak});
  store_element(concrete_node(out).data(), dtype, e);
  return out;
}

void check_integers_fit(const Array& x, DType dtype) {
  const DType from = x.dtype();
  const bool wider =
      size_of(dtype) > size_of(from) && (is_signed_integer(dtype) || is_unsigned_integer(from));
  if (from == dtype || wider) return;
  const Array dense = contiguous(x);
  const std::byte* element = concrete_node(dense).data();
  for (std::int64_t i = 0; i < x.size(); ++i, element += size_of(from))
    check_fits(load_element(element, from), dtype);
}

Array full_of(const ShapedArray& aval, double value) {
  Array one = make_uninitialized({{}, aval.dtype, aval.weak_type});
  store_element(concrete_node(one).data(), aval.dtype, {.form = Element::Form::real, .re = value});
  if (aval.shape.empty()) return one;
  return broadcast_view(one, aval, Shape(aval.shape.size(), 0));
}

bool same_bits(const Array& a, const Array& b) {
  if (!a.aval().same_type(b.aval())) return false;
  const Array x = contiguous(a), y = contiguous(b);
  const auto bytes = static_cast<std::size_t>(x.size()) * size_of(x.dtype());
  return bytes == 0 || std::memcmp(data_of<std::byte>(x), data_of<std::byte>(y), bytes) == 0;
}

ArrayNode::~ArrayNode() = default;

Array make_scalar(ScalarValue value, bool weak) {
  // A bool has one width only: there is nothing to be weak about.
  Array out = make_uninitialized({{}, value.dtype, weak && value.dtype != DType::bool_});
  std::byte* p = concrete_node(out).data();
  switch (kind_of(value.dtype)) {
    case Kind::boolean:
      store_element(p, value.dtype, {.form = Element::Form::unsigned_int, .u = value.b});
      break;
    case Kind::signed_int:
      store_element(p, value.dtype, {.form = Element::Form::signed_int, .i = value.i});
      break;
    case Kind::unsigned_int:
      store_element(p, value.dtype, {.form = Element::Form::unsigned_int, .u = value.u});
      break;
    default: store_element(p, value.dtype, {.form = Element::Form::real, .re = value.f}); break;
  }
  return out;
}

Array make_from_data(const void* data, DType dtype, Shape shape) {
  const auto from_data = [] { return std::string("Array::from_data"); };
  Array out = with_operation(from_data,
                             [&] { return make_uninitialized({std::move(shape), dtype, false}); });
  const auto bytes = static_cast<std::size_t>(out.size()) * size_of(dtype);
  if (bytes && !data) {
    throw ValueError("Array::from_data: the data is a null pointer, but " + out.aval().to_string() +
                     " needs " + counted(bytes, "byte"));
  }
  if (bytes) std::memcpy(concrete_node(out).data(), data, bytes);
  if (dtype == DType::bool_) make_bools(concrete_node(out).data(), bytes);
  return out;
}

void make_bools(void* bytes, std::size_t n) {
  auto* p = static_cast<unsigned char*>(bytes);
  for (std::size_t i = 0; i < n; ++i) p[i] = p[i] != 0;
}

void empty_array_error() {
  throw TypeError(
      "an empty Array (default-constructed or moved from) was used where a value is needed");
}

void empty_operand_error(std::string_view function, std::size_t operand, SourceLocation where) {
  const CallSite site(error_site() ? error_site() : where);  // `where` may be a line of the library
  throw TypeError(std::string(function) + ": operand " + std::to_string(operand) +
                  " is an empty Array (default-constructed or moved from)");
}

std::size_t checked_axis(const ShapedArray& aval, std::int64_t axis, SourceLocation where) {
  const std::int64_t ndim = aval.ndim();
  if (axis < -ndim || axis >= ndim) {
    const CallSite site(where);
    throw IndexError("shape: axis " + std::to_string(axis) + " is out of bounds for " +
                     aval.to_string() + ", which has " + counted(ndim, "dimension"));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + ndim : axis);
}

void no_memory_for(const ShapedArray& aval, std::size_t element_size) {
  throw_out_of_memory([&] {
    return "to_vector() of " + aval.to_string() + ": out of memory for " +
           counted(aval.size(), "element") + " of " + counted(element_size, "byte") +
           "; read a part of the array";
  });
}

void values_do_not_fill(const Shape& shape, std::size_t values) {
  throw ShapeError("Array: " + counted(values, "value") + " cannot fill shape " +
                   shape.to_string());
}

void check_memory_for(const ShapedArray& aval, std::size_t element_size) {
  const auto n = static_cast<std::size_t>(aval.size());
  if (n > runtime::memory_limit() / element_size) no_memory_for(aval, element_size);
}

void read_item(const Array& x, DType dtype, void* out) {
  if (!x.has_value()) empty_operand_error("item()", 0);
  if (x.size() != 1) {
    throw TypeError("item() needs an array of one element, got " + x.aval().to_string() +
                    "; use to_vector() or index it first");
  }
  const Array value = concrete_value(x, "item()");
  store_element(out, dtype, load_element(concrete_node(value).data(), value.dtype()));
}

void read_all(const Array& x, DType dtype, void* out) {
  const Array value = contiguous(concrete_value(x, "to_vector()"));
  const std::byte* from = concrete_node(value).data();
  const auto n = static_cast<std::size_t>(value.size());
  const std::size_t in_size = size_of(value.dtype()), out_size = size_of(dtype);
  if (value.dtype() == dtype) {
    if (n) std::memcpy(out, from, n * out_size);
    return;
  }
  auto* to = static_cast<std::byte*>(out);
  for (std::size_t i = 0; i < n; ++i)
    store_element(to + i * out_size, dtype, load_element(from + i * in_size, value.dtype()));
}

}  // namespace detail

Array::operator bool() const {
  // Its line is not known: a conversion takes no arguments.
  if (!has_value()) detail::empty_operand_error("bool()", 0);
  if (size() != 1) {
    throw TypeError("the truth of an array of " + detail::counted(size(), "element") + " (" +
                    aval().to_string() + ") is ambiguous; use all() or any()");
  }
  const Array value = detail::concrete_value(*this, "bool()");
  return detail::load_element(detail::concrete_node(value).data(), value.dtype()).is_true();
}

}  // namespace v1
}  // namespace telamon
