// The simplifier's table, rule by rule: for each primitive an example that it rewrites and nothing else does.
#include <gmock/gmock.h>

#include <limits>
#include <map>
#include <regex>

#include "compiler/passes/passes.hpp"
#include "compiler/passes/simplify.hpp"
#include "compiler/support.hpp"

namespace telamon::testing {
namespace {

using compiler::Rule;

/// A program, and the primitives of what is left of it. In the text P is the primitive whose equation the rule
/// rewrites, and `splat` an array of one number.
struct Example {
  std::string_view entry;  ///< a rule, with a primitive where not all have the same example
  const char *inputs, *equations, *results, *left;
};
const Example kExamples[] = {
    {"known_number", "a:f32[4]", "b:f32[4] = splat 2.0:f32  c:f32[4] = exp b  d:f32[4] = mul a c",
     "d", "broadcast_in_dim mul"},
    // numbers
    {"add_zero", "a:f32[4]", "b:f32[4] = splat -0.0:f32  c:f32[4] = add a b", "c", ""},
    {"add_plus_zero", "a:f32[8] b:bool[8]",
     "c:f32[8] = splat 0.0:f32  d:f32[8] = convert_element_type [ new_dtype=f32 ] b "
     "e:f32[8] = sub d a  f:f32[8] = mul a a  g:f32[8] = add f e  h:f32[8] = add c g  i:f32[8] = "
     "add a c",
     "h i", "broadcast_in_dim convert_element_type sub mul add add"},
    {"add_negated", "a:f32[8] b:f32[8]", "c:f32[8] = neg b  d:f32[8] = add c a", "d", "sub"},
    {"sum_of_pads", "a:f32[7]",
     "b:f32[4] = slice [ limit_indices=(7,) start_indices=(3,) strides=() ] a "
     "c:f32[3] = slice [ limit_indices=(3,) start_indices=(0,) strides=() ] a "
     "d:f32[7] = pad [ padding_config=((0, 3, 0),) ] b 0.0:f32 "
     "e:f32[7] = pad [ padding_config=((4, 0, 0),) ] c 0.0:f32  f:f32[7] = add d e",
     "f", "slice slice concatenate broadcast_in_dim add"},
    {"sub_zero", "a:f32[4]", "b:f32[4] = splat 0.0:f32  c:f32[4] = sub a b", "c", ""},
    {"sub_negated", "a:f32[8] b:f32[8]", "c:f32[8] = neg b  d:f32[8] = sub a c", "d", "add"},
    {"mul_one", "a:f32[4]", "b:f32[4] = splat 1.0:f32  c:f32[4] = mul b a", "c", ""},
    {"mul_zero", "a:i32[4]", "b:i32[4] = splat 0:i32  c:i32[4] = mul a b", "c", "broadcast_in_dim"},
    {"by_minus_one", "a:f32[8]", "b:f32[8] = splat -1.0:f32  c:f32[8] = P a b", "c", "neg"},
    {"signs_cancel", "a:f32[8] b:f32[8]", "c:f32[8] = neg a  d:f32[8] = neg b  e:f32[8] = P c d",
     "e", "P"},
    {"sign_unseen", "a:f32[8]", "b:f32[8] = neg a  c:f32[8] = P b", "c", "P"},
    {"sign_unseen integer_pow", "a:f32[8]", "b:f32[8] = neg a  c:f32[8] = P [ y=4 ] b", "c", "P"},
    {"as_it_is", "a:f32[8]", "b:f32[8] = P a  c:f32[8] = P b", "c", "P"},
    {"div_constant", "a:f32[8]", "b:f32[8] = splat 4.0:f32  c:f32[8] = div a b", "c",
     "broadcast_in_dim mul"},
    {"byte_over_number", "a:u8[8]",
     "b:f32[8] = convert_element_type [ new_dtype=f32 weak_type=0 ] a  c:f32[8] = splat 255.0:f32 "
     "d:f32[8] = div b c",
     "d", "convert_element_type broadcast_in_dim mul broadcast_in_dim mul add"},
    {"power_one", "a:f32[8]", "b:f32[8] = integer_pow [ y=1 ] a", "b", ""},
    {"twice", "a:i32[8]", "b:i32[8] = P a  c:i32[8] = P b", "c", ""},
    {"identity", "a:f32[8]", "b:f32[8] = P a", "b", ""},
    {"with_itself", "a:f32[8]", "b:f32[8] = P a a", "b", ""},
    {"with_itself and", "a:i32[8]", "b:i32[8] = P a a", "b", ""},
    {"with_itself or", "a:bool[8]", "b:bool[8] = P a a", "b", ""},
    {"from_itself", "a:i32[8]", "b:i32[8] = P a a", "b", "broadcast_in_dim"},
    {"compared_with_itself", "a:i32[8]", "b:bool[8] = P a a", "b", "broadcast_in_dim"},
    {"compared_with_itself lt", "a:f32[8]", "b:bool[8] = P a a", "b", "broadcast_in_dim"},
    {"with_zero_bits", "a:i32[8]", "b:i32[8] = splat 0:i32  c:i32[8] = P a b", "c", ""},
    {"absorbing_bits and", "a:u8[8]", "b:u8[8] = splat 0:u8  c:u8[8] = P a b", "c",
     "broadcast_in_dim"},
    {"absorbing_bits or", "a:u8[8]", "b:u8[8] = splat 255:u8  c:u8[8] = P a b", "c",
     "broadcast_in_dim"},
    {"and_ones", "a:i64[8]", "b:i64[8] = splat -1:i64  c:i64[8] = and b a", "c", ""},
    {"xor_ones", "a:u64[8]", "b:u64[8] = splat 18446744073709551615:u64  c:u64[8] = xor b a", "c",
     "not"},
    {"beyond_all max", "a:f32[8]", "b:f32[8] = splat -inf:f32  c:f32[8] = P a b", "c", ""},
    {"beyond_all min", "a:f32[8]", "b:f32[8] = splat inf:f32  c:f32[8] = P b a", "c", ""},
    {"select_known", "a:f32[8] b:f32[8]", "c:f32[8] = select_n True:bool a b", "c", ""},
    {"select_same", "a:f32[8] b:bool[8]", "c:f32[8] = select_n b a a", "c", ""},
    {"select_of_not", "a:f32[8] b:f32[8] c:bool[8]", "d:bool[8] = not c  e:f32[8] = select_n d a b",
     "e", "select_n"},
    {"select_of_select", "a:f32[8] b:f32[8] c:f32[8] d:bool[8]",
     "e:f32[8] = select_n d a b  f:bool[8] = not d  g:f32[8] = select_n f c e", "g", "select_n"},
    {"select_truth", "a:bool[8]",
     "b:bool[8] = splat True:bool  c:bool[8] = splat False:bool  d:bool[8] = select_n a b c", "d",
     "not"},
    {"select_update", "a:f32[8] b:f32[3] c:bool[]",
     "d:f32[8] = dynamic_update_slice a b 2:i32  e:f32[8] = select_n c a d", "e",
     "slice select_n dynamic_update_slice"},
    {"scatter_at_known scatter", "a:f32[4,8] b:f32[6]",
     "c:i32[1] = splat 3:i32  d:i32[1] = splat 1:i32  e:i32[2] = concatenate [ dimension=0 ] c d "
     "f:f32[4,8] = scatter [ dimension_numbers={update_window_dims=(0,), "
     "inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0, 1), operand_batching_dims=(), "
     "scatter_indices_batching_dims=()} mode=clip ] a e b",
     "f", "reshape dynamic_update_slice"},
    {"scatter_at_known scatter_add", "a:f32[4,8] b:f32[3,8]",
     "c:i32[1] = splat 1:i32 "
     "d:f32[4,8] = scatter_add [ dimension_numbers={update_window_dims=(0, 1), "
     "inserted_window_dims=(), scatter_dims_to_operand_dims=(0,), operand_batching_dims=(), "
     "scatter_indices_batching_dims=()} mode=fill_or_drop ] a c b",
     "d", "pad add"},
    {"convert_same", "a:f32[8]", "b:f32[8] = convert_element_type [ new_dtype=f32 ] a", "b", ""},
    {"convert_chain", "a:i8[8]",
     "b:i32[8] = convert_element_type [ new_dtype=i32 ] a "
     "c:f64[8] = convert_element_type [ new_dtype=f64 ] b",
     "c", "convert_element_type"},
    {"converted_sum", "a:u8[8,3]",
     "b:u32[8,3] = convert_element_type [ new_dtype=u32 ] a "
     "c:u32[8] = reduce_sum [ axes=(1,) ] b  d:u8[8] = convert_element_type [ new_dtype=u8 ] c",
     "d", "reduce_sum"},
    {"truth_of_number eq", "a:bool[8]", "b:bool[8] = splat False:bool  c:bool[8] = P a b", "c",
     "not"},
    {"truth_of_number ne", "a:bool[8]",
     "b:i32[8] = convert_element_type [ new_dtype=i32 ] a  c:i32[8] = splat 0:i32 "
     "d:bool[8] = P c b",
     "d", ""},
    {"compare_known", "a:f32[8,9]",
     "b:i32[8] = argmax [ axes=(1,) index_dtype=i32 ] a  c:i32[8] = splat -1:i32 "
     "d:bool[8] = P b c",
     "d", "broadcast_in_dim"},
    {"beyond_bounds max", "a:f32[8,9]",
     "b:i32[8] = argmin [ axes=(1,) index_dtype=i32 ] a  c:i32[8] = splat 0:i32 "
     "d:i32[8] = max c b",
     "d", "argmin"},
    {"beyond_bounds min", "a:u8[8]",
     "b:i32[8] = convert_element_type [ new_dtype=i32 ] a  c:i32[8] = splat 255:i32 "
     "d:i32[8] = min b c",
     "d", "convert_element_type"},
    {"compare_positions", "",
     "a:i64[4,4] = iota [ dimension=0 dtype=i64 shape=(4, 4) ] "
     "b:i64[4,4] = iota [ dimension=1 dtype=i64 shape=(4, 4) ]  c:bool[4,4] = P a b",
     "c", "iota iota P"},
    {"mul_position", "a:f32[4]",
     "b:i32[4,4] = iota [ dimension=0 dtype=i32 shape=(4, 4) ] "
     "c:i32[4,4] = iota [ dimension=1 dtype=i32 shape=(4, 4) ]  d:bool[4,4] = eq b c "
     "e:f32[4,4] = convert_element_type [ new_dtype=f32 ] d "
     "f:f32[4,4] = broadcast_in_dim [ broadcast_dimensions=(1,) shape=(4, 4) ] a  g:f32[4,4] = P f "
     "e",
     "g", "iota iota eq broadcast_in_dim broadcast_in_dim mul broadcast_in_dim select_n"},
    // floor_divide by 7
    {"negative_remainder", "a:i32[8]",
     "b:i32[8] = splat 7:i32  c:i32[8] = div a b  d:i32[8] = sign a  e:i32[8] = splat 1:i32 "
     "f:bool[8] = ne d e  g:i32[8] = rem a b  h:i32[8] = splat 0:i32  i:bool[8] = ne g h "
     "j:bool[8] = and f i  k:i32[8] = sub c e  l:i32[8] = select_n j c k",
     "l", "broadcast_in_dim div broadcast_in_dim rem broadcast_in_dim lt sub select_n"},
    // remainder by 16
    {"floored_by_power_of_two", "a:i8[8]",
     "b:i8[8] = splat 16:i8  c:i8[8] = rem a b  d:i8[8] = splat 0:i8  e:bool[8] = ne c d "
     "f:bool[8] = lt c d  g:bool[8] = and f e  h:i8[8] = add c b  i:i8[8] = select_n g c h",
     "i", "broadcast_in_dim and"},
    // shapes
    {"reshape_chain", "a:f32[2,6]",
     "b:f32[12] = reshape [ new_sizes=(12,) ] a  c:f32[3,4] = reshape [ new_sizes=(3, 4) ] b", "c",
     "reshape"},
    {"reshape_of_repeated_rows", "a:f32[200,3]",
     "b:f32[200,2,3] = broadcast_in_dim [ broadcast_dimensions=(0, 2) shape=(200, 2, 3) ] a "
     "c:f32[200,6] = reshape [ new_sizes=(200, 6) ] b",
     "c", "concatenate"},
    {"slice_of_repeats", "a:f32[4,64,3]",
     "b:f32[4,2,64,3] = broadcast_in_dim [ broadcast_dimensions=(0, 2, 3) shape=(4, 2, 64, 3) ] a "
     "c:f32[8,64,3] = reshape [ new_sizes=(8, 64, 3) ] b "
     "d:f32[8,64,1] = slice [ limit_indices=(8, 64, 3) start_indices=(0, 0, 2) strides=(1, 1, 1) ] "
     "c",
     "d", "broadcast_in_dim slice reshape"},
    {"concatenation_of_repeats", "a:f32[4,64]",
     "b:f32[4,2,64] = broadcast_in_dim [ broadcast_dimensions=(0, 2) shape=(4, 2, 64) ] a "
     "c:f32[8,64,1] = reshape [ new_sizes=(8, 64, 1) ] b "
     "d:f32[8,64,2] = concatenate [ dimension=2 ] c c",
     "d", "broadcast_in_dim reshape reshape concatenate reshape"},
    {"transpose_chain", "a:f32[2,3,4]",
     "b:f32[4,2,3] = transpose [ permutation=(2, 0, 1) ] a "
     "c:f32[2,3,4] = transpose [ permutation=(1, 2, 0) ] b",
     "c", ""},
    {"transpose_of_columns", "a:f32[5,1] b:f32[5,1]",
     "c:f32[5,2] = concatenate [ dimension=1 ] a b "
     "d:f32[2,5] = transpose [ permutation=(1, 0) ] c",
     "d", "reshape reshape concatenate"},
    {"order_of_splat transpose", "a:f32[]",
     "b:f32[2,3] = broadcast_in_dim [ broadcast_dimensions=() shape=(2, 3) ] a "
     "c:f32[3,2] = transpose [ permutation=(1, 0) ] b",
     "c", "broadcast_in_dim"},
    {"order_of_splat rev", "a:f32[]",
     "b:f32[2,3] = broadcast_in_dim [ broadcast_dimensions=() shape=(2, 3) ] a "
     "c:f32[2,3] = rev [ dimensions=(1,) ] b",
     "c", "broadcast_in_dim"},
    {"broadcast_chain", "a:f32[4]",
     "b:f32[3,4] = broadcast_in_dim [ broadcast_dimensions=(1,) shape=(3, 4) ] a "
     "c:f32[2,3,4] = broadcast_in_dim [ broadcast_dimensions=(1, 2) shape=(2, 3, 4) ] b",
     "c", "broadcast_in_dim"},
    {"rev_chain", "a:f32[2,3,1]",
     "b:f32[2,3,1] = rev [ dimensions=(0, 1) ] a  c:f32[2,3,1] = rev [ dimensions=(1, 2) ] b", "c",
     "rev"},
    {"pad_nothing", "a:f32[2,3]",
     "b:f32[2,3] = pad [ padding_config=((0, 0, 0), (0, 0, 0)) ] a 1.0:f32", "b", ""},
    {"update_of_all", "a:f32[4] b:f32[4] c:i32[]", "d:f32[4] = dynamic_update_slice a b c", "d",
     ""},
    {"iota_of_one", "", "a:i32[1,3] = iota [ dimension=0 dtype=i32 shape=(1, 3) ]", "a",
     "broadcast_in_dim"},
    {"same_shape", "a:f32[4]",
     "b:f32[4] = slice [ limit_indices=(4,) start_indices=(0,) strides=() ] a", "b", ""},
    {"slice_chain", "a:f32[20]",
     "b:f32[8] = slice [ limit_indices=(17,) start_indices=(2,) strides=(2,) ] a "
     "c:f32[3] = slice [ limit_indices=(8,) start_indices=(1,) strides=(3,) ] b",
     "c", "slice"},
    {"slice_of_broadcast", "a:f32[1,600]",
     "b:f32[5,600] = broadcast_in_dim [ broadcast_dimensions=(0, 1) shape=(5, 600) ] a "
     "c:f32[2,7] = slice [ limit_indices=(5, 70) start_indices=(3, 1) strides=(1, 10) ] b",
     "c", "slice broadcast_in_dim"},
    {"slice_of_concatenation", "a:f32[4] b:f32[5]",
     "c:f32[9] = concatenate [ dimension=0 ] a b "
     "d:f32[3] = slice [ limit_indices=(8,) start_indices=(5,) strides=() ] c",
     "d", "slice"},
    // Of exp and sin there are two small parts: both are computed there only.
    {"slice_of_element", "a:f32[600]",
     "b:f32[600] = sin a  c:f32[600] = exp b "
     "d:f32[3] = slice [ limit_indices=(8,) start_indices=(5,) strides=() ] c "
     "e:f32[3] = slice [ limit_indices=(600,) start_indices=(300,) strides=(100,) ] c",
     "d e", "slice sin exp slice sin exp"},
    {"slice_of_transpose", "a:f32[20,30]",
     "b:f32[30,20] = transpose [ permutation=(1, 0) ] a "
     "c:f32[2,7] = slice [ limit_indices=(30, 7) start_indices=(10, 0) strides=(11, 1) ] b",
     "c", "slice transpose"},
    {"slice_from_known", "a:f32[9]", "b:f32[3] = dynamic_slice [ slice_sizes=(3,) ] a 100:i32", "b",
     "slice"},
    {"gather_of_slices", "a:f32[9]",
     "b:i32[3] = iota [ dimension=0 dtype=i32 shape=(3,) ]  c:i32[3] = splat 2:i32 "
     "d:i32[3] = mul b c  e:i32[3] = add d c  f:i32[3,1] = reshape [ new_sizes=(3, 1) ] e "
     "g:f32[3] = gather [ dimension_numbers={offset_dims=(), collapsed_slice_dims=(0,), "
     "start_index_map=(0,), operand_batching_dims=(), start_indices_batching_dims=()} "
     "mode=fill_or_drop slice_sizes=(1,) ] a f",
     "g", "slice"},
    {"gather_along_range", "a:f32[5,9] b:i32[5,2,1]",
     "c:i32[5,2,1] = iota [ dimension=0 dtype=i32 shape=(5, 2, 1) ]  "
     "d:i32[5,2,2] = concatenate [ dimension=2 ] c b  "
     "e:f32[5,2] = gather [ dimension_numbers={offset_dims=(), collapsed_slice_dims=(0, 1), "
     "start_index_map=(0, 1), operand_batching_dims=(), start_indices_batching_dims=()} "
     "mode=fill_or_drop slice_sizes=(1, 1) ] a d",
     "e", "gather"},
    {"gather_of_windows", "a:f32[99]",
     "b:i32[9,8,1] = iota [ dimension=0 dtype=i32 shape=(9, 8, 1) ]  "
     "c:i32[9,8,1] = splat 11:i32  d:i32[9,8,1] = mul b c  "
     "e:i32[9,8,1] = iota [ dimension=1 dtype=i32 shape=(9, 8, 1) ]  f:i32[9,8,1] = add d e  "
     "g:f32[9,8] = gather [ dimension_numbers={offset_dims=(), collapsed_slice_dims=(0,), "
     "start_index_map=(0,), operand_batching_dims=(), start_indices_batching_dims=()} "
     "mode=fill_or_drop slice_sizes=(1,) ] a f",
     "g", "iota broadcast_in_dim mul gather"},
    {"gather_in_one_row", "a:f32[9] b:i32[30,3]",
     "c:i32[30,3,1] = reshape [ new_sizes=(30, 3, 1) ] b  "
     "d:f32[30,3] = gather [ dimension_numbers={offset_dims=(), collapsed_slice_dims=(0,), "
     "start_index_map=(0,), operand_batching_dims=(), start_indices_batching_dims=()} "
     "mode=fill_or_drop slice_sizes=(1,) ] a c",
     "d", "reshape gather reshape"},
    {"scatter_to_slices", "a:f32[9] b:f32[8,2]",
     "c:i32[8,2,1] = iota [ dimension=0 dtype=i32 shape=(8, 2, 1) ]  "
     "d:i32[8,2,1] = iota [ dimension=1 dtype=i32 shape=(8, 2, 1) ]  e:i32[8,2,1] = add c d  "
     "f:f32[9] = scatter_add [ dimension_numbers={update_window_dims=(), "
     "inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,), operand_batching_dims=(), "
     "scatter_indices_batching_dims=()} mode=fill_or_drop ] a e b",
     "f", "slice reshape pad add slice reshape pad add"},
    {"scatter_to_choices", "a:i32[9,1]",
     "b:f32[9] = splat 2.0:f32  c:f32[9,5] = splat 0.0:f32  "
     "d:f32[9,5] = P [ dimension_numbers={update_window_dims=(), inserted_window_dims=(1,), "
     "scatter_dims_to_operand_dims=(1,), operand_batching_dims=(0,), "
     "scatter_indices_batching_dims=(0,)} mode=fill_or_drop ] c a b",
     "d", "reshape iota broadcast_in_dim eq broadcast_in_dim broadcast_in_dim select_n"},
    {"scatter_to_windows", "a:f32[99] b:f32[9,8]",
     "c:i32[9,8,1] = iota [ dimension=0 dtype=i32 shape=(9, 8, 1) ]  "
     "d:i32[9,8,1] = splat 11:i32  e:i32[9,8,1] = mul c d  "
     "f:i32[9,8,1] = iota [ dimension=1 dtype=i32 shape=(9, 8, 1) ]  g:i32[9,8,1] = add e f  "
     "h:f32[99] = P [ dimension_numbers={update_window_dims=(), "
     "inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,), operand_batching_dims=(), "
     "scatter_indices_batching_dims=()} mode=fill_or_drop ] a g b",
     "h", "iota broadcast_in_dim mul P"},
    {"concatenation_of_nothing", "a:f32[9,2] b:f32[0,2] c:f32[3,2]",
     "d:f32[12,2] = concatenate [ dimension=0 ] a b c", "d", "concatenate"},
    {"concatenate_one", "a:f32[9]", "b:f32[9] = concatenate [ dimension=0 ] a", "b", ""},
    {"sort_of_few", "a:f32[2,9]", "b:f32[2,9] = sort [ dimension=0 is_stable=true num_keys=1 ] a",
     "b", "slice slice eq le not and select_n select_n concatenate"},
    {"concatenation_of_rows", "a:f32[9,1] b:f32[9,1]",
     "c:f32[9,2] = concatenate [ dimension=1 ] a b  d:f32[9,1,2] = reshape [ new_sizes=(9, 1, 2) ] "
     "c "
     "e:f32[9,2] = concatenate [ dimension=1 ] b b  f:f32[9,1,2] = reshape [ new_sizes=(9, 1, 2) ] "
     "e "
     "g:f32[9,2,2] = concatenate [ dimension=1 ] d f",
     "g", "concatenate reshape"},
    {"transpose_of_planes", "a:f32[1,9] b:f32[1,9]",
     "c:f32[2,9] = concatenate [ dimension=0 ] a b  d:f32[1,2,9] = reshape [ new_sizes=(1, 2, 9) ] "
     "c "
     "e:f32[2,9] = concatenate [ dimension=0 ] b b  f:f32[1,2,9] = reshape [ new_sizes=(1, 2, 9) ] "
     "e "
     "g:f32[2,2,9] = concatenate [ dimension=0 ] d f "
     "h:f32[9,2,2] = transpose [ permutation=(2, 0, 1) ] g",
     "h", "reshape reshape reshape reshape concatenate reshape"},
    {"element_of_matrices", "a:f32[9,1] b:f32[9] c:f32[2,2]",
     "d:f32[9,4] = concatenate [ dimension=1 ] a a a a  e:f32[9,2,2] = reshape [ new_sizes=(9, 2, "
     "2) ] d "
     "f:f32[9,2,2] = broadcast_in_dim [ broadcast_dimensions=(0,) shape=(9, 2, 2) ] b  "
     "g:f32[9,2,2] = div e f "
     "h:f32[9,2,2] = broadcast_in_dim [ broadcast_dimensions=(1, 2) shape=(9, 2, 2) ] c  "
     "i:f32[9,2,2] = add g h",
     "i", "concatenate broadcast_in_dim div reshape broadcast_in_dim add reshape"},
    // Of each matrix, a column.
    {"slice_of_matrices", "a:f32[9,1] b:f32[9,1]",
     "c:f32[9,4] = concatenate [ dimension=1 ] a b b a  d:f32[9,2,2] = reshape [ new_sizes=(9, 2, "
     "2) ] c "
     "e:f32[9,2,1] = slice [ limit_indices=(9, 2, 2) start_indices=(0, 0, 1) strides=() ] d",
     "e", "concatenate reshape"},
    {"dot_of_matrices", "a:f32[70,1] b:f32[70,1] c:f32[70,2]",
     "d:f32[70,4] = concatenate [ dimension=1 ] a b b a  e:f32[70,2,2] = reshape [ new_sizes=(70, "
     "2, 2) ] d "
     "f:f32[70,2] = dot_general [ dimension_numbers={lhs_contracting=(2,), rhs_contracting=(1,), "
     "lhs_batch=(0,), "
     "rhs_batch=(0,)} preferred_element_type=None ] e c",
     "f",
     "slice slice broadcast_in_dim mul add mul add broadcast_in_dim mul add mul add concatenate"},
    {"concatenation_of_concatenations", "a:f32[4] b:f32[9] c:f32[2]",
     "d:f32[13] = concatenate [ dimension=0 ] a b  e:f32[15] = concatenate [ dimension=0 ] d c",
     "e", "concatenate"},
    {"concatenation_of_neighbours", "a:f32[4,9] b:f32[4,2]",
     "c:f32[4,3] = slice [ limit_indices=(4, 3) start_indices=(0, 0) strides=() ] a "
     "d:f32[4,4] = slice [ limit_indices=(4, 7) start_indices=(0, 3) strides=() ] a "
     "e:f32[4,9] = concatenate [ dimension=1 ] b c d",
     "e", "slice concatenate"},
    // Rows of the identity, rolled.
    {"concatenation_of_parts", "",
     "a:i32[9,9] = iota [ dimension=0 dtype=i32 shape=(9, 9) ] "
     "b:i32[9,9] = iota [ dimension=1 dtype=i32 shape=(9, 9) ]  c:bool[9,9] = eq a b "
     "d:bool[9,7] = slice [ limit_indices=(9, 9) start_indices=(0, 2) strides=() ] c "
     "e:bool[9,2] = slice [ limit_indices=(9, 2) start_indices=(0, 0) strides=() ] c "
     "f:bool[9,9] = concatenate [ dimension=1 ] d e",
     "f",
     "iota iota broadcast_in_dim add broadcast_in_dim add broadcast_in_dim lt select_n "
     "broadcast_in_dim eq"},
    // products and folds
    {"dot_of_rows", "a:f32[2,2] b:f32[2100,2]",
     "c:f32[2,2100] = dot_general [ dimension_numbers={lhs_contracting=(1,), "
     "rhs_contracting=(1,), lhs_batch=(), rhs_batch=()} ] a b "
     "d:f32[2,2100] = abs c  e:f32[2100,2] = transpose [ permutation=(1, 0) ] d",
     "e", "dot_general abs"},
    {"transpose_of_dot", "a:f64[3,4] b:f64[4,5]",
     "c:f64[3,5] = dot_general [ dimension_numbers={lhs_contracting=(1,), "
     "rhs_contracting=(0,), lhs_batch=(), rhs_batch=()} ] a b "
     "d:f64[5,3] = transpose [ permutation=(1, 0) ] c",
     "d", "dot_general"},
    {"dot_of_single_terms", "a:f64[1,2,4] b:f64[2,5,1]",
     "c:f64[2,4,5] = dot_general [ dimension_numbers={lhs_contracting=(0,), rhs_contracting=(2,), "
     "lhs_batch=(1,), rhs_batch=(0,)} ] a b",
     "c", "reshape broadcast_in_dim reshape broadcast_in_dim mul broadcast_in_dim add"},
    {"dot_of_transpose", "a:f64[4,3] b:f64[4,5]",
     "c:f64[3,4] = transpose [ permutation=(1, 0) ] a "
     "d:f64[3,5] = dot_general [ dimension_numbers={lhs_contracting=(1,), "
     "rhs_contracting=(0,), lhs_batch=(), rhs_batch=()} ] c b",
     "d", "dot_general"},
    {"dot_of_broadcasts", "a:f64[20,12] b:f64[10,12] c:f64[10,3,12]",
     "d:f64[20,10,12] = broadcast_in_dim [ broadcast_dimensions=(0, 2) shape=(20, 10, 12) ] a "
     "e:f64[20,10,12] = broadcast_in_dim [ broadcast_dimensions=(1, 2) shape=(20, 10, 12) ] b "
     "f:f64[20,10,12] = sub d e "
     "g:f64[10,3,20] = dot_general [ dimension_numbers={lhs_contracting=(2,), "
     "rhs_contracting=(2,), lhs_batch=(0,), rhs_batch=(1,)} ] c f",
     "g", "transpose broadcast_in_dim broadcast_in_dim sub dot_general"},
    {"dot_by_columns", "a:f32[16,5] b:f32[20,5]",
     "c:f32[16,20] = dot_general [ dimension_numbers={lhs_contracting=(1,), "
     "rhs_contracting=(1,), lhs_batch=(), rhs_batch=()} ] a b",
     "c", "transpose dot_general"},
    {"dot_of_few_columns", "a:i8[16,300] b:i8[300,2]",
     "c:i32[16,2] = dot_general [ dimension_numbers={lhs_contracting=(1,), "
     "rhs_contracting=(0,), lhs_batch=(), rhs_batch=()} preferred_element_type=i32 ] a b",
     "c", "transpose dot_general"},
    {"fold_of_one", "a:f32[8,1]", "b:f32[8] = P [ axes=(1,) ] a", "b", "reshape"},
    {"fold_of_one reduce_and", "a:bool[3,1]", "b:bool[3] = P [ axes=(1,) ] a", "b", "reshape"},
    {"fold_of_one reduce_or", "a:bool[3,1]", "b:bool[3] = P [ axes=(1,) ] a", "b", "reshape"},
    {"fold_of_truths", "a:bool[8,64]", "b:bool[8] = P [ axes=(1,) ] a", "b",
     "convert_element_type P broadcast_in_dim ne"},
    {"fold_of_stack reduce_sum", "a:f32[1,4] b:f32[1,4] c:f32[1,4]",
     "d:f32[3,4] = concatenate [ dimension=0 ] a b c e:f32[4] = P [ axes=(0,) ] d", "e",
     "reshape reshape reshape add add"},
    {"fold_of_stack reduce_prod", "a:f32[1,4] b:f32[1,4] c:f32[1,4]",
     "d:f32[3,4] = concatenate [ dimension=0 ] a b c e:f32[4] = P [ axes=(0,) ] d", "e",
     "reshape reshape reshape mul mul"},
    {"fold_of_stack reduce_max", "a:f32[1,4] b:f32[1,4] c:f32[1,4]",
     "d:f32[3,4] = concatenate [ dimension=0 ] a b c e:f32[4] = P [ axes=(0,) ] d", "e",
     "reshape reshape reshape max max"},
    {"fold_of_stack reduce_min", "a:f32[1,4] b:f32[1,4] c:f32[1,4]",
     "d:f32[3,4] = concatenate [ dimension=0 ] a b c e:f32[4] = P [ axes=(0,) ] d", "e",
     "reshape reshape reshape min min"},
    {"fold_of_stack reduce_and", "a:bool[1,4] b:bool[1,4] c:bool[1,4]",
     "d:bool[3,4] = concatenate [ dimension=0 ] a b c e:bool[4] = P [ axes=(0,) ] d", "e",
     "reshape reshape reshape and and"},
    {"fold_of_stack reduce_or", "a:bool[1,4] b:bool[1,4] c:bool[1,4]",
     "d:bool[3,4] = concatenate [ dimension=0 ] a b c e:bool[4] = P [ axes=(0,) ] d", "e",
     "reshape reshape reshape or or"},
    {"place_in_stack argmin", "a:i32[1,4] b:i32[1,4]",
     "c:i32[2,4] = concatenate [ dimension=0 ] a b d:i32[4] = P [ axes=(0,) index_dtype=i32 ] c",
     "d", "reshape reshape broadcast_in_dim lt broadcast_in_dim select_n"},
    {"place_in_stack argmax", "a:f32[1,4] b:f32[1,4]",
     "c:f32[2,4] = concatenate [ dimension=0 ] a b d:i32[4] = P [ axes=(0,) index_dtype=i32 ] c",
     "d", "reshape reshape broadcast_in_dim le not eq and broadcast_in_dim select_n"},
    // One of the axes repeats numbers, one goes over them, and one repeats them by broadcasting.
    {"reduction_of_repeated", "a:f32[4,1,3]",
     "b:f32[2,4,5,3] = broadcast_in_dim [ broadcast_dimensions=(1, 2, 3) shape=(2, 4, 5, 3) ] a "
     "c:f32[4] = P [ axes=(0, 2, 3) ] b",
     "c", "reshape P"},
    {"reduction_of_repeated reduce_sum", "a:i8[4]",
     "b:i8[300,4] = broadcast_in_dim [ broadcast_dimensions=(1,) shape=(300, 4) ] a "
     "c:i8[4] = reduce_sum [ axes=(0,) ] b",
     "c", "broadcast_in_dim mul"},
    {"reduction_of_repeated reduce_and", "a:bool[4]",
     "b:bool[5,4] = broadcast_in_dim [ broadcast_dimensions=(1,) shape=(5, 4) ] a "
     "c:bool[4] = P [ axes=(0,) ] b",
     "c", ""},
    {"reduction_of_repeated reduce_or", "a:bool[4]",
     "b:bool[5,4] = broadcast_in_dim [ broadcast_dimensions=(1,) shape=(5, 4) ] a "
     "c:bool[] = P [ axes=(0, 1) ] b",
     "c", "P"},
    {"reduction_of_broadcast", "a:f32[4,2]",
     "b:f32[4,3,2,1] = broadcast_in_dim [ broadcast_dimensions=(0, 2) shape=(4, 3, 2, 1) ] a "
     "c:f32[3,2,1] = P [ axes=(0,) ] b",
     "c", "P broadcast_in_dim"},
    {"reduction_of_broadcast reduce_and", "a:bool[4,2]",
     "b:bool[4,3,2,1] = broadcast_in_dim [ broadcast_dimensions=(0, 2) shape=(4, 3, 2, 1) ] a "
     "c:bool[3,2,1] = P [ axes=(0,) ] b",
     "c", "P broadcast_in_dim"},
    {"reduction_of_broadcast reduce_or", "a:bool[4,2]",
     "b:bool[4,3,2,1] = broadcast_in_dim [ broadcast_dimensions=(0, 2) shape=(4, 3, 2, 1) ] a "
     "c:bool[3,2,1] = P [ axes=(0,) ] b",
     "c", "P broadcast_in_dim"},
    {"reduction_of_transpose", "a:f64[3,4,5]",
     "b:f64[5,3,4] = transpose [ permutation=(2, 0, 1) ] a  c:f64[3,4] = P [ axes=(0,) ] b", "c",
     "P"},
    {"element_of_broadcasts", "a:f32[4] b:f32[4]",
     "c:f32[3,4] = broadcast_in_dim [ broadcast_dimensions=(1,) shape=(3, 4) ] a "
     "d:f32[3,4] = broadcast_in_dim [ broadcast_dimensions=(1,) shape=(3, 4) ] b "
     "e:f32[3,4] = mul c d  f:f32[3,4] = splat 2.0:f32  g:f32[3,4] = pow e f",
     "g", "mul broadcast_in_dim pow broadcast_in_dim"},
    {"element_of_transposes", "a:f32[3,4] b:f32[3,4]",
     "c:f32[4,3] = transpose [ permutation=(1, 0) ] a "
     "d:f32[4,3] = transpose [ permutation=(1, 0) ] b  e:f32[4,3] = add c d",
     "e", "add transpose"},
};

std::string with_words_replaced(std::string text, const std::string& primitive) {
  static const std::regex splat(R"(\[([\d,]*)\] = splat)"), p(R"(\bP\b)"), eqn(R"(\S+ = )");
  text = std::regex_replace(text, splat,
                            "[$1] = broadcast_in_dim [ broadcast_dimensions=() shape=($1,) ]");
  text = std::regex_replace(text, eqn, "\n$&");  // a line each
  return std::regex_replace(text, p, primitive);
}

std::string listed(const std::string& words) {
  return std::regex_replace(words, std::regex(" "), ", ");
}

/// The primitives whose equations a rule rewrites.
std::vector<std::string> primitives_of(const Rule& rule) {
  if (rule.primitives.empty()) return {"any"};
  std::vector<std::string> names;
  for (const PrimitiveBase* p : rule.primitives) names.emplace_back(p->name());
  return names;
}
const Example* example_of(const Rule& rule, const std::string& primitive) {
  const std::string own = std::string(rule.name) + " " + primitive;
  const Example* found = nullptr;
  for (const Example& e : kExamples) {
    if (e.entry == own) return &e;
    if (e.entry == rule.name) found = &e;
  }
  return found;
}

/// Zeros of both signs, NaN, infinities and the ends of integers among others; of f64, whose sums are taken, small whole
/// numbers, of which any order gives the same sum: rules keep no order of several axes, and no sum of small products (see
/// SumsOfTransposedArraysChangeOnlyTheOrderAmongAxes).
Array numbers(const Aval& aval) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr std::int64_t kLow = std::numeric_limits<std::int64_t>::min();
  const std::vector<double> floats = {-0.0, 0.0, 1.5, -2.25, std::nan(""), inf, -inf, 3.0};
  const std::vector<std::int64_t> integers = {5, -1, 0, kLow, ~kLow, 1ll << 31, 127, -128, 255};
  std::vector<double> f;
  std::vector<std::int64_t> i;
  for (std::int64_t k = 0; k < aval.size(); ++k) {
    const auto at = static_cast<std::size_t>(7 * k + 3 * aval.size());
    f.push_back(aval.dtype == DType::f64 ? static_cast<double>(at % 9) - 4
                                         : floats[at % floats.size()]);
    i.push_back(aval.dtype == DType::bool_ ? static_cast<std::int64_t>(at % 5 % 2)
                                           : integers[at % integers.size()]);
  }
  return lax::convert_element_type(
      is_float(aval.dtype) ? Array(f, aval.shape) : Array(i, aval.shape), aval.dtype);
}

std::string primitives_of(const Jaxpr& jaxpr) {
  std::string names;
  for (const Eqn& e : jaxpr.eqns())
    names += (names.empty() ? "" : " ") + std::string(e.primitive->name());
  return names;
}

void expect_same(const Arrays& got, const Arrays& want, const Jaxpr& program) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    expect_equal(got[i], want[i], 0, program.to_string());
}

