"""launchers_torch.py - what surrounds a launch through tilec_torch, with real PyTorch on a GPU of sm_90.

    python3 tests/gpu/launchers_torch.py --forward fwd.ptx --backward bwd.ptx [CHECK..]

The files are examples/attention.tile and attention_bwd.tile compiled with -D D=64 -D CAUSAL=true: their
programs differ in length, so blocks draw them from a counter.  Each check is a process of its own, as most
are about what comes first in one; all run at the same time.
"""

import argparse
import os
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "examples", "python"), HERE]  # the second: copied beside it
import torch  # noqa: E402
import tilec_torch  # noqa: E402


def operands(seed=0, rows=200, requires_grad=True, device="cuda"):
    torch.manual_seed(seed)
    return [torch.randn(2, rows, 4, 64, device=device).bfloat16().requires_grad_(requires_grad) for _ in range(3)]


def exact(q, k, v):
    """Causal attention in float64."""
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


def near(have, want, allowed=0.02):
    error = (have.double() - want.double()).abs().max().item()
    assert error <= allowed * max(1.0, want.abs().max().item()), f"error {error}"


def gradients(files, operands_, grad):
    out = tilec_torch.attention(*operands_, *files, softcap=0.0)
    return [out, *torch.autograd.grad(out, operands_, grad)]


def check_gradients(files, seed=0):
    these = operands(seed)
    grad = torch.randn(2, 200, 4, 64, device="cuda").bfloat16()
    want = exact(*these)
    want = [want, *torch.autograd.grad(want, these, grad.double())]
    for have, wanted in zip(gradients(files, these, grad), want):
        near(have, wanted)


def backward_first(files):
    """The first backward pass of a process, in a thread of autograd's that has no context."""
    check_gradients(files)


def backward_of_its_own(files):
    """A backward pass that is the first thing that this process launches through the driver."""
    these = operands()
    grad = torch.ones(2, 200, 4, 64, device="cuda").bfloat16()
    out = exact(*these)
    o, l = out.bfloat16().contiguous(), torch.zeros(2, 4, 200, device="cuda")
    given = dict(Q=these[0].detach(), K=these[1].detach(), V=these[2].detach(), O=o, L=l, dO=grad)

    class Late(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, upstream):
            module = files[1].select(*tilec_torch.BACKWARD)
            known = {t["name"] for kernel in module.kernels for t in kernel.meta["tensors"]}
            module.launch(**{n: t for n, t in given.items() if n in known}, scale=0.125, softcap=0.0)
            return upstream

    Late.apply(these[0]).sum().backward()
    torch.cuda.synchronize()


def in_a_thread(files):
    failed = []

    def work():
        try:
            check_gradients(files)
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failed, failed[0]
    check_gradients(files, 1)


def refused(text, function):
    try:
        function()
    except tilec_torch.TilecError as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"not refused: {text}")


def wrong_tensors(files):
    q, k, v = operands(requires_grad=False)
    attend = lambda *tensors: tilec_torch.attention(*tensors, *files, softcap=0.0)
    refused("K is on the device 'cpu'", lambda: attend(q, k.cpu(), v))
    refused("Q is on the device 'cpu'", lambda: attend(*(x.cpu() for x in (q, k, v))))
    refused("V is on the device 'meta'", lambda: attend(q, k, v.to("meta")))
    refused("Q must be bf16", lambda: attend(q.half(), k, v))
    refused("must be 64, not 32", lambda: attend(q[..., :32], k, v))
    refused("must have 4 dimensions", lambda: attend(q[0], k, v))
    refused("but Sk is 150", lambda: attend(q, k[:, :150], v))
    refused("must be contiguous", lambda: attend(q.transpose(2, 3).contiguous().transpose(2, 3), k, v))
    odd = torch.zeros(q.numel() + 1, dtype=q.dtype, device="cuda")[1:].view(q.shape)
    refused("the address of Q must be a multiple", lambda: attend(odd, k, v))
    check_gradients(files)  # the context is as good as before


