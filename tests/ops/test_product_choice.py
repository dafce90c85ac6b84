"""Products choose their kernel: the choice is right about what was measured, and each form computes the product."""

from __future__ import annotations

import pytest
import torch
from sampling import sample

from tkgen import ops
from tkgen.ops import products
from tkgen.ops.products import FORMS, PARTED, SHORT, chosen
from tkgen.predict.hopper.dense import Form, Sizes, seconds

# Microseconds measured on an H200, 2026-11-29: m, n, k, True for B[N, K]; those of each form.
MEASURED = [
    ((12592, 248, 2344), True, {(192, 128, 5, "n"): 32.2, (256, 128, 4, "n"): 32.5, (128, 256, 4, ""): 41.5,
                                (128, 128, 6, ""): 54.0, (64, 128, 8, ""): 68.6, (64, 64, 12, ""): 87.6}),
    ((568, 3720, 1368), False, {(192, 128, 5, "n"): 16.1, (128, 256, 4, "m"): 19.2, (256, 128, 4, "n"): 21.6,
                                (128, 128, 6, ""): 28.2, (64, 64, 12, ""): 36.2}),
    ((3656, 9984, 1088), True, {(128, 256, 4, "m"): 118.4, (256, 128, 4, ""): 119.2, (128, 256, 4, ""): 119.7,
                                (128, 128, 6, ""): 120.9, (64, 128, 8, ""): 146.9, (64, 64, 12, ""): 232.4}),
    ((7568, 360, 1888), False, {(192, 128, 5, "m"): 21.9, (256, 128, 4, ""): 25.6, (256, 128, 4, "n"): 26.0,
                                (128, 128, 6, "m"): 28.5, (128, 256, 4, "m"): 31.6, (192, 128, 5, "n"): 38.9}),
    ((15776, 64, 2104), True, {(128, 64, 8, "m"): 22.9, (128, 64, 8, ""): 26.7, (192, 128, 5, ""): 31.1,
                               (64, 64, 12, ""): 33.3, (256, 128, 4, ""): 34.0, (256, 128, 4, "n"): 36.9}),
    ((3288, 2648, 2544), True, {(128, 192, 5, "m"): 66.2, (192, 128, 5, "m"): 72.0, (128, 256, 4, ""): 84.4,
                                (128, 256, 4, "m"): 84.6, (128, 128, 6, ""): 85.1}),
]  # fmt: skip


def sizes(m: int, n: int, k: int, along: bool = True) -> Sizes:
    return Sizes(m, n, k, (2 * k, 2 * (k if along else n)), along)


@pytest.mark.parametrize(("shape", "along", "times"), MEASURED, ids=lambda value: str(value)[:20])
def test_predictions_order_forms_as_they_were_measured(
    shape: tuple[int, int, int], along: bool, times: dict[tuple[int, int, int, str], float]
) -> None:
    """The chosen form takes at most 2 % more than the fastest; each prediction is within a third of its time."""
    found = {form: seconds(Form(*form), sizes(*shape, along), "H200") * 1e6 for form in times}
    assert times[min(found, key=found.__getitem__)] <= 1.02 * min(times.values())
    assert all(2 / 3 < found[form] / times[form] < 4 / 3 for form in times)


def test_forms_follow_from_the_shape() -> None:
    assert chosen(sizes(16, 480, 200), "H200") == (Form(64, 64, 4), 1)
    assert chosen(sizes(16, 480, 360), "H200") == (Form(64, 64, 6), 1)
    form, parts = chosen(sizes(16, 328, 15320), "H200")
    assert form in PARTED and parts >= 12  # measured: 12 to 16 parts are four times as fast as none
    form, parts = chosen(sizes(8192, 8192, 8192), "H200")
    assert (form.rows, form.columns, parts) == (128, 256, 1)
    assert chosen(sizes(4096, 4096, 4104), "H200")[0].clusters


def test_parts_are_of_few_tiles_alone() -> None:
    assert chosen(sizes(16384, 16384, 512), "H100")[1] == 1
    assert chosen(sizes(64, 64, 64 * 64), "H100")[1] > 1


@pytest.mark.parametrize(
    "form", sample([*(f for f in FORMS if f.clusters), *SHORT, *((p, 3) for p in PARTED)], 4), ids=str
)
@pytest.mark.parametrize("name", ["linear", "matmul"])
def test_every_form_is_accepted(name: str, form: Form | tuple[Form, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The spec of a form is proven, for each layout of its factors."""
    import tkgen

    monkeypatch.setattr(products, "chosen", lambda *_: form if isinstance(form, tuple) else (form, 1))
    x, w = torch.zeros(40, 72, dtype=torch.bfloat16), torch.zeros(72, 48, dtype=torch.bfloat16)
    with ops.emulated("sm_90a"):
        found = products.product({"linear": "linear", "matmul": "linear_input"}[name], x, w)
    assert isinstance(form, tuple) or (f"clusters 2 along {form.clusters}" in found.spec) == bool(form.clusters)
    text = found.spec if "\n" in found.spec else (products.SPECS / f"{found.spec}.tk").read_text()
    tkgen.load(text, dict(found.defines), "sm_90a").check()


@pytest.mark.parametrize(
    "form", [(Form(64, 64, 4), 1), (PARTED[0], 3), (Form(192, 128, 5, "n"), 1)], ids=["short", "parts", "clusters"]
)
def test_forms_compute_the_product_and_its_gradients(form: tuple[Form, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "chosen", lambda *_: form)
    generator = torch.Generator().manual_seed(0)
    a, b, g = (
        torch.randint(-2, 3, shape, generator=generator).to(torch.bfloat16)
        for shape in ((40, 264), (264, 72), (40, 72))
    )
    a.requires_grad_(), b.requires_grad_()
    with ops.emulated("sm_90a"):
        ops.matmul(a, b).backward(g)
        found = ops.matmul(a, b)
    exact = (a.float() @ b.float()).to(torch.bfloat16)
    assert torch.equal(found, exact)
    assert torch.equal(a.grad, (g.float() @ b.detach().float().T).to(torch.bfloat16))
    assert torch.equal(b.grad, (a.detach().float().T @ g.float()).to(torch.bfloat16))
