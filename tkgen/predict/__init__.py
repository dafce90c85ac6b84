"""Predict how long a kernel takes, and why, without a GPU.

    from tkgen.predict import predict
    p = predict(tkgen.load("specs/ping_pong.tk").build(), product="MI325X")
    p.tflops, p.limiter

`front` is the way in and chooses a model. For machine code that the emulator follows, `stream` reads the instruction
streams of one block off it and `timing` runs them on a model of a compute unit; behind that stand three models of a
launch: `tiles` (a grid of output tiles: `cache` follows it through L2, Infinity Cache and HBM), `iterations` (blocks
that walk along tiles, some farther than others) and `throughput` (blocks that stream through). `device`
applies the power limit. `hopper` has models of schedules. docs/prediction.md has the assumptions of the models and
their errors.
"""

from tkgen.predict.front import (
    Profile,
    check_device,
    check_tools,
    lower_bound,
    models,
    predict,
    predict_workload,
    predicted,
    profile,
    taken,
)
from tkgen.predict.prediction import Comparison, Iteration, Level, PredictError, Prediction, WhatIf, to_json
from tkgen.predict.render import render_comparison, render_terminal
from tkgen.predict.workload import Workload

__all__ = [
    "Comparison",
    "Iteration",
    "Level",
    "PredictError",
    "Prediction",
    "Profile",
    "WhatIf",
    "Workload",
    "check_device",
    "check_tools",
    "lower_bound",
    "models",
    "predict",
    "predict_workload",
    "predicted",
    "profile",
    "render_comparison",
    "render_terminal",
    "taken",
    "to_json",
]
