"""transformers_models.py - which models of transformers give their attention to an AttentionInterface.

A model that has attention code of its own takes any attn_implementation: some look it up in a table of their own
(KeyError), some run without the mask that they asked for in its name.  So a model is asked when it is made, and when its
implementation is set: by what the classes of its file are, whose functions name what they call.
"""
import functools
import sys
import types

import torch
import transformers

from tilec.torch.error import Error

NAME = "tilec"
INTERFACE = "ALL_ATTENTION_FUNCTIONS"
_TABLE = "_ATTENTION_CLASSES"


class NotATensor(Error, AttributeError):
    """What a Mask says to who takes it for a tensor; an AttributeError for hasattr()."""


def refuse(what, kind=Error, other="sdpa"):
    raise kind(f'attn_implementation="{NAME}": {what}; take another one for this, such as "{other}"')


def _names(code):
    """Names that a function uses, with the functions in it."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _asks(kind):
    """Whether a module's class, or one that it comes from, names the interface."""
    for base in kind.__mro__:
        for function in vars(base).values():
            function = getattr(function, "__wrapped__", function)
            if isinstance(function, types.FunctionType) and INTERFACE in _names(function.__code__):
                return True
    return False


@functools.lru_cache(maxsize=None)
def own_attention(kind):
    """What a model's class, or one that it comes from, has in place of the interface; None where that is not seen."""
    for base in kind.__mro__:
        file = sys.modules.get(base.__module__)
        if file is None or not issubclass(base, transformers.PreTrainedModel) or base is transformers.PreTrainedModel:
            continue
        tables = [name for name, value in vars(file).items()
                  if name.endswith(_TABLE) and isinstance(value, dict) and NAME not in value]
        if tables:
            return f"takes its attention from a table of its own ({tables[0]})"
        layers = [value for name, value in vars(file).items()
                  if isinstance(value, type) and issubclass(value, torch.nn.Module) and value.__module__ == base.__module__
                  and "Attention" in name and not issubclass(value, transformers.PreTrainedModel)]
        if layers and not any(map(_asks, layers)):
            return f"has attention code of its own ({layers[0].__name__})"
    return None


def check_model(model):
    own = own_attention(type(model))
    if own is None:
        return
    instead = ""
    if "text_config" in (getattr(model.config, "sub_configs", None) or ()):
        instead = f'; to a part of it give it as in attn_implementation={{"text_config": "{NAME}"}}'
    refuse(f"{type(model).__name__} {own}, which does not go through transformers' AttentionInterface{instead}", other="eager")


def watch():
    """Has each model asked when it is made, and when its implementation is set."""
    original = transformers.PreTrainedModel.get_correct_attn_implementation
    if getattr(original, "asks_tilec", False):
        return

    @functools.wraps(original)
    def get_correct_attn_implementation(self, *arguments, **named):
        found = original(self, *arguments, **named)
        if found == NAME:
            check_model(self)
        return found

    get_correct_attn_implementation.asks_tilec = True
    transformers.PreTrainedModel.get_correct_attn_implementation = get_correct_attn_implementation
