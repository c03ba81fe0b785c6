"""As much of Hugging Face's transformers as tilec.torch.transformers uses."""
__version__ = "5"


class AttentionInterface:
    functions = {}

    @classmethod
    def register(cls, name, function):
        cls.functions[name] = function


class AttentionMaskInterface(AttentionInterface):
    functions = {}


class PreTrainedModel:
    config = None

    def get_correct_attn_implementation(self, requested_attention, is_init_check=False):
        return requested_attention
