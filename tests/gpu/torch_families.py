"""torch_families.py - every family of decoders in transformers with attn_implementation="tilec", beside eager attention.

    python3 tests/gpu/torch_families.py [--out FILE] [--only NAME..] [--jobs N]     (tilec and transformers on PYTHONPATH)

For each name of transformers' tables of models for causal, and for sequence to sequence, language modelling: a model of two
layers or so with random weights, twice, and three calls: of whole sequences, of sequences with padding at the left, and in
pieces with a cache (30 tokens, then 9, then 1).  A call gives the largest difference of logits from those of eager attention,
by their standard deviation, or the words in which it was refused.  Also: whether the first token sees the last one.

On a GPU models are bfloat16, and what counts is the error beside float32: `e` that of eager attention, `t` of tilec's; t is
right up to 2 e.  TILEC_MODELS_ON=cpu computes in float32 by plain operations in place of kernels (torch_plain.py), where any
difference is a wrong mask and not rounding: right up to 1e-3.

--table CPU.json GPU.json writes the tables of docs/models.md from such files, in place.
"""
import argparse
import contextlib
import copy
import json
import os
import subprocess
import sys
import threading
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

DEVICE = os.environ.get("TILEC_MODELS_ON", "cuda")
VOCABULARY, TOKENS = 500, 40
HIDDEN, HEADS, HEAD = 128, 4, 32

# by the names that configurations have: what makes a model small
SIZES = (
    (HIDDEN, "hidden_size d_model n_embd dim embed_dim word_embed_proj_dim embedding_size attention_hidden_size hidden_dim "
             "d_embed hidden_size_per_layer_input input_embedding_size output_embedding_size emb_dim lru_width embedding_dim "
             "cross_attention_hidden_size router_hidden_size"),
    (HEADS, "num_attention_heads n_head n_heads num_heads attention_heads encoder_attention_heads decoder_attention_heads "
            "num_encoder_attention_heads num_decoder_attention_heads linear_num_value_heads linear_num_key_heads index_n_heads "
            "swa_num_attention_heads linear_num_heads"),
    (2, "num_key_value_heads num_kv_heads swa_num_key_value_heads num_global_key_value_heads num_experts_per_tok moe_k "
        "num_local_experts num_experts n_routed_experts moe_num_experts moe_topk top_k moe_top_k num_selected_experts "
        "num_experts_per_token top_k_experts"),
    (HEAD, "head_dim d_kv qk_nope_head_dim v_head_dim linear_key_head_dim linear_value_head_dim attention_head_dim swa_head_dim "
           "global_head_dim swa_v_head_dim index_head_dim linear_head_dim d_head kv_channels dim_head"),
    (16, "qk_rope_head_dim sliding_window attention_chunk_size rotary_dim local_window_size attention_window_size window_size "
         "local_attention sliding_window_size"),
    (64, "kv_lora_rank q_lora_rank o_lora_rank"),
    (256, "intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim n_inner d_ff ffn_hidden_size moe_intermediate_size d_inner dff "
          "shared_expert_intermediate_size dense_intermediate_size expert_ffn_hidden_size dim_ff intermediate_size_mlp "
          "shared_intermediate_size moe_shared_expert_intermediate_size"),
    (128, "max_position_embeddings n_positions n_ctx max_seq_len max_sequence_length max_source_positions max_target_positions"),
    (1, "n_group topk_group first_k_dense_replace num_shared_experts n_shared_experts"),
)
LAYERS = ("num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers num_decoder_layers "
          "num_hidden_layers")
SMALL = {name: size for size, names in SIZES for name in names.split()}


def found_classes():
    """{class: (name of the family, whether it has an encoder too)} of both tables."""
    from transformers.models.auto import modeling_auto as auto

    found = {}
    for two, table in enumerate((auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES)):
        for name, kind in table.items():
            found.setdefault(kind, (name, bool(two)))
    return found