/// That the rule, and no other, makes of the example what it says, which computes the same bits.
void check_example(const Rule& rule, const std::string& primitive, const Example& e) {
  const std::string text = "{ lambda " + listed(e.inputs) + " . let " + e.equations + " in ( " +
                           listed(e.results) + " ) }";
  const Jaxpr before = parse_jaxpr(with_words_replaced(text, primitive));
  const Jaxpr after = eliminate_dead_code(compiler::simplify(before));
  EXPECT_EQ(primitives_of(after), with_words_replaced(e.left, primitive));
  typecheck_jaxpr(after);
  EXPECT_FALSE(eliminate_dead_code(compiler::simplify_without(rule, before)) == after)
      << "something else rewrites it, too";
  Arrays inputs;
  for (const Aval& aval : before.in_avals()) inputs.push_back(numbers(aval));
  const Arrays want = eval_jaxpr(before, inputs);
  expect_same(eval_jaxpr(after, inputs), want, after);
  expect_same(execute(compile(before), inputs), want, after);
}

TEST(SimplifyRules, RewriteTheirExamples) {
  for (const Rule& rule : compiler::rules()) {
    for (const std::string& primitive : primitives_of(rule)) {
      SCOPED_TRACE(std::string(rule.name) + " " + primitive);
      const Example* const e = example_of(rule, primitive);
      ASSERT_NE(e, nullptr) << "no example shows what it rewrites";
      check_example(rule, primitive, *e);
    }
  }
}

TEST(SimplifyRules, HaveNoOtherExamples) {
  std::map<std::string_view, bool> used;
  for (const Example& e : kExamples) EXPECT_TRUE(used.emplace(e.entry, false).second) << e.entry;
  for (const Rule& rule : compiler::rules())
    for (const std::string& primitive : primitives_of(rule))
      if (const Example* e = example_of(rule, primitive)) used[e->entry] = true;
  for (const auto& [entry, is_used] : used) EXPECT_TRUE(is_used) << entry;
}

}  // namespace
}  // namespace telamon::testing
