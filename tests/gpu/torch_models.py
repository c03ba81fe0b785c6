"""torch_models.py - models of Hugging Face's transformers with attn_implementation="tilec" on a GPU.

    python3 tests/gpu/torch_models.py [--out FOLDER] [--only NAME..]     (tilec and transformers on PYTHONPATH)

Models are made from configurations, with random weights.  A bfloat16 model with tilec may be twice as far from a
float32 one as with eager attention (SDPA has no softcap).  torch_harness.py says how checks run and what is printed.

TILEC_MODELS_ON=cpu checks all but kernels on a machine without a GPU: plain operations take their place.
"""
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from torch_harness import check, main, note, refused, timed  # noqa: E402

DEVICE = os.environ.get("TILEC_MODELS_ON", "cuda")
VOCABULARY = 1000
SMALL = dict(vocab_size=VOCABULARY, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8,
             num_key_value_heads=2, head_dim=64, max_position_embeddings=4096)


def families():
    """Configurations by name."""
    import transformers as t

    kinds = ["sliding_attention", "full_attention"] * 2
    return {
        "Llama": t.LlamaConfig(**SMALL), "Mistral": t.MistralConfig(**SMALL, sliding_window=50),
        "Qwen2": t.Qwen2Config(**SMALL), "Qwen3": t.Qwen3Config(**{**SMALL, "head_dim": 128}),
        "Gemma2": t.Gemma2Config(**{**SMALL, "head_dim": 256}, query_pre_attn_scalar=256, sliding_window=50,
                                 attn_logit_softcapping=20.0, layer_types=kinds),
        "Gemma3": t.Gemma3TextConfig(**{**SMALL, "head_dim": 256}, query_pre_attn_scalar=256, sliding_window=50,
                                     layer_types=kinds)}


def made(config, implementation, dtype=None):
    import copy

    import torch
    import transformers

    import tilec.torch.transformers  # registers "tilec"

    if DEVICE == "cpu":
        import torch_plain

        torch_plain.instead_of_kernels()
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation=implementation,
                                                          dtype=torch.float32)
    assert model.config._attn_implementation == implementation
    return model.to(DEVICE, dtype or torch.bfloat16)


def trio(config):
    """float32 eager, bfloat16 eager, bfloat16 with tilec, of the same weights."""
    import torch

    return made(config, "eager", torch.float32), made(config, "eager"), made(config, "tilec")