# what the rules above do not make small, or make wrong, by the name of the family
MORE = {
    "bamba": dict(mamba_n_heads=8, mamba_d_head=32, mamba_d_state=16, attn_layer_indices=[1]),
    "cohere_compass_text": dict(layer_types=["sliding_attention", "full_attention"], rope_parameters={
        sort: dict(rope_type="default", rope_theta=10000.0, mrope_section=[6, 5, 5])
        for sort in ("sliding_attention", "full_attention")}),
    "dbrx": dict(attn_config=dict(rope_theta=10000.0, kv_n_heads=2, clip_qkv=8),
                 ffn_config=dict(ffn_hidden_size=256, moe_num_experts=2, moe_top_k=2)),
    "dots1": dict(n_routed_experts=2, n_shared_experts=1),
    "falcon_h1": dict(mamba_n_heads=8, mamba_d_head=16, mamba_d_ssm=128, mamba_d_state=16),
    "gemma3n_text": dict(num_kv_shared_layers=0, vocab_size_per_layer_input=VOCABULARY),
    "gemma4_text": dict(vocab_size_per_layer_input=VOCABULARY),
    "gpt_neo": dict(attention_types=[[["global", "local"], 1]], num_layers=2, window_size=16),
    "granitemoehybrid": dict(layer_types=["linear_attention", "full_attention"], mamba_n_heads=8, mamba_d_head=32,
                             mamba_d_state=16),
    "jamba": dict(attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, mamba_dt_rank=16),
    "lfm2_moe": dict(layer_types=["full_attention", "conv"]),
    "longcat_flash": dict(zero_expert_num=2, head_dim=16),
    "mamba2": dict(num_heads=8, head_dim=HEAD),
    "minimax_m3_vl_text": dict(layer_types=["full_attention", "minimax_m3_sparse"], index_block_size=8, index_topk_blocks=2),
    "musicgen": dict(num_codebooks=1), "musicgen_melody": dict(num_codebooks=1),
    "qwen4_exp": dict(indexer_n_heads=2, indexer_kv_heads=1, indexer_head_dim=HEAD, indexer_budget=8, indexer_compress_ratio=2,
                      hc_lowrank=16),
    "recurrent_gemma": dict(num_hidden_layers=3),
    "reformer": dict(axial_pos_embds=False),
    "xmod": dict(default_language="en_XX"),
    "zamba": dict(layers_block_type=["linear_attention", "hybrid"] * 2, num_hidden_layers=4, attention_hidden_size=2 * HIDDEN,
                  attention_head_dim=2 * HEAD),
    "zamba2": dict(attention_hidden_size=2 * HIDDEN, attention_head_dim=2 * HEAD),
    "zaya": dict(num_experts_per_tok=1),
}


def small(kind):
    """A configuration of a model's class with sizes made small, and two layers or one of each sort."""
    import transformers

    name = found_classes()[kind][0]
    kind = getattr(transformers, kind)
    whole = None if name in OF_PARTS else kind.config_class()
    if whole is None or whole.get_text_config() is not whole:
        return None
    have = whole.to_dict()
    chosen = {key: SMALL[key] for key, value in have.items() if key in SMALL and type(value) in (int, type(None), float)
              and not (value is None and key not in NONE_IS_A_SIZE)}
    layers = max([have[key] for key in LAYERS.split() if isinstance(have.get(key), int)], default=2)
    lists = {key: value for key, value in have.items() if isinstance(value, list) and len(value) == layers > 2}
    first = {}
    for at, sorts in enumerate(zip(*lists.values())):
        first.setdefault(tuple(map(str, sorts)), at)
    at = sorted(first.values())[:4] if lists else []
    at = sorted({*at, *range(layers)[:2]}) if len(at) < 2 else at
    chosen.update({key: [value[i] for i in at] for key, value in lists.items()})
    chosen.update({key: len(at) for key in LAYERS.split() if isinstance(have.get(key), int)})
    chosen.update(vocab_size=VOCABULARY)
    for key, value in have.items():
        if key.endswith("token_id") and isinstance(value, (int, list)):
            chosen[key] = 3 if key != "pad_token_id" else 0
        if "dropout" in key and isinstance(value, float) or key.endswith("pdrop"):
            chosen[key] = 0.0
    if "use_sliding_window" in have:
        chosen.update(use_sliding_window=True, **{key: 1 for key in ("max_window_layers",) if key in have})
    if "is_decoder" in have and "ForConditional" not in kind.__name__:
        chosen["is_decoder"] = True
    if "kv_lora_rank" in have:  # one latent vector for all heads
        chosen.pop("head_dim", None)
        chosen["num_key_value_heads"] = HEADS
    chosen.update(MORE.get(name) or {})
    return kind.config_class(**chosen)


