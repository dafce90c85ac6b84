"""Predict how long a kernel takes, and why, without a GPU.

    from tkgen.predict import predict
    p = predict(tkgen.load("specs/ping_pong.tk").build(), product="MI325X")
    p.tflops, p.limiter

`stream` reads the instruction streams of one block off the emulator, `timing` runs them on a model of a compute unit,
`cache` follows the whole grid through L2, Infinity Cache and HBM, `clock` applies the power limit, `model` puts it
together. What is modelled and how far it is from measurements: docs/prediction.md.
"""

from tkgen.predict.model import (
    Comparison,
    Level,
    Prediction,
    WhatIf,
    compare,
    device_of,
    predict,
    predict_workload,
    to_json,
)
from tkgen.predict.profile import Profile, profile
from tkgen.predict.render import render_comparison, render_terminal
from tkgen.predict.workload import PredictError, Workload

__all__ = [
    "Comparison",
    "Level",
    "PredictError",
    "Prediction",
    "Profile",
    "WhatIf",
    "Workload",
    "compare",
    "device_of",
    "predict",
    "predict_workload",
    "profile",
    "render_comparison",
    "render_terminal",
    "to_json",
]
