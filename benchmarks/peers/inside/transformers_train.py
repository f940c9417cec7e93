"""Trains a Marian model with transformers' Seq2SeqTrainer, with each update counted."""

import json
import sys
from pathlib import Path
from typing import Any

import journal
import torch
from transformers import (
    MarianConfig,
    MarianMTModel,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

PAD, UNKNOWN, END = 0, 1, 3
IGNORED = -100


class Pairs(torch.utils.data.Dataset):
    """Pairs of pieces as ids; each side ends with the end of sentence."""

    def __init__(self, stem: Any, ids: Any) -> None:
        sides = []
        for language in ("en", "de"):
            lines = Path(f"{stem}.{language}").read_text("utf-8").split("\n")[:-1]
            sides.append(
                [[ids.get(p, UNKNOWN) for p in line.split()] + [END] for line in lines]
            )
        self.pairs = [
            {"input_ids": source, "labels": target}
            for source, target in zip(*sides, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: Any) -> Any:
        return self.pairs[index]


def padded(rows: Any, value: Any) -> Any:
    """Return the rows as one tensor, filled up with `value`."""
    rows = [torch.tensor(row) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=value)


def collate(pairs: Any) -> Any:
    """Make a batch: as long as its longest sentences."""
    source = padded([pair["input_ids"] for pair in pairs], PAD)
    labels = padded([pair["labels"] for pair in pairs], IGNORED)
    decoder = padded([[PAD, *pair["labels"][:-1]] for pair in pairs], PAD)
    return {
        "input_ids": source,
        "attention_mask": source.ne(PAD).long(),
        "decoder_input_ids": decoder,
        "labels": labels,
    }


class CountingTrainer(Seq2SeqTrainer):
    """Counts each batch when its passes are done; the update follows by milliseconds."""

    def training_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        labels = inputs["labels"]  # which the next line takes out
        loss = super().training_step(model, inputs, *args, **kwargs)
        journal.count(labels.ne(IGNORED).sum(), inputs["attention_mask"].sum(), labels.shape[0])
        return loss


def model_of(task: Any, vocabulary: Any) -> Any:
    """Return an untrained model of the task's sizes."""
    sizes, dropout = task["model"], task["dropout"]
    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=sizes["width"],
        encoder_layers=sizes["encoder_layers"],
        decoder_layers=sizes["decoder_layers"],
        encoder_attention_heads=sizes["heads"],
        decoder_attention_heads=sizes["heads"],
        encoder_ffn_dim=sizes["inner"],
        decoder_ffn_dim=sizes["inner"],
        max_position_embeddings=task["longest"] + 2,
        dropout=dropout,
        attention_dropout=dropout,
        activation_dropout=dropout,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=END,
        forced_eos_token_id=END,
        decoder_start_token_id=PAD,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
    )
    return MarianMTModel(config)


def arguments_of(task: Any) -> Any:
    """Return the trainer's settings."""
    every = task["save_every"]
    return Seq2SeqTrainingArguments(
        output_dir=task["output"],
        use_cpu=True,
        seed=task["seed"],
        per_device_train_batch_size=task["sentences"],
        train_sampling_strategy="group_by_length",
        max_steps=1_000_000,
        learning_rate=task["rate"],
        lr_scheduler_type="inverse_sqrt",
        warmup_steps=task["warmup"],
        adam_beta1=task["betas"][0],
        adam_beta2=task["betas"][1],
        adam_epsilon=task["epsilon"],
        weight_decay=0.0,
        max_grad_norm=0.0,
        label_smoothing_factor=task["smoothing"],
        logging_strategy="no",
        save_strategy="steps" if every else "no",
        save_steps=every or 1_000_000,
        save_total_limit=1,
        report_to="none",
        disable_tqdm=True,
    )


def main() -> None:
    """Train until somebody ends the process."""
    task = json.loads(Path(sys.argv[1]).read_text())
    pieces = Path(task["pieces"]).read_text("utf-8").split("\n")[:-1]
    ids = {piece: i for i, piece in enumerate(pieces)}
    torch.manual_seed(task["seed"])
    trainer = CountingTrainer(
        model=model_of(task, len(pieces)),
        args=arguments_of(task),
        train_dataset=Pairs(task["train"], ids),
        data_collator=collate,
    )
    trainer.train()


if __name__ == "__main__":
    main()
