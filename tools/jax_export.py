"""Write a JAX function as neutral JSON (`telamon-jaxpr/1`, see docs/how-to/jax.md).

    from jax_export import export, save
    save(export(loss, params, batch), "loss.json")

or from a shell:

    python jax_export.py package.module:function --args "f32[8,3]" 0.5 weights.npy -o loss.json

The function is traced once with `jax.make_jaxpr`; pytree arguments and results are flattened in JAX's
order.  What the file holds is the jaxpr and nothing of Python: closures become constants, rules of
`jax.custom_jvp` / `jax.custom_vjp` become jaxprs of their own, and typed random keys become the plain
`u32[..., 2]` words they consist of, so that a reader needs no key type.
"""

from __future__ import annotations

import argparse
import enum
import functools
import importlib
import itertools
import json
import re
import sys
from typing import Any, Callable

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax._src import core
from jax._src.ad_util import Zero, instantiate
from jax._src.interpreters.partial_eval import dce_jaxpr

from jax_random_keys import lower_random_keys, raw_abstract

FORMAT = "telamon-jaxpr/1"

# ---------------------------------------------------------------------------------------------------
# Arrays and scalars

DTYPE_NAMES = {
    "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "c64", "complex128": "c128", "float0": "float0",
}
NUMPY_DTYPES = {short: np.dtype(ml_dtypes.bfloat16 if long == "bfloat16" else long)
                for long, short in DTYPE_NAMES.items() if long != "float0"}
LARGEST_EXACT_INTEGER = 2**53   # beyond it a JSON reader that uses doubles would round


def dtype_name(dtype) -> str:
    """`f32` for float32, and so on; raises on a dtype the format does not have."""
    name = np.dtype(dtype).name if not isinstance(dtype, np.dtype) else dtype.name
    if dtype == jax.dtypes.float0:
        return "float0"
    if name not in DTYPE_NAMES:
        raise TypeError(f"dtype {name} has no place in {FORMAT}")
    return DTYPE_NAMES[name]


def encode_float(x) -> float | str:
    """The shortest decimal that reads back to the same value; non-finite values by name."""
    exact = float(x)
    if exact != exact:
        return "nan"
    if exact in (float("inf"), float("-inf")):
        return "inf" if exact > 0 else "-inf"
    if isinstance(x, np.float32):
        short = float(str(x))
        if np.float32(short) == x:
            return short
    return exact


def encode_scalar(x):
    """One element of an array, as docs/how-to/jax.md has it."""
    kind = np.asarray(x).dtype
    if kind == np.bool_:
        return bool(x)
    if np.issubdtype(kind, np.integer):
        return int(x) if abs(int(x)) <= LARGEST_EXACT_INTEGER else str(int(x))
    if np.issubdtype(kind, np.complexfloating):
        return [encode_float(np.real(x)), encode_float(np.imag(x))]
    return encode_float(x)


def encode_array(x) -> dict:
    x = np.asarray(x)
    return {"dtype": dtype_name(x.dtype), "shape": list(x.shape),
            "data": [encode_scalar(element) for element in x.reshape(-1)]}


def decode_array(encoded: dict) -> np.ndarray:
    """The inverse of encode_array."""
    dtype = NUMPY_DTYPES[encoded["dtype"]]
    data = encoded["data"]
    if dtype.kind == "c":
        data = [complex(float(re_), float(im)) for re_, im in data]
    elif dtype.kind in "iu":
        data = [int(element) for element in data]
    elif dtype.kind != "b":
        data = [float(element) for element in data]
    return np.array(data, dtype=dtype).reshape(encoded["shape"])


def encode_aval(aval) -> dict:
    return {"dtype": dtype_name(aval.dtype), "shape": list(aval.shape),
            "weak_type": bool(getattr(aval, "weak_type", False))}


# ---------------------------------------------------------------------------------------------------
# Jaxprs

def encode_closed_jaxpr(closed: core.ClosedJaxpr) -> dict:
    jaxpr = closed.jaxpr
    used = {x for eqn in jaxpr.eqns for x in eqn.invars if isinstance(x, core.Var)} | {
        x for x in jaxpr.outvars if isinstance(x, core.Var)}
    kept = [(v, c) for v, c in zip(jaxpr.constvars, closed.consts) if v in used]
    return {"jaxpr": encode_jaxpr(jaxpr.replace(constvars=[v for v, _ in kept])),
            "consts": [encode_array(c) for _, c in kept]}


