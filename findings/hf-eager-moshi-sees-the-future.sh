#!/usr/bin/env bash
# transformers 5.17.0, torch 2.11.0: MoshiForCausalLM with eager attention and no attention_mask
# sees later tokens; with SDPA it does not.
# Guess: eager attention is the reference that the other implementations are compared with; a
# decoder is causal with each of them, and an attention_mask of ones is as good as none.
# Seen: Moshi's model makes a causal mask only where an attention_mask is given. Without one eager
# attention, which never reads the layer's is_causal, masks nothing: the first token's logits
# change with the last token. sdpa_attention_forward takes is_causal=True from the layer.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.11.0 transformers==5.17.0
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - <<'PYTHON'
import torch
import transformers

config = dict(vocab_size=100, hidden_size=64, ffn_dim=128, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=4, max_position_embeddings=64, sliding_window=64)
ids = torch.randint(1, 100, (1, 12), generator=torch.Generator().manual_seed(0))
other = ids.clone()
other[0, -1] = (ids[0, -1] + 1) % 99 + 1
seen = {}
for kind in ("eager", "sdpa"):
    torch.manual_seed(0)
    model = transformers.MoshiForCausalLM._from_config(transformers.MoshiConfig(**config),
                                                       attn_implementation=kind).eval()
    for p in model.parameters():
        if p.dim() == 2:
            torch.nn.init.normal_(p, std=p.shape[1] ** -0.5)
    for what, mask in (("no mask", None), ("ones", torch.ones_like(ids))):
        with torch.no_grad():
            a, b = (model(x, attention_mask=mask, use_cache=False).logits[0, 0] for x in (ids, other))
        seen[kind, what] = (a - b).abs().max().item()
        print(f"{kind}, attention_mask {what}: another last token changes the first one's logits "
              f"by {seen[kind, what]:.4f}")
sees = {key for key, value in seen.items() if value > 1e-4}
assert sees == {("eager", "no mask")}, "this has changed"
PYTHON
