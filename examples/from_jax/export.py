"""Writes the loss as loss.json: `python export.py`, in this folder."""

import sys

sys.path.insert(0, "../../tools")  # the folder of jax_export.py

import jax
from jax_export import export, save
from model import loss


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, "float32")


save(export(loss, {"w": f32(3), "b": f32()}, f32(8, 3), f32(8)), "loss.json")