def encode_jaxpr(jaxpr: core.Jaxpr) -> dict:
    """Variables are numbered densely from 0 in order of binding: constvars, invars, then equations."""
    atoms: dict[core.Var, dict] = {}
    count = itertools.count()

    def bind(var) -> dict:
        number = next(count)
        atoms[var] = {"var": number}
        encoded = {"id": number, "aval": encode_aval(var.aval)}
        if isinstance(var, core.DropVar):
            encoded["drop"] = True
        return encoded

    def atom(x) -> dict:
        if isinstance(x, core.Literal):
            value = np.asarray(x.val, dtype=x.aval.dtype)
            flat = [encode_scalar(element) for element in value.reshape(-1)]
            return {"literal": flat[0] if value.ndim == 0 else flat, "aval": encode_aval(x.aval)}
        return atoms[x]

    constvars = [bind(v) for v in jaxpr.constvars]
    invars = [bind(v) for v in jaxpr.invars]
    eqns = []
    for eqn in jaxpr.eqns:
        if not eqn.outvars:   # only an effect, such as debug printing
            continue
        inputs = [atom(x) for x in eqn.invars]
        if eqn.primitive.name in IDENTITIES:   # the outputs are other names of the inputs
            atoms.update(zip(eqn.outvars, inputs))
            continue
        if eqn.primitive.name == "empty2":   # a scalar that nobody reads, or an accumulator's zero
            aval = encode_aval(eqn.outvars[0].aval)
            atoms[eqn.outvars[0]] = {"literal": encode_scalar(np.zeros((), eqn.outvars[0].aval.dtype)[()]), "aval": aval}
            continue
        eqns.append({"primitive": eqn.primitive.name, "inputs": inputs,
                     "outputs": [bind(v) for v in eqn.outvars], "params": encode_params(eqn)})
    return {"invars": invars, "constvars": constvars, "eqns": eqns,
            "outvars": [atom(x) for x in jaxpr.outvars]}


# Equations that only say where a value lives.
IDENTITIES = frozenset(["device_put", "sharding_constraint", "layout_constraint", "reshard"])

# What says where or how fast, not what: placement, layouts, hints, bookkeeping of the tracer.
DROPPED_PARAMS = frozenset("""
    sharding out_sharding in_shardings out_shardings in_layouts out_layouts donated_invars ctx_mesh
    keep_unused compiler_options_kvs inline accuracy policy prevent_cse differentiated computation impl
    algorithm implementation use_magma memory_space debug_info metadata _split_transpose
""".split())
DROPPED_IF_NONE = frozenset(["out_dtype", "subset_by_index", "select_callable"])


def encode_params(eqn) -> dict:
    """Every parameter that defines the meaning of the equation."""
    name, params = eqn.primitive.name, dict(eqn.params)
    if name in PARAM_ENCODERS:
        return PARAM_ENCODERS[name](eqn)
    encoded = {}
    for key, value in params.items():
        if key in DROPPED_PARAMS or key in DROPPED_IF_NONE and value is None:
            continue
        if key.endswith("consts") and isinstance(value, tuple):   # part of the closed jaxpr beside it
            continue
        if isinstance(value, core.Jaxpr):   # an open jaxpr and its constants make a closed one
            consts = params.get(re.sub("jaxpr$", "consts", key), ())
            value = core.ClosedJaxpr(value, consts)
        encoded[key] = encode_param(value, f"{name}.{key}")
    return encoded


