"""As much of Hugging Face's transformers as tilec.torch.transformers uses."""
__version__ = "5"


class AttentionInterface:
    functions = {}

    @classmethod
    def register(cls, name, function):
        cls.functions[name] = function


class AttentionMaskInterface(AttentionInterface):
    functions = {}
