"""watch.py - what of PyTorch's state decides how a call goes: who watches operators, whether bits have to be the same."""
import torch

_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_transform = torch._C._functorch.peek_interpreter_stack
_is_tracing = torch._C._is_tracing
is_batched = torch._C._functorch.is_legacy_batchedtensor  # of torch.autograd.grad(is_grads_batched=True)
_forward_mode = torch.autograd.forward_ad

is_deterministic = torch._C._get_deterministic_algorithms  # what torch.use_deterministic_algorithms() set
only_warns = torch._C._get_deterministic_algorithms_warn_only


def constant(function):
    """What torch.compile calls when it traces, and traces nothing of: torch.compiler.assume_constant_result, which imports all
    that traces, before anybody has asked for it."""
    function._dynamo_marked_constant = True
    return function


def outside(reason):
    """What torch.compile does not trace into, and says so where it has to (fullgraph=True): torch.compiler.disable, which imports
    all that traces."""
    def mark(function):
        function._torchdynamo_disable, function._torchdynamo_disable_msg = True, reason
        return function
    return mark


def is_eager():
    """Whether a call may go straight to the driver: nothing that PyTorch's dispatcher would tell is watching."""
    return not (_dispatch_modes() or _function_transform() is not None or _is_tracing()
                or _forward_mode._current_level >= 0)
