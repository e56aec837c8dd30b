"""Operators as Inductor runs them: in loops, which it fuses, or by a library."""

from __future__ import annotations

import torch
from torch import fx

#: Operators beside those that are tagged pointwise that Inductor has loops for, by name.
_LOOPS = frozenset(
    """
    _softmax _softmax_backward_data _log_softmax _log_softmax_backward_data _to_copy _unsafe_index amax amin any all
    argmax argmin arange bernoulli cat clone constant_pad_nd copy convert_element_type cumsum embedding empty_like flip
    full full_like gather index index_select inductor_lookup_seed inductor_random inductor_randint iota max mean min
    native_batch_norm_backward native_group_norm native_layer_norm new_zeros nll_loss_forward nll_loss_backward ones_like
    prod rand rand_like randn_like repeat scalar_tensor select_scatter settled slice_scatter std sum upsample_nearest2d var
    var_mean where zeros zeros_like fma _low_memory_max_pool_with_offsets _low_memory_max_pool_offsets_to_indices
    avg_pool2d avg_pool2d_backward
    """.split()
)

#: Those of them that compute each element from one of the input, or from none.
_MOVES = frozenset(
    """
    _to_copy arange clone constant_pad_nd copy convert_element_type empty_like embedding flip full full_like gather
    index index_select iota new_zeros ones_like repeat scalar_tensor settled where zeros zeros_like _unsafe_index fma
    """.split()
)

#: A value that is read more than once and depends on more tensors than this is written by
#: Inductor (its realize_reads_threshold); others are computed wherever they are read.
INLINED_READS = 4

#: Operators that read a few elements for each of the result, which Inductor computes where they are read.
WINDOWS = frozenset("_low_memory_max_pool_with_offsets avg_pool2d avg_pool2d_backward upsample_nearest2d".split())

#: What a processor takes long to compute: Inductor writes it if it is read more than once.
HEAVY = frozenset("exp log log10 log1p log2 sigmoid tanh".split())

#: Operators that read some rows of their first argument.
ROWS = frozenset(["embedding", "index", "_unsafe_index", "gather", "index_select"])

#: Operators that Inductor lets write into a copy of their first argument, which it computes there.
INTO = frozenset("index_put _unsafe_index_put _unsafe_masked_index_put_accumulate scatter scatter_add scatter_reduce".split())


def name(node: fx.Node) -> str:
    """Return the name of a node's operator, without namespace and overload; "" of what is none."""
    packet = getattr(node.target, "_overloadpacket", None)
    return getattr(packet, "__name__", "")


def loops(node: fx.Node) -> bool:
    """Whether Inductor makes loops of an operator, which it fuses, and calls no library."""
    return torch.Tag.pointwise in getattr(node.target, "tags", ()) or name(node) in _LOOPS


def reduces(node: fx.Node) -> bool:
    """Whether the result of a loop has fewer elements than what it reads, or needs another loop first."""
    return torch.Tag.pointwise not in getattr(node.target, "tags", ()) and name(node) not in _MOVES
