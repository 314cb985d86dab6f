"""Reads a config.json as a decoder's shape; what it does not know, it refuses by name."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any, cast

from ....errors import InputError
from . import mixture, precision, switched, vision, windows
from .families import FAMILIES, NOT_MODELLED, Family
from .fields import PARTS, PARTS_FIELDS, empty
from .judging import Judge
from .kinds import wrong_kinds

__all__ = ["ALIASES", "read_shape"]

ALIASES: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "n_embed", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "kv_n_heads"),
    "head_dim": ("head_dim", "kv_channels"),
    "ffn": ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"),
    "vocab": ("vocab_size", "padded_vocab_size"),
}
"""Our field -> what config.json files call it."""
LENGTHS = (
    "max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "model_max_length", "seq_length",
    "n_ctx",
)  # fmt: skip
"""What the longest sequence is called; the first that is there counts."""
INNER = ("text_config", "llm_config", "language_config")
"""Where models of several parts keep the one on text."""
NESTED = ("attn_config", "ffn_config")
"""Where MPT and DBRX keep some of their fields."""
MOST = 8
"""Fields named in one error."""


def read_shape(config: Mapping[str, Any], where: str, ignore: Collection[str] = ()) -> dict[str, Any]:
    """Fields of `DecoderSpec` from those of a config.json, its name left out.

    Parameters
    ----------
    config : mapping
        The file's fields.
    where : str
        Name of the file in error messages.
    ignore : collection of str
        Fields that are taken as if they were not there.

    Raises
    ------
    InputError
        If fields are missing, of the wrong kind, or change what is planned in a way that is not modelled; all named at
        once, in one line.
    """
    there = {*config, *_text(config)}
    absent = [field for field in ignore if field not in there]
    if absent:
        raise InputError(f"{where}: ignore: there is no field {absent[0]!r} in config.json")
    return _Reader({k: v for k, v in config.items() if k not in ignore}, where, frozenset(ignore)).shape()


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The text part of a multi-modal model's config; empty for a model of text alone."""
    found: Any = next((config[name] for name in INNER if isinstance(config.get(name), Mapping)), None)
    return {} if found is None else found


