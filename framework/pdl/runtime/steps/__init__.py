"""The steps that a pipeline may name: what happens to an input before the net, and to the net's outputs after it.

Here are the base classes and the steps that know of no domain: images, rows of tables, labels and names, arrays. All
others belong to the suite whose domain they know, or to anybody's package. It names them as entry points, and
`registry.find` imports them when a bundle asks for one:

    [project.entry-points."pdl.steps"]
    waveform = "pdl_audio.steps.waveforms:WaveformInput"

Such a module imports NumPy, `pdl.runtime` and other light modules of its own package alone: it is what predicting
takes, on machines where nobody trains.
"""

from pdl.runtime.drawing import Drawing, Mark
from pdl.runtime.sample import Sample
from pdl.runtime.steps.base import NamesOf, Resources, Step
from pdl.runtime.steps.inputs import Flag, Input, InputStep, PreStep
from pdl.runtime.steps.outputs import Labelled, PostStep, Ranking, alike, ranked_alike
from pdl.runtime.steps.writing import Writes

__all__ = [
    "Drawing", "Flag", "Input", "InputStep", "Labelled", "Mark", "NamesOf", "PostStep", "PreStep", "Ranking",
    "Resources", "Sample", "Step", "Writes", "alike", "ranked_alike",
]  # fmt: skip
