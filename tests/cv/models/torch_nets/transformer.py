"""Vision transformers from the papers, with the names of timm's nets."""

from torch import cat, nn, zeros
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        n, length, dim = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        p = (q @ k.transpose(-1, -2) * (dim // self.heads) ** -0.5).softmax(-1)
        return self.proj((p @ v).transpose(1, 2).reshape(n, length, dim))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.attn, self.norm2 = (
            nn.LayerNorm(dim, eps=1e-6),
            Attention(dim, heads),
            nn.LayerNorm(dim, eps=1e-6),
        )
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(dim, 4 * dim), "fc2": nn.Linear(4 * dim, dim)})

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(x))))


class ViT(nn.Module):
    def __init__(self, dim, depth, heads, patch=16, size=224, distilled=False):
        super().__init__()
        tokens = 1 + distilled
        self.cls_token = nn.Parameter(zeros(1, 1, dim))
        if distilled:
            self.dist_token, self.head_dist = nn.Parameter(zeros(1, 1, dim)), nn.Linear(dim, 1000)
        self.pos_embed = nn.Parameter(zeros(1, (size // patch) ** 2 + tokens, dim))
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, dim, patch, patch)})
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(dim, eps=1e-6), nn.Linear(dim, 1000)
        for name, p in self.named_parameters():
            if name.endswith(("token", "pos_embed")) or p.ndim == 1:
                nn.init.normal_(p, mean=float("norm" in name and "weight" in name), std=0.3)

    def forward(self, x):
        n, distilled = len(x), hasattr(self, "dist_token")
        x = self.patch_embed["proj"](x).flatten(2).transpose(1, 2)
        learned = [self.cls_token, self.dist_token] if distilled else [self.cls_token]
        x = cat([*(each.expand(n, -1, -1) for each in learned), x], 1) + self.pos_embed
        x = self.norm(self.blocks(x))
        return (self.head(x[:, 0]) + self.head_dist(x[:, 1])) / 2 if distilled else self.head(x[:, 0])


NETS = {
    "vit_tiny_patch16_224": lambda: ViT(192, 12, 3),
    "deit_tiny_distilled_patch16_224": lambda: ViT(192, 12, 3, distilled=True),
}
SIZES = dict.fromkeys(NETS, 224)