def encode_param(value, where: str = "parameter"):
    """Parameters by type; enums by lower-case name, named tuples and dataclasses by field."""
    recur = functools.partial(encode_param, where=where)
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if type(value).__module__.startswith("jaxlib") and hasattr(value, "name"):   # enums made in C++
        return value.name.lower()
    if isinstance(value, (int, float, complex, np.generic)):
        return encode_scalar(value)
    if isinstance(value, core.ClosedJaxpr):
        return encode_closed_jaxpr(value)
    if isinstance(value, core.Primitive):
        return value.name
    if isinstance(value, np.dtype) or isinstance(value, type) and issubclass(value, np.generic):
        return dtype_name(value)
    if hasattr(value, "_fields"):
        return {field: recur(getattr(value, field)) for field in value._fields}
    if isinstance(value, (tuple, list)):
        return [recur(element) for element in value]
    if isinstance(value, dict):
        return {str(k): recur(v) for k, v in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return {field: recur(getattr(value, field)) for field in value.__dataclass_fields__}
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return encode_array(value)
    raise TypeError(f"cannot encode {where} = {value!r} of type {type(value).__name__}")


def encode_dot_dimension_numbers(dimension_numbers) -> dict:
    (lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch) = dimension_numbers
    return {"lhs_contracting": encode_param(lhs_contracting), "rhs_contracting": encode_param(rhs_contracting),
            "lhs_batch": encode_param(lhs_batch), "rhs_batch": encode_param(rhs_batch)}


def encode_dot_general(eqn) -> dict:
    return {"dimension_numbers": encode_dot_dimension_numbers(eqn.params["dimension_numbers"]),
            "precision": encode_param(eqn.params["precision"]),
            "preferred_element_type": encode_param(eqn.params["preferred_element_type"])}


def encode_ragged_dot_general(eqn) -> dict:
    numbers = eqn.params["ragged_dot_dimension_numbers"]
    return {"ragged_dot_dimension_numbers": {
                "dot_dimension_numbers": encode_dot_dimension_numbers(numbers.dot_dimension_numbers),
                "lhs_ragged_dimensions": encode_param(numbers.lhs_ragged_dimensions),
                "rhs_group_dimensions": encode_param(numbers.rhs_group_dimensions)},
            "precision": encode_param(eqn.params["precision"]),
            "preferred_element_type": encode_param(eqn.params["preferred_element_type"])}


def encode_fft(eqn) -> dict:
    return {"fft_type": lax.FftType(eqn.params["fft_type"]).name.lower(),
            "fft_lengths": encode_param(eqn.params["fft_lengths"])}


def encode_scatter(eqn) -> dict:
    """The combiner is in the primitive's name; only lax.scatter_apply puts another into `update_jaxpr`."""
    keys = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")
    encoded = {key: encode_param(eqn.params[key]) for key in keys}
    combiner = eqn.params["update_jaxpr"]
    overwrites = combiner is None or not combiner.eqns and combiner.outvars == combiner.invars[1:]
    encoded["update_jaxpr"] = None if eqn.primitive.name != "scatter" or overwrites else (
        encode_closed_jaxpr(core.ClosedJaxpr(combiner, eqn.params["update_consts"])))
    return encoded


def encode_composite(eqn) -> dict:
    return {key: encode_param(eqn.params[key]) for key in ("jaxpr", "name", "version")}


def encode_linear_call(eqn) -> dict:
    callee, num_consts = eqn.params["callee"], eqn.params["num_callee_consts"]
    encoded = {"callee": encode_closed_jaxpr(callee), "num_res": eqn.params["num_res"] + num_consts,
               "transpose": None}
    if num_consts == 0:
        transpose, consts = eqn.params["transpose_thunk"]()
        encoded["transpose"] = encode_closed_jaxpr(core.ClosedJaxpr(
            *_constants_first(transpose, consts)) if consts else transpose)
    return encoded


def _constants_first(closed, consts):
    jaxpr = closed.jaxpr
    return jaxpr.replace(constvars=jaxpr.invars[:len(consts)], invars=jaxpr.invars[len(consts):]), consts


# ---------------------------------------------------------------------------------------------------
# Custom derivative rules, traced

# The custom-derivative equations inside whose rules the encoder now is, outermost first.  A rule may call
# its own function again (relu's does); such an inner call refers back to the enclosing one.
_enclosing: list[tuple] = []
MAX_NESTED_RULES = 5   # a rule that calls ever new functions with rules of their own would never end


def with_rules(encode_rules: Callable) -> Callable:
    """Wraps an encoder of derivative rules: adds call_jaxpr, and cuts recursion by a back reference."""
    def encode(eqn) -> dict:
        call = eqn.params["call_jaxpr"]
        rule = eqn.params.get("jvp_jaxpr_fun") or eqn.params["fwd_jaxpr_thunk"]
        key = (rule.debug_info.func_src_info, str(call), str([encode_aval(a) for a in call.in_avals]))
        encoded = {"call_jaxpr": encode_closed_jaxpr(call)}
        if key in _enclosing:
            return encoded | {"same_rules_as": _enclosing.index(key)}
        if len(_enclosing) == MAX_NESTED_RULES:
            names = ("jvp_jaxpr",) if "jvp_jaxpr_fun" in eqn.params else ("fwd_jaxpr", "bwd_jaxpr")
            return encoded | dict.fromkeys(names)
        _enclosing.append(key)
        try:
            return encoded | encode_rules(eqn)
        finally:
            _enclosing.pop()
    return encode


def is_differentiable(aval) -> bool:
    return jnp.issubdtype(aval.dtype, np.inexact)


def trace_or_none(fn: Callable, *avals) -> dict | None:
    """The rule as a closed jaxpr, or None where it cannot be traced on its own."""
    try:
        closed = lower_random_keys(jax.make_jaxpr(fn)(*map(raw_abstract, avals)))
        live, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)   # no float0 left
        return encode_closed_jaxpr(core.ClosedJaxpr(live, closed.consts))
    except Exception as error:   # a rule is the user's code: anything may come out of it
        print(f"note: rule of {getattr(fn, '__name__', fn)} not exported: {error}", file=sys.stderr)
        return None


