"""The arguments that masks are asked for with."""


def sdpa_mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, **options):
    """Never called."""
