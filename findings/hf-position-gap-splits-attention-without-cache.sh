#!/usr/bin/env bash
# transformers 5.17.0, torch 2.11.0: position_ids with a gap cut attention in two where there is no
# cache, and only there.
# Guess: use_cache says whether keys and values are kept; the logits of one call are the same with
# and without it. Positions 0..5, 20..25 (a prompt with a part cut out) only turn the rotations.
# Seen: with use_cache=False and no attention_mask every step of position_ids that is not 1 begins
# another packed sequence (masking_utils.find_packed_sequence_indices): the tokens after the gap
# do not see those before it, the logits differ by more than 1. An attention_mask of ones, or
# use_cache=True, gives the attention of the whole sequence.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.11.0 transformers==5.17.0
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - <<'PYTHON'
import torch
import transformers

torch.manual_seed(0)
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
    vocab_size=100, hidden_size=64, intermediate_size=64, num_hidden_layers=2,
    num_attention_heads=4)).eval()
for p in model.parameters():  # as they come, weights are so small that attention hardly matters
    if p.dim() == 2:
        torch.nn.init.normal_(p, std=p.shape[1] ** -0.5)
ids = torch.randint(1, 100, (1, 12))
other = ids.clone()
other[0, 0] = (ids[0, 0] + 1) % 99 + 1
places = torch.tensor([[*range(6), *range(20, 26)]])
ones = torch.ones_like(ids)


def logits(these, **options):
    with torch.no_grad():
        return model(these, position_ids=places, **options).logits


def change(**options):
    """How much the last token's logits depend on the first token."""
    return (logits(ids, **options) - logits(other, **options))[0, -1].abs().max().item()


apart = (logits(ids, use_cache=True) - logits(ids, use_cache=False)).abs().max().item()
print(f"logits with and without a cache differ by {apart:.2f}")
seen = {"use_cache=True": change(use_cache=True), "use_cache=False": change(use_cache=False),
        "use_cache=False and a mask of ones": change(use_cache=False, attention_mask=ones)}
for what, by in seen.items():
    print(f"{what}: another first token changes the last one's logits by {by:.2f}")
with_cache, without, with_mask = seen.values()
assert apart > 1 and with_cache > 0.1 and without == 0 and with_mask > 0.1, "this has changed"
PYTHON