@with_rules
def encode_custom_jvp_call(eqn) -> dict:
    """jvp_jaxpr: (all inputs, tangents of the float inputs) -> (all outputs, tangents of the float outputs)."""
    call = eqn.params["call_jaxpr"]
    num_consts = eqn.params["num_consts"]
    in_avals, out_avals = call.in_avals, call.out_avals
    float_inputs = [i for i, aval in enumerate(in_avals) if is_differentiable(aval)]

    def jvp(*args):
        primals, tangents = args[:len(in_avals)], dict(zip(float_inputs, args[len(in_avals):]))
        zeros = [i not in tangents for i in range(num_consts, len(in_avals))]
        rule, consts, out_zeros = eqn.params["jvp_jaxpr_fun"].call_wrapped(*zeros)
        given = [tangents[i] for i in float_inputs if i >= num_consts]
        outs = core.eval_jaxpr(rule, consts, *primals[num_consts:], *given)
        primals_out, nonzero = outs[:len(out_avals)], iter(outs[len(out_avals):])
        tangents_out = [None if zero else next(nonzero) for zero in out_zeros]
        return primals_out, [jnp.zeros(aval.shape, aval.dtype) if t is None else t
                             for t, aval in zip(tangents_out, out_avals) if is_differentiable(aval)]

    return {"jvp_jaxpr": trace_or_none(jvp, *in_avals, *(in_avals[i] for i in float_inputs))}


@with_rules
def encode_custom_vjp_call(eqn) -> dict:
    """fwd_jaxpr: inputs -> (outputs, residuals);  bwd_jaxpr: (residuals, cotangents of the float outputs)
    -> cotangents of the float inputs."""
    call = eqn.params["call_jaxpr"]
    _, fwd_rule, bwd_rule = eqn.primitive.get_bind_params(eqn.params)["subfuns"]
    in_avals, out_avals = call.in_avals, call.out_avals
    num_consts = eqn.params["num_consts"]

    def fwd(*args):
        flags = [i >= num_consts for i in range(len(args))]
        outs = fwd_rule.call_wrapped(*[x for pair in zip(args, flags) for x in pair])
        _, res_tree, forwarded = eqn.params["out_trees"]()
        num_own = res_tree.num_leaves - sum(f is not None for f in forwarded)
        own, primals_out = iter(outs[:num_own]), outs[num_own:]
        return list(primals_out), [next(own) if f is None else args[f] for f in forwarded]

    def bwd(residuals, cotangents):
        cotangents = iter(cotangents)
        all_cotangents = [next(cotangents) if is_differentiable(aval) else
                          np.zeros(aval.shape, jax.dtypes.float0) for aval in out_avals]
        results = bwd_rule.call_wrapped(*residuals, *all_cotangents)
        return [jnp.zeros(aval.shape, aval.dtype) if result is None or type(result) is Zero
                else instantiate(result)
                for result, aval in zip(results, in_avals) if is_differentiable(aval)]

    encoded = {"fwd_jaxpr": trace_or_none(fwd, *in_avals), "bwd_jaxpr": None}
    if encoded["fwd_jaxpr"] is not None:
        residuals = jax.eval_shape(fwd, *map(raw_abstract, in_avals))[1]
        cotangents = [aval for aval in out_avals if is_differentiable(aval)]
        encoded["bwd_jaxpr"] = trace_or_none(
            lambda *args: bwd(args[:len(residuals)], args[len(residuals):]), *residuals, *cotangents)
    return encoded


