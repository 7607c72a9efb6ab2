"""A Llama of 14 million random weights with a tokenizer of its own, made from nothing.

As a script, in an environment with numpy and gguf: ``tiny_llm.py FOLDER [--gguf FILE]``.
"""

import argparse
import json
from pathlib import Path
from typing import Any

VOCABULARY = 4096
SPECIALS = ("<s>", "</s>", "<pad>")
SHAPE: dict[str, Any] = {
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
}
CHAT = (
    "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
HOST = """\
[[accelerator]]
name = "test-host-cpu"
architecture = "x86-64"
peak = { bf16 = 0.1, fp32 = 0.1 }
memory_bandwidth = 20
memory = 16
interconnect = "none"
interconnect_bandwidth = 1
"""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def byte_letters() -> list[str]:
    """One printable character for each byte, as byte-level BPE has them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, spare = {byte: chr(byte) for byte in printable}, 256
    for byte in range(256):
        if byte not in letters:
            letters[byte] = chr(spare)
            spare += 1
    return [letters[byte] for byte in range(256)]


def tokenizer() -> tuple[list[str], list[tuple[str, str]]]:
    """Tokens in order of their ids, and merges: a space and up to three letters are one token."""
    tokens = [*SPECIALS, *byte_letters()]
    merges: list[tuple[str, str]] = []
    space = byte_letters()[32]
    layer = [space]
    while len(tokens) < VOCABULARY:
        longer = []
        for head in layer:
            for letter in _LETTERS:
                if len(tokens) == VOCABULARY:
                    break
                merges.append((head, letter))
                tokens.append(head + letter)
                longer.append(head + letter)
        layer = longer
    return tokens, merges


def write_folder(folder: Path) -> None:
    """Write config and tokenizer as Hugging Face keeps them; weights are for the engine to draw."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens, merges = tokenizer()
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 2,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "torch_dtype": "float32",
        **SHAPE,
    }
    special = [
        {
            "id": i,
            "content": word,
            "special": True,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for i, word in enumerate(SPECIALS)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    bpe = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {**byte_level, "use_regex": True},
        "post_processor": None,
        "decoder": {**byte_level, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [" ".join(pair) for pair in merges],
        },
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "model_max_length": SHAPE["max_position_embeddings"],
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT,
    }
    for name, content in (
        ("config.json", config),
        ("tokenizer.json", bpe),
        ("tokenizer_config.json", settings),
        ("generation_config.json", {"bos_token_id": 0, "eos_token_id": 1}),
    ):
        (folder / name).write_text(json.dumps(content))


def write_host(folder: Path) -> Path:
    """Write a data sheet of one core of the machine that the tests run on, roughly."""
    path = folder / "host.toml"
    path.write_text(HOST)
    return path


def write_gguf(path: Path) -> None:
    """Write the model for llama.cpp, with weights drawn here."""
    import gguf  # type: ignore[import-not-found,unused-ignore]
    import numpy as np

    tokens, merges = tokenizer()
    n_kv = SHAPE["num_key_value_heads"] * SHAPE["head_dim"]
    hidden, inner = SHAPE["hidden_size"], SHAPE["intermediate_size"]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_context_length(SHAPE["max_position_embeddings"])
    writer.add_embedding_length(hidden)
    writer.add_block_count(SHAPE["num_hidden_layers"])
    writer.add_feed_forward_length(inner)
    writer.add_head_count(SHAPE["num_attention_heads"])
    writer.add_head_count_kv(SHAPE["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(SHAPE["rms_norm_eps"])
    writer.add_rope_dimension_count(SHAPE["head_dim"])
    writer.add_rope_freq_base(SHAPE["rope_theta"])
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    kinds = gguf.TokenType
    writer.add_token_types(
        [kinds.CONTROL if i < len(SPECIALS) else kinds.NORMAL for i in range(VOCABULARY)]
    )
    writer.add_token_merges([" ".join(pair) for pair in merges])
    for add, token in (
        (writer.add_bos_token_id, 0),
        (writer.add_eos_token_id, 1),
        (writer.add_pad_token_id, 2),
    ):
        add(token)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT)
    rng = np.random.default_rng(0)

    def matrix(name: str, *shape: int) -> None:
        writer.add_tensor(name, (rng.standard_normal(shape) * 0.02).astype(np.float16))

    def norm(name: str) -> None:
        writer.add_tensor(name, np.ones(hidden, dtype=np.float32))

    matrix("token_embd.weight", VOCABULARY, hidden)
    norm("output_norm.weight")
    for layer in range(SHAPE["num_hidden_layers"]):
        block = f"blk.{layer}"
        norm(f"{block}.attn_norm.weight")
        norm(f"{block}.ffn_norm.weight")
        matrix(f"{block}.attn_q.weight", hidden, hidden)
        matrix(f"{block}.attn_k.weight", n_kv, hidden)
        matrix(f"{block}.attn_v.weight", n_kv, hidden)
        matrix(f"{block}.attn_output.weight", hidden, hidden)
        matrix(f"{block}.ffn_gate.weight", inner, hidden)
        matrix(f"{block}.ffn_up.weight", inner, hidden)
        matrix(f"{block}.ffn_down.weight", hidden, inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Write what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gguf", type=Path)
    arguments = parser.parse_args()
    write_folder(arguments.folder)
    if arguments.gguf:
        write_gguf(arguments.gguf)


if __name__ == "__main__":
    main()