def compiled(files):
    """torch.compile with CUDA graphs around attention(), forward and backward, against the same uncompiled."""

    def model(x, w):
        q, k, v = (x @ w).view(2, 200, 3, 4, 64).unbind(2)
        out = tilec_torch.attention(q, k, v, *files, softcap=0.0)
        return (out.reshape(2, 200, 256).float() ** 2).mean()

    fast = torch.compile(model, mode="reduce-overhead")
    torch.manual_seed(0)
    w = (torch.randn(256, 768, device="cuda") / 16).bfloat16().requires_grad_()
    for i in range(8):
        x = torch.randn(2, 200, 256, device="cuda").bfloat16()
        results = []
        for f in (model, fast):
            torch.compiler.cudagraph_mark_step_begin()
            loss = f(x, w)
            (grad,) = torch.autograd.grad(loss, w)
            results.append((loss.item(), grad.clone()))
        assert abs(results[0][0] - results[1][0]) <= 1e-2 * abs(results[0][0]), (i, results[0][0], results[1][0])
        near(results[1][1].float(), results[0][1].float(), 0.05 * results[0][1].abs().max().item())


def whole_graph(files):
    """The launch as an operator of PyTorch's: inside of the CUDA graphs that torch.compile makes."""

    @torch.library.custom_op("tilec::attend", mutates_args=())
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return files[0].launch(Q=q, K=k, V=v, scale=0.125, softcap=0.0)["O"]

    @attend.register_fake
    def _(q, k, v):
        return torch.empty_like(q)

    def model(x, w):
        q, k, v = (x @ w).view(2, 200, 3, 4, 64).unbind(2)
        return attend(q.contiguous(), k.contiguous(), v.contiguous()).reshape(2, 200, 256) @ w[:, :256]

    fast = torch.compile(model, mode="reduce-overhead", fullgraph=True)
    torch.manual_seed(0)
    w = (torch.randn(256, 768, device="cuda") / 16).bfloat16()
    with torch.no_grad():
        for i in range(10):
            x = torch.randn(2, 200, 256, device="cuda").bfloat16()
            torch.compiler.cudagraph_mark_step_begin()
            have = fast(x, w).clone()
            near(have, model(x, w))


def captured(files):
    """A graph whose capture is where the module is used first."""
    q, k, v = operands(requires_grad=False)
    out, graph = torch.zeros_like(q), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out.copy_(files[0].launch(Q=q, K=k, V=v, scale=0.125, softcap=0.0)["O"])
    for seed in range(4):
        for x, new in zip((q, k, v), operands(seed, requires_grad=False)):
            x.copy_(new)
        graph.replay()
        near(out, exact(q, k, v))


def second_derivatives(files):
    these = operands()
    plain = gradients(files, these, torch.ones_like(these[0]))[1:]
    out = tilec_torch.attention(*these, *files, softcap=0.0)
    grads = torch.autograd.grad(out, these, torch.ones_like(out), create_graph=True)
    for have, want in zip(grads, plain):
        near(have, want)
    refused("cannot be differentiated", lambda: grads[0].float().square().sum().backward())
    refused("cannot be differentiated", lambda: torch.autograd.grad(grads[1].float().sum(), these[2]))


CHECKS = [backward_first, backward_of_its_own, in_a_thread, wrong_tensors, compiled, whole_graph, captured,
          second_derivatives]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--forward", required=True)
    parser.add_argument("--backward", required=True)
    parser.add_argument("--here", action="store_true", help="the checks in this process")
    parser.add_argument("checks", nargs="*", metavar="CHECK")
    options = parser.parse_args()
    chosen = [check for check in CHECKS if not options.checks or check.__name__ in options.checks]
    if options.here:
        for check in chosen:
            check([tilec_torch.load(options.forward), tilec_torch.load(options.backward)])
        return 0
    command = [sys.executable, __file__, "--forward", options.forward, "--backward", options.backward, "--here"]
    runs = [(check, subprocess.Popen([*command, check.__name__], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     text=True)) for check in chosen]
    bad = 0
    for check, process in runs:
        said, _ = process.communicate()
        bad += process.returncode != 0
        print(f"{check.__name__}: {'right' if process.returncode == 0 else 'WRONG'}", flush=True)
        if process.returncode != 0:
            print(said[-2500:], flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