PARAM_ENCODERS: dict[str, Callable] = {
    "dot_general": encode_dot_general, "ragged_dot_general": encode_ragged_dot_general, "fft": encode_fft, "linear_call": encode_linear_call,
    "composite": encode_composite,
    "custom_jvp_call": encode_custom_jvp_call, "custom_vjp_call": encode_custom_vjp_call,
    **dict.fromkeys(["scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"],
                    encode_scatter),
}

# ---------------------------------------------------------------------------------------------------
# Whole functions

def to_closed_jaxpr(fn: Callable, *example_args) -> core.ClosedJaxpr:
    """fn as a jaxpr over flat arrays without typed random keys."""
    return lower_random_keys(jax.make_jaxpr(fn)(*example_args))


def export(fn: Callable, *example_args, name: str | None = None) -> dict:
    """Trace fn at example_args (arrays, scalars, jax.ShapeDtypeStruct, any pytree of them)."""
    paths, in_tree = jax.tree_util.tree_flatten_with_path(example_args)
    closed = to_closed_jaxpr(fn, *example_args)
    out_tree = jax.tree_util.tree_structure(jax.eval_shape(fn, *example_args))
    return {"format": FORMAT, "producer": f"jax {jax.__version__}",
            "name": name or getattr(fn, "__name__", "function"),
            "input_paths": [jax.tree_util.keystr(path) for path, _ in paths],
            "in_tree": str(in_tree), "out_tree": str(out_tree),
            "program": encode_closed_jaxpr(closed)}


def save(exported: dict, path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(exported, file, separators=(",", ":"), allow_nan=False)
        file.write("\n")


def parse_argument(text: str):
    """`f32[3,4]` (an abstract array), `data.npy` (a file), or a Python literal such as 0.5 or [1, 2]."""
    match = re.fullmatch(r"(\w+)\[([\d,\s]*)\]", text)
    if match and match[1] in NUMPY_DTYPES:
        shape = tuple(int(size) for size in match[2].split(",") if size.strip())
        return jax.ShapeDtypeStruct(shape, NUMPY_DTYPES[match[1]])
    if text.endswith(".npy"):
        return np.load(text)
    value = json.loads(text)
    return jnp.asarray(value) if isinstance(value, list) else value


def main() -> None:
    parser = argparse.ArgumentParser(description="Export a JAX function as telamon-jaxpr/1 JSON.")
    parser.add_argument("function", help="module:function; dots after the colon reach into objects")
    parser.add_argument("--args", nargs="*", default=[], metavar="ARG",
                        help="example arguments: f32[3,4], data.npy, or a JSON value")
    parser.add_argument("-o", "--output", default="-", help="file to write (default: standard output)")
    parser.add_argument("--no-x64", action="store_true", help="trace with 64-bit types switched off")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", not options.no_x64)
    sys.path.insert(0, "")
    module_name, _, path = options.function.partition(":")
    fn = functools.reduce(getattr, path.split("."), importlib.import_module(module_name))
    exported = export(fn, *map(parse_argument, options.args), name=path)
    if options.output == "-":
        json.dump(exported, sys.stdout, indent=1, allow_nan=False)
        print()
    else:
        save(exported, options.output)


if __name__ == "__main__":
    main()
