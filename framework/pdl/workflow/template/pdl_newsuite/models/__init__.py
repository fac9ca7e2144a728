"""Model families, one a module; `pdl models` lists their VARIANTS."""

from pdl_newsuite.models.dotnet import DotNet

__all__ = ["DotNet"]
