#!/usr/bin/env bash
# transformers 5.17.0, torch 2.11.0: an attention function that is registered and never called takes
# the causal mask from models that have attention code of their own.
# Guess: a model either calls the function that attn_implementation names, or refuses the name; one
# that does not ask the AttentionInterface goes on as it was.
# Seen: CodeGen, Bloom and XGLM take the name without a word. Their own code runs, and since no mask
# function is registered under that name create_causal_mask gives None: the first token's logits
# change with the last token. set_attn_implementation refuses CodeGen (a warning) where the
# argument of from_config does not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.11.0 transformers==5.17.0
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - <<'PYTHON'
import torch
import transformers

calls = []


def attention(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **options):
    calls.append(type(module).__name__)
    out = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling)
    return out.transpose(1, 2), None


transformers.AttentionInterface.register("mine", attention)
ids = torch.randint(3, 100, (1, 12), generator=torch.Generator().manual_seed(0))
other = ids.clone()
other[0, -1] = (ids[0, -1] + 1) % 97 + 3
tokens = dict(vocab_size=100, bos_token_id=1, eos_token_id=2)
configs = {"CodeGen": transformers.CodeGenConfig(**tokens, n_embd=64, n_layer=2, n_head=4, n_positions=64,
                                                 n_ctx=64, rotary_dim=8),
           "Bloom": transformers.BloomConfig(**tokens, hidden_size=64, n_layer=2, n_head=4),
           "XGLM": transformers.XGLMConfig(**tokens, d_model=64, num_layers=2, attention_heads=4, ffn_dim=64),
           "Llama": transformers.LlamaConfig(**tokens, hidden_size=64, intermediate_size=64,
                                             num_hidden_layers=2, num_attention_heads=4)}
for name, config in configs.items():
    changes = {}
    for kind in ("eager", "mine"):
        calls.clear()
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=kind).eval()
        for p in model.parameters():
            if p.dim() == 2:
                torch.nn.init.normal_(p, std=p.shape[1] ** -0.5)
        with torch.no_grad():
            a, b = (model(x).logits[0, 0] for x in (ids, other))
        changes[kind] = (a - b).abs().max().item()
        print(f"{name}, {kind}: the function is called {len(calls)} times; another last token changes "
              f"the first one's logits by {changes[kind]:.4f}")
    assert changes["eager"] < 1e-4, "this has changed"
    assert (changes["mine"] > 0.01 and not calls) == (name != "Llama"), "this has changed"
PYTHON