OF_PARTS = ("phi4_multimodal", "gemma4_assistant", "gemma4_unified_assistant", "blt", "encoder-decoder")
NONE_IS_A_SIZE = ("num_key_value_heads", "num_experts_per_tok", "head_dim", "sliding_window", "n_inner")


def build(kind, config, implementation, dtype):
    import torch
    import transformers

    torch.manual_seed(0)
    model = getattr(transformers, kind)._from_config(copy.deepcopy(config), attn_implementation=implementation,
                                                     dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for module in model.modules():  # so that attention matters: as they come, weights are all but zero
            if isinstance(module, torch.nn.Linear):
                module.weight.copy_(torch.randn(module.weight.shape, generator=generator) * module.in_features ** -0.5)
            elif isinstance(module, torch.nn.Embedding):
                module.weight.copy_(torch.randn(module.weight.shape, generator=generator))
    return model.to(DEVICE, dtype)


# ---- one family ----


def tokens(last=0):
    import torch

    ids = torch.randint(4, VOCABULARY, (2, TOKENS), generator=torch.Generator().manual_seed(2))
    ids[0, -1] = (ids[0, -1] + last) % (VOCABULARY - 4) + 4
    return ids.to(DEVICE)


def call(model, two, ids, mask=None):
    """Logits of whole sequences."""
    named = {"input_ids": ids, "attention_mask": mask, "use_cache": False}
    if two:
        named.update(decoder_input_ids=ids, decoder_attention_mask=mask)
    return model(**{key: value for key, value in named.items() if value is not None}).logits


def in_pieces(model, two, ids):
    """Logits of sequences whose tokens come 30, 9 and 1 at a time, with a cache."""
    found, kept = [], {}
    for begin, end in ((0, 30), (30, 39), (39, 40)):
        if two:
            out = model(input_ids=ids, decoder_input_ids=ids[:, begin:end], use_cache=True, **kept)
        else:
            out = model(input_ids=ids[:, begin:end], use_cache=True, **kept)
        kept = {"past_key_values": out.past_key_values}
        found.append(out.logits)
    import torch

    return torch.cat(found, 1)


def left():
    import torch

    mask = torch.ones(2, TOKENS, dtype=torch.long, device=DEVICE)
    mask[0, :13] = 0
    return mask


def calls(two):
    mask = left()
    return {"plain": lambda model: call(model, two, tokens()),
            "padded": lambda model: call(model, two, tokens(), mask)[mask.bool()],
            "cached": lambda model: in_pieces(model, two, tokens())}


def words(error):
    return " ".join(str(error).split())[:400]


def compare(models, function):
    """What a call gives: {"t": error} and so on, or {"refused": words}."""
    import torch

    import tilec.torch

    found = {}
    for who in ("exact", "eager", "tilec"):
        if who == "eager" and models["eager"] is models["exact"]:
            continue
        try:
            found[who] = function(models[who]).float()
        except tilec.torch.Error as error:
            return {"refused": words(error)}
        except Exception as error:  # noqa: BLE001
            return {"fails": f"{who}: {type(error).__name__}: {words(error)}"}
    error = {"t": "tilec", "e": "eager"}
    if DEVICE == "cpu":
        return {"t": ((found["tilec"] - found["exact"]).abs().max() / found["exact"].std()).item()}
    norm = found["exact"].norm()
    assert torch.isfinite(norm)
    return {key: ((found[who] - found["exact"]).norm() / norm).item() for key, who in error.items()}


asked = []  # the layers that asked for attention


def counted(attention):
    def ask(module, *arguments, **named):
        asked.append(module)
        return attention(module, *arguments, **named)

    return ask


def family(kind, two):
    import torch

    import tilec.torch

    config = small(kind)
    if config is None:
        return {"parts": True}
    exact, dtype = torch.float32, torch.float32 if DEVICE == "cpu" else torch.bfloat16
    try:
        models = {"tilec": build(kind, config, "tilec", dtype)}
    except tilec.torch.Error as error:
        return {"refused": words(error)}
    models["exact"] = build(kind, config, "eager", exact)
    models["eager"] = models["exact"] if DEVICE == "cpu" else build(kind, config, "eager", dtype)
    with torch.no_grad():
        found = {name: compare(models, function) for name, function in calls(two).items()}
        asked.clear()
        if "t" in found["plain"]:
            call(models["tilec"], two, tokens())
            found["layers"] = len(asked)
        if "t" in found["plain"] and not two:
            found["leaks"] = [bool((call(models[who], two, tokens(1))[0, 0] != call(models[who], two, tokens())[0, 0]).any())
                              for who in ("tilec", "eager")]
    return found


def run(kinds):
    import torch

    import tilec.torch.transformers
    import transformers

    transformers.AttentionInterface.register("tilec", counted(tilec.torch.transformers.attention))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if DEVICE == "cpu":
        import torch_plain

        torch_plain.instead_of_kernels(any_type=True)
    for kind in kinds:
        name, two = found_classes()[kind]
        try:
            with contextlib.redirect_stdout(sys.stderr):
                found = family(kind, two)
        except Exception as error:  # noqa: BLE001
            found = {"fails": f"{type(error).__name__}: {words(error)}"}
        print("ROW " + json.dumps({"kind": kind, "name": name, **found}), flush=True)


def right(found):
    """Whether a call is as it is to be."""
    if "refused" in found:
        return True
    if "t" not in found:
        return False
    return found["t"] <= 1e-3 if "e" not in found else found["t"] <= 2 * found["e"] + 1e-4


def verdict(row):
    if "parts" in row:
        return "of parts"
    if "fails" in row:
        return "FAILS"
    if "refused" in row:
        return "refused"
    if row.get("layers") == 0:
        return "no attention"
    if not all(right(row[name]) for name in ("plain", "padded", "cached") if "fails" not in row[name]) or "fails" in row["plain"]:
        return "WRONG" if "t" in row["plain"] else "FAILS"
    if row.get("leaks") and row["leaks"][0] and not row["leaks"][1]:
        return "WRONG"
    return "refused" if "refused" in row["plain"] else "right"


# ---- docs/models.md ----

PAGE = os.path.join(HERE, "..", "..", "docs", "models.md")
MARK = "<!-- by tests/gpu/torch_families.py --table -->\n"
CALLS = ("plain", "padded", "cached")


def reason(row):
    """Why a family is refused, without what is the same in each."""
    text = (row.get("refused") or row["plain"]["refused"]).split(": ", 1)[1].rsplit("; take another", 1)[0].split("; to a part")[0]
    for name in (row["kind"], row["name"]):
        text = text.removeprefix(name + " ")
    return text.split(", which does not go")[0].split(" and does not leave it")[0]


def cell(cpu, gpu, call):
    """Errors on the GPU, or what there is in their place."""
    if "t" not in cpu[call]:
        return "refused" if "refused" in cpu[call] else "-"
    assert right(cpu[call]), cpu
    return f"{100 * gpu[call]['t']:.2f} / {100 * gpu[call]['e']:.2f}" if gpu else "right"


def table(cpu_file, gpu_file):
    """The page's text behind MARK."""
    with open(cpu_file) as cpu, open(gpu_file) as gpu:
        cpu, gpu = ({row["kind"]: row for row in json.load(file)} for file in (cpu, gpu))
    for kind, row in cpu.items():
        assert verdict(row) == verdict(gpu.get(kind, row)) and verdict(row) not in ("WRONG", "FAILS"), (kind, verdict(row))
    sorts = {sort: sorted((row for row in cpu.values() if verdict(row) == sort), key=lambda row: row["name"].lower())
             for sort in ("right", "refused", "of parts", "no attention")}
    worst = max(cpu[kind][call]["t"] for kind in cpu for call in CALLS if "t" in cpu[kind].get(call, {}))
    lines = [f"{len(cpu)} classes: {len(sorts['right'])} right, {len(sorts['refused'])} refused, "
             f"{len(sorts['of parts'])} made of parts, {len(sorts['no attention'])} without attention. In float32 on a CPU logits differ from eager attention's by at most {worst:.1e} "
             "of their standard deviation.", "", "| right | whole sequences | padding at the left | with a cache |",
             "| --- | --- | --- | --- |"]
    lines += [f"| {row['name']}, `{row['kind']}` | " + " | ".join(cell(row, gpu.get(row["kind"]), call) for call in CALLS) + " |"
              for row in sorts["right"]]
    lines += ["", "| refused | why |", "| --- | --- |"]
    lines += [f"| {row['name']}, `{row['kind']}` | {reason(row)} |" for row in sorts["refused"]]
    lines += ["", "Made of parts, of which those for text are tested by themselves: " + ", ".join(
        row["name"] for row in sorts["of parts"]) + ".", "", "Without attention: " + ", ".join(
        row["name"] for row in sorts["no attention"]) + "."]
    with open(PAGE) as file:
        page = file.read()
    with open(PAGE, "w") as file:
        file.write(page[:page.index(MARK)] + MARK + "\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(os.environ.get("OUT", "."), "torch_families.json"))
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--merge", action="store_true", help="keeps what the file --out says of others than --only")
    parser.add_argument("--limit", type=int, default=3600, help="seconds, after which what there is is written")
    parser.add_argument("--table", nargs=2, metavar=("CPU", "GPU"))
    parser.add_argument("--run", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.table:
        return table(*options.table)
    if options.run is not None:
        return run(options.run)
    kinds = [kind for kind, (name, _) in found_classes().items() if not options.only or name in options.only]
    command = [sys.executable, os.path.abspath(__file__), "--run"]
    parts = [subprocess.Popen([*command, *kinds[i::options.jobs]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
             for i in range(min(options.jobs, len(kinds)))]
    stop = threading.Timer(options.limit, lambda: [part.kill() for part in parts])
    stop.start()
    rows = []
    for part in parts:
        rows += [json.loads(line[4:]) for line in part.stdout if line.startswith("ROW ")]
    stop.cancel()
    rows.sort(key=lambda row: kinds.index(row["kind"]))
    if options.merge and os.path.exists(options.out):
        with open(options.out) as file:
            rows += [row for row in json.load(file) if row["kind"] not in kinds]
    with open(options.out, "w") as file:
        json.dump(rows, file, indent=1)
    bad = [row["kind"] for row in rows if verdict(row) in ("WRONG", "FAILS")] + sorted({*kinds} - {row["kind"] for row in rows})
    counts = {}
    for row in rows:
        counts[verdict(row)] = counts.get(verdict(row), 0) + 1
    print(counts, "not right:", *bad)
    return len(bad)


if __name__ == "__main__":
    sys.exit(main())
