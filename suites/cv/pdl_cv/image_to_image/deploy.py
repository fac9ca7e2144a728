"""What of a net that makes pictures of others goes into a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.export.deployment import Deployment
from pdl.report import Card
from pdl.train.images import ImageDeployer

if TYPE_CHECKING:
    from pdl_cv.image_to_image.task import ImageToImage


class ImageToImageDeployer(ImageDeployer):
    """Images that are prepared as for evaluation in, pictures at the size of the originals out."""

    task: ImageToImage

    def deployment(self, model: Any, dataset: Any = None) -> Deployment:
        post = {"picture": [{"step": "picture"}]}
        return self.of_images(model, dataset, module=model.sampler(), outputs=("picture",), post=post, labels=[])

    def card(self, model: Any) -> Card:
        by = "of the means of 8 x 8 areas" if self.task.judge is None else f"by the features of {self.task.judge}"
        return self.image_card(
            f"{type(model).__name__}, pictures of pictures",
            f"Image-to-image translation ({self.size_of(model)}).",
            "Pictures are compared with the true ones at the size of the net: l1 is the mean absolute difference of "
            "numbers from 0 to 1; psnr and ssim are means over pictures; frechet is the Frechet distance "
            f"{by}.",
        )
