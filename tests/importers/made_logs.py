"""Logs in the shape OpenSeq2Seq prints them, made by hand, whose truth is known."""

import math

PARAMETERS = 1_234_560
CONFIG = """\
{'batch_size_per_gpu': 32,
 'data_layer': <class 'open_seq2seq.data.text2text.text2text.ParallelTextDataLayer'>,
 'data_layer_params': {'delimiter': ' ',
                       'max_length': 40,
                       'source_file': '/data/toy/train.en.pieces',
                       'src_vocab_file': '/data/toy/both.vocab',
                       'target_file': '/data/toy/train.de.pieces',
                       'tgt_vocab_file': '/data/toy/both.vocab'},
 'decoder': <class 'open_seq2seq.decoders.transformer_decoder.TransformerDecoder'>,
 'decoder_params': {'alpha': 0.6,
                    'attention_dropout': 0.1,
                    'beam_size': 4,
                    'extra_decode_length': 50,
                    'filter_size': 256,
                    'hidden_size': 64,
                    'layer_postprocess_dropout': 0.2,
                    'num_heads': 4,
                    'num_hidden_layers': 2,
                    'relu_dropout': 0.3},
 'dtype': 'mixed',
 'encoder': <class 'open_seq2seq.encoders.transformer_encoder.TransformerEncoder'>,
 'encoder_params': {'attention_dropout': 0.1,
                    'encoder_layers': 3,
                    'filter_size': 256,
                    'hidden_size': 64,
                    'layer_postprocess_dropout': 0.2,
                    'num_heads': 4,
                    'relu_dropout': 0.3},
 'eval_steps': 31,
 'loss_params': {'label_smoothing': 0.1},
 'lr_policy': <function transformer_policy at 0x7f00deadbeef>,
 'lr_policy_params': {'d_model': 64, 'learning_rate': 2.0, 'warmup_steps': 40},
 'max_steps': 500,
 'num_gpus': 1,
 'optimizer': <class 'tensorflow.contrib.opt.LazyAdamOptimizer'>,
 'optimizer_params': {'beta1': 0.9, 'beta2': 0.997, 'epsilon': 1e-09},
 'print_loss_steps': 10,
 'save_checkpoint_steps': 400,
 'use_horovod': True}
"""
SAMPLE = """\
***     Train Source[0]:     <s> ▁the ▁house </s>
***     Train Target[0]:     <s> ▁das ▁Haus </s>
***     Train Prediction[0]: <s> ▁time per step = 0:00:0.001 </s>
"""


def loss(step):
    return 2.0 + 6.0 * math.exp(-step / 50)


def valid_loss(step):
    return 2.2 + 6.0 * math.exp(-step / 50)


def seconds(step):
    return 0.5 + (step % 30) / 1000


def nccl(ranks, hosts):
    lines = []
    for rank in range(ranks):
        host = hosts[rank * len(hosts) // ranks]
        who = f"{host}:{200 + rank}:{300 + rank} [{rank % 2}] NCCL INFO"
        address = f"10.0.0.{1 + hosts.index(host)}"
        lines.append(f"{who} NET : Using interface eth1:{address}<0>\n")
        lines.append(f"{who} rank {rank} nranks {ranks}\n")
    return "".join(lines)


def head(ranks=4, hosts=("alpha", "beta"), config=CONFIG):
    text = "*** Using horovod\n*** Starting training from scratch\n*** Training config:\n"
    text += config + "*** Evaluation config:\n" + config
    for rank in (*reversed(range(ranks)), *range(ranks)):
        text += f"*** Building graph in Horovod rank: {rank}\nEncoder: layernorm_L2 train\n"
    text += "*** Trainable variables:\n***     shape: (64, 64), <dtype: 'float32_ref'>\n"
    text += f"*** Total trainable parameters: {PARAMETERS}\n"
    text += "2020-06-26 15:36:42.835076: I tensorflow/core/gpu_device.cc:1432] Found device\n"
    text += "name: Tesla V100-PCIE-16GB major: 7 minor: 0 memoryClockRate(GHz): 1.38\n"
    return text + (nccl(ranks, list(hosts)) if hosts else "")


def evaluation(step, bleu=None):
    bleu = 0.9 if step == 0 else 0.2 + step / 1000 if bleu is None else bleu
    return (
        "*** Running evaluation on a validation set:\n"
        "***     *****EVAL Source[0]:     <s> ▁a ▁dog </s>\n"
        "***     *****EVAL Prediction[0]: Validation loss: 0.0001 \n"
        f"***     Validation loss: {valid_loss(step):.4f} \n"
        f"***     Eval BLUE score: {bleu:.4f}\n"
    )


def record(step):
    return (
        f"*** Global step {step}: ***     Train loss: {loss(step):.4f} \n"
        f"time per step = 0:00:{seconds(step):.3f}\n"
    )


def log(last=120, **options):
    """A run of `last` updates, a record every 10, a validation every 31."""
    text = head(**options) + evaluation(0)
    for step in range(0, last + 1, 10):
        text += record(step) + SAMPLE
        due = -(-step // 31) * 31
        if 0 < due < step + 10 <= last:
            text += evaluation(due)
    return text


def small_log():
    """The same in few bytes, for tests that try every byte."""
    config = "{'eval_steps': 31,\n 'max_steps': 500,\n 'print_loss_steps': 10}\n"
    text = "*** Using horovod\n*** Training config:\n" + config
    text += "*** Building graph in Horovod rank: 1\n*** Building graph in Horovod rank: 0\n"
    text += f"*** Total trainable parameters: {PARAMETERS}\n" + nccl(2, ["alpha", "beta"])
    text += evaluation(0)
    for step in (0, 10, 20, 30):
        text += record(step)
    return text + SAMPLE + evaluation(31) + record(40) + record(50)