def tokens(b, s, seed=1):
    import torch

    return torch.randint(1, VOCABULARY, (b, s), generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def closer(what, exact, plain_, ours, real=None):
    """`real`: the places that count."""
    real = slice(None) if real is None else real
    errors = [(x.float() - exact.float())[real].norm().item() / exact.float()[real].norm().item() for x in (plain_, ours)]
    note(f"{what}: relative error of eager, tilec", [float(f"{e:.3g}") for e in errors])
    assert errors[1] <= 2 * errors[0] + 1e-5, f"{what}: errors {errors}"


def gradient(model, ids, of=None, **options):
    """Gradients of one model, or of that which it was compiled of: logits, and those of the first layer's weights."""
    import torch

    out = model(ids, use_cache=False, **options).logits.float()
    weight = torch.linspace(-1, 1, out.numel(), device=out.device).view(out.shape).sin()
    if options.get("attention_mask") is not None:
        weight = weight * options["attention_mask"][..., None]
    of = of or model
    of.zero_grad()
    (out * weight).sum().backward()
    chosen = [p for name, p in of.named_parameters() if "layers.0.self_attn" in name and p.dim() == 2]
    return out.detach(), torch.cat([p.grad.flatten().float() for p in chosen])


def compare(name, config, ids, **options):
    three = [gradient(model, ids, **options) for model in trio(config)]
    mask = options.get("attention_mask")
    closer(f"{name}: logits", *[out for out, _ in three], real=None if mask is None else mask.bool())
    closer(f"{name}: gradients", *[grad for _, grad in three])


@check
def plain():
    for name, config in families().items():
        compare(name, config, tokens(2, 300))


def padded(side):
    import torch

    mask = torch.ones(3, 200, dtype=torch.long, device=DEVICE)
    for row, n in ((0, 30), (2, 137)):
        mask[row, :n] = 0
    return mask if side == "left" else mask.flip(1).contiguous()


@check
def left_padding():
    mask = padded("left")
    for name, config in families().items():
        places = (mask.cumsum(1) - 1).clamp(min=0)
        compare(name, config, tokens(3, 200), attention_mask=mask, position_ids=places)


@check
def right_padding():
    for name, config in families().items():
        compare(name, config, tokens(3, 200), attention_mask=padded("right"))


@check
def packed():
    import torch

    places = torch.cat([torch.arange(n, device=DEVICE) for n in (70, 1, 100, 129)])[None]
    for name in ("Llama", "Gemma3"):
        compare(name, families()[name], tokens(1, 300), position_ids=places)


@check
def decoding():
    """Token by token, with a cache and left-padded prompts: logits as of the whole sequence at once."""
    import torch
    import transformers

    for name, config in families().items():
        for side in (None, "left"):
            ids, out = tokens(3, 220), {}
            mask = torch.ones(3, 220, dtype=torch.long, device=DEVICE)
            if side:
                mask[0, :40] = 0
            places = (mask.cumsum(1) - 1).clamp(min=0)
            for kind, model in zip(("exact", "eager", "tilec"), trio(config)):
                with torch.no_grad():
                    if kind == "exact":
                        out[kind] = model(ids, attention_mask=mask, position_ids=places).logits[:, 199:]
                        continue
                    cache, steps = transformers.DynamicCache(config=config), []
                    for begin, end in ((0, 200), *[(n, n + 1) for n in range(200, 220)]):
                        steps.append(model(ids[:, begin:end], attention_mask=mask[:, :end], use_cache=True,
                                           position_ids=places[:, begin:end], past_key_values=cache).logits[:, -1:])
                    out[kind] = torch.cat(steps, 1)
            closer(f"{name}, {side or 'no'} padding", out["exact"], out["eager"], out["tilec"])


@check
def generated():
    for name in ("Llama", "Gemma2", "Gemma3"):
        config = families()[name]
        mask = padded("left")
        texts = []
        for implementation in ("eager", "tilec"):
            model = made(config, implementation).eval()
            texts.append(model.generate(tokens(3, 200), attention_mask=mask, max_new_tokens=20, do_sample=False,
                                        pad_token_id=0, eos_token_id=None))
        assert texts[0].shape == texts[1].shape
        note(f"{name}: tokens alike of 60", int((texts[0][:, 200:] == texts[1][:, 200:]).sum()))
    model = made(families()["Llama"], "tilec").eval()
    out = [model.generate(tokens(2, 50), max_new_tokens=10, do_sample=False, pad_token_id=0, eos_token_id=None, **more)
           for more in ({}, {"cache_implementation": "static", "disable_compile": True})]
    note("Llama: tokens with a static cache alike of 20", int((out[0][:, 50:] == out[1][:, 50:]).sum()))


@check
def compiled():
    import torch

    config = families()["Llama"]
    exact, eager, ours = trio(config)
    ids = tokens(2, 256)
    want = [gradient(model, ids) for model in (exact, eager)]
    have = gradient(torch.compile(ours, fullgraph=True), ids, of=ours)
    closer("logits", want[0][0], want[1][0], have[0])
    closer("gradients", want[0][1], want[1][1], have[1])


@check
def one_graph():
    """What has no cache is one graph, also with padding and packed sequences, which are read on the host; compiled() makes
    code of one."""
    import torch

    packed_places = torch.cat([torch.arange(n, device=DEVICE) for n in (70, 1, 129)])[None]
    given = {"as it is": {}, "ones": {"attention_mask": torch.ones(3, 200, dtype=torch.long, device=DEVICE)},
             "left": {"attention_mask": padded("left")}, "right": {"attention_mask": padded("right")},
             "packed": {"position_ids": packed_places}}
    for name in ("Llama", "Gemma3"):
        models = trio(families()[name])
        for what, options in given.items():
            ids = tokens(1 if what == "packed" else 3, 200)
            want = [gradient(model, ids, **options) for model in models[:2]]
            torch._dynamo.reset()
            whole = torch.compile(models[2], fullgraph=True, backend="aot_eager")
            have = gradient(whole, ids, of=models[2], **options)
            mask = options.get("attention_mask")
            real = None if mask is None else mask.bool()
            closer(f"{name}, {what}: logits", want[0][0], want[1][0], have[0], real)
            closer(f"{name}, {what}: gradients", want[0][1], want[1][1], have[1])


@check
def operators():
    """opcheck of the operators that keep parts of sequences out of graphs."""
    import torch

    import tilec.torch.transformers
    from tilec.torch import transformers_parts

    if DEVICE == "cpu":
        import torch_plain

        torch_plain.instead_of_kernels()
    transformers_parts._prepare()
    of = torch.ops.tilec
    seen = padded("left")[:, :60].bool()
    rows = of.mask_parts(seen, None, None, torch.tensor(0), 3, 60, 60, 0, True, 1)
    assert rows.tolist()[0] == [[30, 60, 30, 60]] and rows.tolist()[1] == [[0, 60, 0, 60]]
    torch.library.opcheck(of.mask_parts.default, (seen, None, None, torch.tensor(0), 3, 60, 60, 0, True, 1))
    for these in (rows, rows[1:2].expand(3, 1, 4).contiguous()):
        q, k, v = (torch.randn(3, 60, heads, 64, device=DEVICE).bfloat16().requires_grad_() for heads in (4, 2, 2))
        values = 0.125, 0.0, True, 0, -1, False
        torch.library.opcheck(of.attention_in_parts.default, (q, k, v, these, *values), atol=0.02, rtol=0.02)


@check
def checkpointing():
    ids = tokens(2, 256)
    three = []
    for model in trio(families()["Gemma2"]):
        model.train()
        model.gradient_checkpointing_enable()
        three.append(gradient(model, ids))
    closer("gradients", *[grad for _, grad in three])


@check
def refusals():
    import torch
    import transformers

    model, ids = made(families()["Llama"], "tilec"), tokens(2, 50)
    hole = torch.ones(2, 50, dtype=torch.long, device=DEVICE)
    hole[0, 20] = 0
    refused("has a hole", lambda: model(ids, attention_mask=hole))
    whole = torch.ones(2, 1, 50, 50, dtype=torch.bool, device=DEVICE).tril()
    refused("a tensor of all queries and keys", lambda: model(ids, attention_mask=whole))
    dropping = made(transformers.LlamaConfig(**SMALL, attention_dropout=0.1), "tilec").train()
    refused("no dropout", lambda: dropping(ids))
    assert torch.isfinite(model(ids).logits).all()


def big(layers=12, hidden=2048, heads=16):
    import transformers

    return transformers.LlamaConfig(vocab_size=32000, hidden_size=hidden, intermediate_size=hidden * 43 // 16,
                                    num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=heads // 2,
                                    head_dim=128, max_position_embeddings=8192)


def train(config, batches):
    """Steps of 50 with each attention, in turn: (ms of each, losses)."""
    import torch

    times, losses, models = {"sdpa": [], "tilec": []}, {"sdpa": [], "tilec": []}, {}
    for kind in times:
        model = made(config, kind).train()
        models[kind] = model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for step in range(50):
        for kind, (model, optimizer) in models.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            loss = model(batches[step % 4], labels=batches[step % 4], use_cache=False).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            torch.cuda.synchronize()
            if step >= 5:
                times[kind].append(1000 * (time.perf_counter() - start))
            losses[kind].append(loss.item())
    return {kind: round(statistics.median(these), 2) for kind, these in times.items()}, losses


def attention_ms(config):
    """Milliseconds that attention alone takes in a step, by SDPA."""
    import torch
    import torch_harness

    shapes = [(4, heads, 2048, 128) for heads in (config.num_attention_heads, *[config.num_key_value_heads] * 2)]
    q, k, v = (torch.randn(shape, device=DEVICE).bfloat16().requires_grad_() for shape in shapes)
    grad = torch.ones_like(q)

    def both():
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        torch.autograd.grad(out, (q, k, v), grad)

    return torch_harness.gpu_ms(both) * config.num_hidden_layers


def training_of(config):
    """B4 S2048 bfloat16: a step with each attention; the losses of 50 steps."""
    import torch

    torch.manual_seed(2)
    batches = [torch.randint(1, 32000, (4, 2048), device=DEVICE) for _ in range(4)]
    share = attention_ms(config)
    middle, losses = train(config, batches)
    note("ms of a step (middle of 45)", middle)
    note("of which attention, by SDPA", round(share, 2))
    note("SDPA / tilec (at least 1.05)", round(middle["sdpa"] / middle["tilec"], 3))
    for kind, these in losses.items():
        note(f"losses, {kind}", [round(x, 3) for x in these[::7]])
    apart = max(abs(a - b) / a for a, b in zip(losses["sdpa"], losses["tilec"]))
    note("losses apart at most", f"{apart:.2e}")
    assert apart < 0.02, f"losses differ by {apart:.3f}"
    assert middle["sdpa"] >= 1.05 * middle["tilec"], f"a step takes {middle}"


@timed
def training():
    training_of(big())


@timed
def training_small():
    training_of(big(24, 1024, 8))


@timed
def decode_rate():
    """Milliseconds of a token of generate(), with a prompt of 2048."""
    import torch

    models = {kind: made(big(), kind).eval() for kind in ("sdpa", "tilec")}
    slow = []
    for b in (1, 16):
        ids = torch.randint(1, 32000, (b, 2048), device=DEVICE)  # 0 is padding
        best = {}
        for _ in range(4):
            for kind, model in models.items():
                spent = []
                for n in (1, 41):
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    model.generate(ids, min_new_tokens=n, max_new_tokens=n, do_sample=False, pad_token_id=0)
                    torch.cuda.synchronize()
                    spent.append(time.perf_counter() - start)
                best[kind] = min(best.get(kind, 1e9), (spent[1] - spent[0]) / 40 * 1000)
        note(f"B{b}: ms a token", {kind: round(value, 3) for kind, value in best.items()})
        if best["tilec"] > 1.02 * best["sdpa"]:
            slow.append(f"B{b}: {best}")
    assert not slow, "; ".join(slow)


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(__file__), __doc__))
