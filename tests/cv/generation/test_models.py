"""What the papers say of diffusion, adversarial nets and auto-encoders, and spectral norms against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import UsageError
from pdl_cv.models import DCGAN, DDPM, VAE
from pdl_cv.models.ddpm import Denoiser, kept_shares

F64 = np.float64


def small(**options: Any) -> DDPM:
    return DDPM(image_size=(8, 8), in_channels=1, **{"num_classes": 3, "width": 16, "multipliers": (1,), **options})


def test_the_schedule_is_the_cosine_one() -> None:
    """arXiv 2102.09672, equations 16 and 17."""
    shares = kept_shares(1000)
    t = np.arange(1001) / 1000
    f = np.cos((t + 0.008) / 1.008 * np.pi / 2) ** 2
    np.testing.assert_allclose(shares[:990], (f / f[0])[1:991], rtol=1e-9)
    assert (1 - shares[1:] / shares[:-1]).max() <= 0.999 + 1e-12
    assert 0 < shares[-1] < 1e-4


def test_samples_are_the_image_that_the_noise_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the net sees the noise around one image exactly, DDIM goes to it from any noise, and guidance adds up."""
    image = np.random.default_rng(0).uniform(-1, 1, (1, 8, 8, 1)).astype(np.float32)
    shares = pdl.as_tensor(kept_shares(1000).astype(np.float32))

    def exact(self: Denoiser, x: pdl.Tensor, t: pdl.Tensor, label: pdl.Tensor) -> pdl.Tensor:
        share = pdl.reshape(pdl.take(shares, t, axis=0), (-1, 1, 1, 1))
        seen = pdl.as_tensor(image) * pdl.reshape(1.0 - 0.5 * (label == 3).astype(pdl.float32), (-1, 1, 1, 1))
        return (x - pdl.sqrt(share) * seen) / pdl.sqrt(1.0 - share)

    monkeypatch.setattr(Denoiser, "forward", exact)
    noise, label = pdl.randn((2, 8, 8, 1)), pdl.as_tensor(np.array([0, 2]))
    with pdl.no_grad():
        for guidance, factor in ((0.0, 1.0), (0.5, 1.25)):  # (1 + w) image - w image / 2, within its bounds
            made = small(guidance=guidance, sampling_steps=20)(noise, label).numpy()
            np.testing.assert_allclose(made, np.clip(np.repeat(image, 2, 0) * factor, -1, 1), atol=2e-3)


def test_the_loss_of_a_fresh_denoiser_is_the_variance_of_the_noise() -> None:
    pdl.seed(0)
    images, labels = pdl.rand((64, 8, 8, 1)), pdl.as_tensor(np.arange(64) % 3)
    loss, _ = small().loss(images, labels)
    assert float(loss.item()) == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize("patch", [1, 2])
def test_classes_and_times_change_what_a_denoiser_sees(patch: int) -> None:
    pdl.seed(0)
    net = small(patch=patch, multipliers=(1, 2)).net
    for p in net.parameters():
        nn.init.normal_(p, std=0.1)
    x, t, label = pdl.randn((1, 8, 8, 1)), pdl.as_tensor(np.array([10])), pdl.as_tensor(np.array([0]))
    with pdl.no_grad():
        seen = [net(x, *others).numpy() for others in ((t, label), (t + 500, label), (t, label + 1))]
    assert seen[0].shape == (1, 8, 8, 1)
    assert all(np.abs(seen[0] - other).max() > 1e-3 for other in seen[1:])


def test_spectral_norms_are_singular_values() -> None:
    pdl.seed(0)
    for layer in (nn.Linear(7, 5), nn.Conv2d(3, 6, 3, padding=1)):
        bounded = nn.SpectralNorm(layer).train()
        for _ in range(200):
            bounded.weight()
        matrix = np.array(layer.weight.data, F64).reshape(-1, layer.weight.shape[-1])
        largest = np.linalg.svd(matrix, compute_uv=False)[0]
        np.testing.assert_allclose(bounded.eval().weight().data.reshape(matrix.shape), matrix / largest, rtol=1e-4)
    with pytest.raises(UsageError, match="ReLU is neither a linear layer nor a convolution"):
        nn.SpectralNorm(nn.ReLU())