class _Reader:
    """One file: its fields, those that were read, and what is wrong with it."""

    def __init__(self, config: dict[str, Any], where: str, ignore: frozenset[str]) -> None:
        self.config, self.where, self.ignore = config, where, ignore
        self.wrong: list[str] = []
        self.judge = Judge(self.wrong)
        self.read: set[str] = set()

    def shape(self) -> dict[str, Any]:
        """See `read_shape`."""
        outside: dict[str, Any] = {}
        seen, whole = self._sees(), self.config
        inner = _text(self.config)
        for kind in (whole.get("model_type"), inner.get("model_type")):
            if isinstance(kind, str) and kind in NOT_MODELLED:  # what its other fields hold is then no news
                raise InputError(
                    f"{self.where}: model_type: {kind!r}: {NOT_MODELLED[kind]}; not modelled, give another model"
                )
        if inner:
            outside = {k: v for k, v in self.config.items() if k not in INNER}
            self._outside(outside, inner)
            self.config = {k: v for k, v in inner.items() if k not in self.ignore}
        self._unnest()
        tied = {k: v for k, v in outside.items() if k == "tie_word_embeddings" and k not in self.config}
        wrong = wrong_kinds(self.config | tied)
        if wrong:
            raise InputError(f"{self.where}: {'; '.join(wrong[:MOST])}")
        family = self._family()
        said = {field: self._number(*keys) for field, keys in ALIASES.items()}
        said["max_positions"] = next((n for name in LENGTHS if (n := self._number(name)) is not None), None)
        self.read.update(LENGTHS)
        found = self._whole(said, family, outside)
        if seen:
            found["tower"], wrong = vision.read_tower(whole["model_type"], seen, whole, said["hidden"] or 1)
            self.wrong += wrong
        for field in [name for name in self.config if name not in self.read]:
            self.judge(field, self.config[field])
        self.judge.sum_up()
        if self.wrong:
            more = f"; and {len(self.wrong) - MOST} more" if len(self.wrong) > MOST else ""
            raise InputError(f"{self.where}: {'; '.join(self.wrong[:MOST])}{more}")
        return found

    def _sees(self) -> Mapping[str, Any]:
        """What ``vision_config`` holds, where towers of this kind of model are known; else nothing."""
        said: Any = self.config.get("vision_config")
        if not isinstance(said, Mapping) or not said or self.config.get("model_type") not in vision.TOWERS:
            return {}
        self.read.update(("vision_config", *vision.BESIDE))
        return cast("Mapping[str, Any]", said)

    def _outside(self, outside: Mapping[str, Any], inner: Mapping[str, Any]) -> None:
        """Judge the fields beside the text part; those about other parts are left out together with these parts."""
        parts = any(PARTS.match(field) for field in (*outside, *self.ignore))
        for field, value in outside.items():
            about = parts and PARTS_FIELDS.search(field) and not isinstance(value, Mapping)
            repeated = field in inner and inner[field] == value
            if field == "tie_word_embeddings":
                if field in inner and not repeated:
                    self.wrong.append(f"{field}: {value!r:.60}, and {inner[field]!r:.60} in the part on text; say one")
            elif not about and not repeated and field not in precision.FIELDS and field not in self.read:
                self.judge(field, value)

    def _unnest(self) -> None:
        for nest in NESTED:
            inner: Any = self.config.get(nest)
            if isinstance(inner, Mapping):
                fields = cast("Mapping[str, Any]", inner)
                self.config = {k: v for k, v in fields.items() if k != "hidden_size"} | self.config
                self.read.add(nest)

    def _family(self) -> Family:
        kind: Any = self.config.get("model_type")
        self.read.add("model_type")
        if kind is not None and not isinstance(kind, str):
            self.wrong.append(f"model_type: expected a name, as llama, qwen3 or mixtral (got {kind!r:.60})")
        elif kind in FAMILIES:
            return FAMILIES[kind]
        elif kind is None:
            self.wrong.append("model_type: missing; it says whether the feed-forward block has a gate")
        else:
            near = difflib.get_close_matches(str(kind).lower(), FAMILIES, n=1)
            hint = f", perhaps {near[0]}" if near else ", as llama, qwen3 or mixtral"
            self.wrong.append(
                f"model_type: {kind!r} is not known here; where its layers are those of a model that is, write that "
                f"one's model_type{hint}"
            )
        self.judge.known = False
        return Family(experts="ffn")

    def _number(self, *names: str) -> int | None:
        """The whole number that the first present one of several fields holds; fields that contradict are an error."""
        self.read.update(names)
        found: dict[str, int] = {}
        for name in names:
            value = self.config.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                more = "; layers that differ from each other are not modelled" if isinstance(value, list) else ""
                self.wrong.append(f"{name}: expected an integer >= 1 (got {value!r:.60}){more}")
                return None
            found[name] = value
        if names == ALIASES["vocab"] and "padded_vocab_size" in found:
            return found["padded_vocab_size"]
        if len(set(found.values())) > 1:
            self.wrong.append(" and ".join(f"{k} {v}" for k, v in found.items()) + ": the same thing, said twice")
        return next(iter(found.values()), None)

    def _whole(self, said: dict[str, Any], family: Family, outside: Mapping[str, Any]) -> dict[str, Any]:
        """Read all fields of the shape; what is missing is noted in `wrong`."""
        kind = self.config.get("model_type")
        self._width(said, family)
        missing = [ALIASES[f][0] for f in ("layers", "hidden", "heads", "ffn", "vocab") if said[f] is None]
        if kind in switched.FAMILIES:
            said["kv_heads"], read, wrong = switched.kv_heads(self.config, said["heads"], said["kv_heads"])
            self.read.update(read)
            self.wrong += wrong
        if family.grouped and said["kv_heads"] is None:
            missing.append("num_key_value_heads")
        if family.learned and said["max_positions"] is None:  # the table of positions has as many rows
            missing.append(LENGTHS[0])
        said["max_positions"] = said["max_positions"] or 2048
        missing += [name for name in family.needs if name not in self.config]
        named = {key for keys in ALIASES.values() for key in keys}
        missing = [name for name in missing if not any(w.split(":")[0] in named for w in self.wrong)]
        if missing:
            self.wrong.append(f"fields missing in config.json: {', '.join(missing)}")
        said["kv_heads"] = said["kv_heads"] or said["heads"]
        if not said["head_dim"] and said["hidden"] and said["heads"]:
            said["head_dim"] = family.head_dim or self._divided(said["hidden"], said["heads"])
        latent = self._latent() if family.latent else {}
        experts = self._experts(said["layers"] or 1, said["ffn"], family)
        self._window(said, family, said["layers"] or 1)
        tied = self.config.get("tie_word_embeddings", outside.get("tie_word_embeddings", family.tied))
        self.read.add("tie_word_embeddings")
        kept = {"gated": family.gated, "biases": family.biases, "learned_positions": family.learned}
        source = "config.json" + (f" without {', '.join(sorted(self.ignore))}" if self.ignore else "")
        precisions = self._precisions(outside)
        stated = zip(("weights", "KV cache"), precisions, strict=True)
        source += "".join(f"; {what} in {name}" for what, name in stated if name)
        kept |= {"weights_precision": precisions[0], "kv_precision": precisions[1], "source": source}
        further = self._further()
        return {**said, **kept, "tied": bool(tied), **experts, **latent, **({"mtp_layers": further} if further else {})}

    def _further(self) -> int:
        """Layers that predict further tokens."""
        name = "num_nextn_predict_layers"
        self.read.add(name)
        said: Any = self.config.get(name)
        if said is None or (isinstance(said, int) and not isinstance(said, bool) and said >= 0):
            return said or 0
        self.wrong.append(f"{name}: expected an integer >= 0 (got {said!r:.60})")
        return 0

    def _precisions(self, outside: Mapping[str, Any]) -> tuple[str, str]:
        """Precisions of the weights and of the KV cache, as the file states them."""
        found, read, wrong = precision.read_precisions({**outside, **self.config})
        self.read.update(read)
        self.wrong += wrong
        return found

    def _latent(self) -> dict[str, int]:
        """Sizes of latent attention."""
        names = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank")
        nope, rope, value, rank = (self._number(name) for name in names)
        q_rank = self._number("q_lora_rank")
        self.read.update(("use_mla", "qk_head_dim"))
        if nope is None or rope is None or value is None or rank is None:
            missing = [name for name in names if self.config.get(name) is None]
            if missing:
                self.wrong.append(f"fields missing in config.json: {', '.join(missing)} (latent attention)")
            return {}
        return {
            "head_dim": nope + rope, "kv_rank": rank, "rope_dim": rope, "value_dim": value, "q_rank": q_rank or 0,
        }  # fmt: skip

    def _width(self, said: dict[str, Any], family: Family) -> None:
        """The feed-forward block's width, for families in which it is not simply a field's value."""
        kind = self.config.get("model_type")
        if kind == "qwen" and said["ffn"]:
            said["ffn"] //= 2  # the first Qwen's code halves it: gate and up together
        if said["ffn"] is None and said["hidden"] and family.four:
            said["ffn"] = (self._number("expansion_ratio") or 4) * said["hidden"]
        if said["ffn"] is None and family.experts == "own":  # `_experts` sees that all layers have experts
            said["ffn"] = self._number("moe_intermediate_size")
        project: Any = self.config.get("word_embed_proj_dim")
        self.read.add("word_embed_proj_dim")
        if not empty(project) and project != said["hidden"]:
            self.wrong.append(f"word_embed_proj_dim: {project!r}: embeddings of another width are not modelled")

    def _divided(self, hidden: int, heads: int) -> int:
        if hidden % heads:
            self.wrong.append(f"hidden_size {hidden} is no multiple of the {heads} heads; give head_dim")
        return max(1, hidden // heads)

    def _experts(self, layers: int, ffn: int | None, family: Family) -> dict[str, int]:
        self.read.update(mixture.FIELDS)
        if not self.judge.known and all(self.config.get(name) is None for name in mixture.EXPERTS):
            return {}
        try:
            found = mixture.expert_fields(self.config, self.where, layers, ffn, family)
        except InputError as error:
            self.wrong.append(str(error).removeprefix(f"{self.where}: "))
            return {}
        if found and not family.experts:
            name, kind = next(n for n in mixture.EXPERTS if self.config.get(n)), self.config.get("model_type")
            self.wrong.append(f"{name}: {self.config[name]!r}: experts of model_type {kind!r} are not known here")
            return {}
        if found and not 1 <= found["experts_per_token"] <= found["experts"]:
            self.wrong.append(f"num_experts_per_tok: {found['experts_per_token']} of {found['experts']} experts")
            return {}
        if family.experts == "own" and "intermediate_size" not in self.config and found.get("dense_layers"):
            self.wrong.append(f"intermediate_size: missing; {found['dense_layers']} layers have no experts")
        return found

    def _window(self, said: dict[str, Any], family: Family, layers: int) -> None:
        self.read.update((*windows.FIELDS, *windows.PATTERNS))
        wrong = windows.other_layers(self.config, layers)
        said["window"], name = windows.window_of(self.config, family, layers, self.ignore)
        chunks = name == windows.SIZES[2] or self.config.get("model_type") == "llama4_text"
        said["chunked"] = bool(said["window"]) and chunks
        full = windows.full_layers(self.config, family, layers) if said["window"] and not said["chunked"] else 0
        said["window"], said["full_layers"] = (said["window"], full) if full < layers else (0, 0)
        if said["chunked"] and said["window"] < said["max_positions"]:
            wrong = [*wrong, windows.too_short(self.config, name, said["window"], said["max_positions"])]
        self.wrong += wrong
