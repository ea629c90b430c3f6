// iota: 0, 1, 2, ... along one dimension. iota_2x32_shape: the row-major index of each element as two
// u32 words, for counters of random bits. Neither has operands.
#include "primitives/eager.hpp"
#include "primitives/rules.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

constexpr const char* kNoOperands = "has no operands";
const std::map<std::string, std::string, std::less<>> kExempt = {
    {"jvp", kNoOperands}, {"transpose", kNoOperands}, {"batch", kNoOperands}};

Aval iota_aval(const IotaParams& p, std::span<const Aval> avals) {
  check_arity("iota", avals, 0);
  check_axis("iota", avals, "dimension", p.dimension, p.shape.ndim());
  if (p.dtype == DType::bool_ || p.dtype == DType::float0) {
    dtype_error("iota", avals, "takes number types, not " + std::string(short_name(p.dtype)));
  }
  return {p.shape, p.dtype, false};
}

/// The numbers once, seen through strides of zero in the other dimensions.
Arrays iota_impl(const IotaParams& p, std::span<const Array> x) {
  const Aval aval = iota_aval(p, avals_of(x));
  if (aval.size() == 0) return {make_uninitialized(aval)};
  const auto d = static_cast<std::size_t>(p.dimension);
  const Array line = make_uninitialized({{p.shape[d]}, p.dtype, false});
  kernels::run_iota(view_of(line), 0);
  Shape strides(p.shape.size(), 0);
  strides[d] = static_cast<std::int64_t>(size_of(p.dtype));
  return {p.shape.size() == 1 ? line : broadcast_view(line, aval, strides)};
}

AbstractResult iota_2x32_avals(const Iota2x32Params& p, std::span<const Aval> avals) {
  check_arity("iota_2x32_shape", avals, 0);
  return std::vector<Aval>(2, Aval{p.shape, DType::u32, false});
}

Arrays iota_2x32_impl(const Iota2x32Params& p, std::span<const Array> x) {
  const auto avals = iota_2x32_avals(p, avals_of(x)).avals;
  Arrays words = {make_uninitialized(avals[0]), make_uninitialized(avals[1])};
  auto* high = mutable_data_of<std::uint32_t>(words[0]);
  auto* low = mutable_data_of<std::uint32_t>(words[1]);
  const auto n = static_cast<std::uint64_t>(p.shape.num_elements());
  for (std::uint64_t i = 0; i < n; ++i) {
    high[i] = static_cast<std::uint32_t>(i >> 32);
    low[i] = static_cast<std::uint32_t>(i);
  }
  return words;
}

Arrays iota_2x32_lower(const Iota2x32Params& p, std::span<const Array>) {
  if (p.shape.num_elements() <= std::int64_t{1} << 32) {  // 32 bits are enough: twice the lanes
    return {lax::full(p.shape, DType::u32, 0),
            lax::reshape(lax::iota(DType::u32, {p.shape.num_elements()}), p.shape)};
  }
  const Array i = lax::reshape(lax::iota(DType::u64, {p.shape.num_elements()}), p.shape);
  const Array high = lax::shift_right_logical(i, lax::full(p.shape, DType::u64, 32));
  const Array low = lax::bitwise_and(i, lax::full(p.shape, DType::u64, 4294967295.0));
  return {lax::convert_element_type(high, DType::u32), lax::convert_element_type(low, DType::u32)};
}

}  // namespace
}  // namespace detail

const Primitive<IotaParams> iota_p{
    "iota", [] {
      using namespace detail;
      return Rules<IotaParams>{
          .impl = iota_impl,
          .abstract_eval = iota_aval,
          .lower = at_index<IotaParams>(
              [](Emitter& e, const IotaParams& p, std::span<const Source>, const Index& index) {
                return e.convert(index[static_cast<std::size_t>(p.dimension)], p.dtype);
              }),
          .exempt = kExempt,
      };
    }};

const Primitive<Iota2x32Params> iota_2x32_shape_p{
    "iota_2x32_shape", [] {
      using namespace detail;
      return Rules<Iota2x32Params>{
          .impl = iota_2x32_impl,
          .abstract_eval = iota_2x32_avals,
          .lower = ops<Iota2x32Params>(iota_2x32_lower),
          .exempt = kExempt,
      };
    }};

}  // namespace v1
}  // namespace telamon