def test_the_gradient_of_a_spectral_norm() -> None:
    """With u and v held still: d sigma = u v^T. Against finite differences of W / sigma, u and v being singular."""
    pdl.seed(0)
    layer = nn.Linear(4, 3).to("float64")
    bounded = nn.SpectralNorm(layer)
    *_, v = np.linalg.svd(layer.weight.data)
    bounded.u = nn.Buffer(v[0].astype(F64), exact=True)
    bounded.eval()
    out = np.random.default_rng(1).standard_normal((4, 3))
    (bounded.weight() * out).sum().backward()
    found, w = layer.weight.grad, layer.weight.data
    assert found is not None
    for i, j in ((0, 0), (2, 1), (3, 2)):
        values = []
        for h in (1e-6, -1e-6):
            moved = w.copy()
            moved[i, j] += h
            values.append((moved / np.linalg.svd(moved, compute_uv=False)[0] * out).sum())
        assert float(found.data[i, j]) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4, abs=1e-6)


def gan(**options: Any) -> DCGAN:
    pdl.seed(0)
    given = {"image_size": (8, 8), "in_channels": 1, "num_classes": 3, "noise": 4, "width": 4, "depth": 1, **options}
    return DCGAN(**given)


def test_adversarial_losses_are_those_of_the_papers() -> None:
    images, labels = pdl.rand((4, 8, 8, 1)), pdl.as_tensor(np.array([0, 1, 2, 0]))
    for name in ("hinge", "non_saturating"):
        net = gan(gan_loss=name, spectral=False)
        state = pdl.random.get_state()
        found = {player: float(net.turn(player, images, labels)[0].item()) for player in net.players[:1]}
        pdl.random.set_state(state)
        drawn = net.generator(pdl.noise((4, 4)), labels)
        real, fake = (np.array(net.discriminator(x, labels).data, F64) for x in (images, drawn))
        wanted = {
            "hinge": np.maximum(0, 1 - real).mean() + np.maximum(0, 1 + fake).mean(),
            "non_saturating": np.log1p(np.exp(-real)).mean() + np.log1p(np.exp(fake)).mean(),
        }
        assert found["discriminator"] == pytest.approx(wanted[name], rel=1e-5)


def test_the_penalty_reaches_weights_through_second_derivatives() -> None:
    """Against finite differences of (|gradient| - 1)^2, whose gradient is taken inside."""
    net = gan(gan_loss="wasserstein").to("float64").eval()
    rng = np.random.default_rng(0)
    images, drawn = (pdl.as_tensor(rng.standard_normal((3, 8, 8, 1))) for _ in range(2))
    labels = pdl.as_tensor(np.array([0, 1, 2]))

    def penalty() -> pdl.Tensor:
        with pdl.random.fork_seed(3):
            return net._penalty(images, drawn, labels)

    penalty().backward()
    for weight in (net.discriminator.down[0].weight, net.discriminator.last.weight, net.discriminator.label.weight):
        found, index = weight.grad, (0,) * weight.ndim
        assert found is not None
        before, values = weight.data[index], []
        for h in (1e-5, -1e-5):
            weight.data[index] = before + h
            values.append(float(penalty().item()))
        weight.data[index] = before
        assert float(found.data[index]) == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-3, abs=1e-7)
        assert abs(float(found.data[index])) > 1e-7


def test_the_bound_of_an_auto_encoder() -> None:
    pdl.seed(0)
    net = VAE(image_size=(8, 8), in_channels=1, num_classes=2, noise=3, width=4).eval()
    images, labels = pdl.rand((5, 8, 8, 1)) * 2 - 1, pdl.as_tensor(np.array([0, 1, 0, 1, 1]))
    loss, parts = net.loss(images, labels)
    x = pdl.flatten(net.encoder(images), start=1) + net.label(labels)
    mean, spread = np.split(np.array(net.moments(x).data, F64), 2, axis=1)
    divergence = 0.5 * (mean**2 + np.exp(spread) - 1 - spread).sum(axis=1).mean() / 64
    assert float(parts["divergence"]) == pytest.approx(divergence, rel=1e-4)
    assert float(loss.item()) == pytest.approx(float(parts["entropy"]) + divergence, rel=1e-5)


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(UsageError, match=r"image_size \(9, 8\) must be of multiples of 4"):
        DDPM(image_size=(9, 8), multipliers=(1, 2), patch=2)
    with pytest.raises(UsageError, match="needs unlabelled above 0"):
        small(unlabelled=0.0)
    with pytest.raises(UsageError, match=r"DCGAN: image_size \(6, 8\) must be of multiples of 4"):
        DCGAN(image_size=(6, 8))
