"""Pages as training sees them: with their lines, versions of them with their maps, and what evaluation sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import DataLoader, Dataset, Few, sample_name
from pdl.data.transforms.numeric import displayed
from pdl.report import Section, image_table
from pdl.train import Look, Previewer
from pdl_ocr.data.polygons import split_points
from pdl_ocr.detection.drawing import GRAY, GREEN, page

if TYPE_CHECKING:
    from pdl_ocr.detection.task import TextDetection

SAID = (
    "<p>Normalize is undone. Inner parts of lines, which are learned, are green; what is left out, because it is "
    "unreadable, tiny or mostly outside, is gray.</p>"
)


class DetectionPreviewer(Previewer):
    """A row for each page: the original with its lines, as the first epochs see it, and as evaluation sees it."""

    task: TextDetection

    def sections(self, dataset: Any, look: Look) -> list[Section]:
        if not isinstance(dataset, Dataset):
            return super().sections(dataset, look)
        few = Few(dataset, look.samples)
        seen = []
        if look.training:
            loader = self.task.loader(few, self.recipe, training=True, seed=look.seed)
            seen = [self._shown(loader, len(few), epoch) for epoch in range(look.versions)]
        evaluation = self.task.loader(few, self.recipe, training=False, seed=look.seed)
        columns = [*seen, self._shown(evaluation, len(few), 0)]
        head = ["original", *(f"epoch {epoch}" for epoch in range(len(seen))), "evaluation"]
        rows = []
        for row in range(len(few)):
            sample = few[row]
            polygons = split_points(sample["points"], sample["corners"])
            readable = [p for p, no in zip(polygons, sample["ignored"], strict=True) if not no]
            others = [p for p, no in zip(polygons, sample["ignored"], strict=True) if no]
            image = page(np.asarray(sample["image"]), [(others, GRAY), (readable, GREEN)])
            height, width = sample["image"].shape[:2]
            name = f"{sample_name(dataset, int(few.indices[row]))}, {width} x {height}: {len(readable)} lines"
            rows.append([(image, name), *(each.get(row) for each in columns)])
        return [Section("Pages", SAID + image_table(rows, head=head))]

    def _shown(self, loader: DataLoader, count: int, epoch: int) -> dict[int, tuple[np.ndarray, str]]:
        """The pages by number as an epoch sees them."""
        found = {}
        for row in range(count):
            batch = loader.samples(np.array([row]), epoch)
            image = displayed(np.asarray(batch["image"][0]), loader.pipeline.steps)
            image = np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image.copy()
            cell = self.task.coding.cell
            large = batch["maps"][0][..., :2].repeat(cell, axis=0).repeat(cell, axis=1)[: len(image), : image.shape[1]]
            for mask, colour in ((large[..., 1] == 0, GRAY), (large[..., 0] > 0, GREEN)):
                image[mask] = (image[mask] + np.array(colour)) // 2
            found[row] = (page(image, []), "")
        return found
