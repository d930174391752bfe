"""A Transformers model made a job has the Trainer's loss, optimizer, batches and settings."""

import builtins
import pickle
import warnings
from dataclasses import asdict, fields, replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import IterableDataset, SequentialSampler
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel, TrainingArguments

from legroom import Settings
from legroom.adapters.transformers import from_transformers, training_arguments
from legroom.errors import JobRaised, UsageError
from legroom.job import RunLength
from legroom.training.evaluation import evaluate
from legroom.training.loop import Run
from legroom.training.records import Train
from legroom.training.schedule_text import make_schedule
from legroom.training.step import TrainingStep

CPU = torch.device("cpu")
IGNORED = -100


def make_gpt():
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "n_positions": 16, "n_embd": 16, "n_layer": 1, "n_head": 2}
    return GPT2LMHeadModel(
        GPT2Config(**sizes, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0, bos_token_id=0, eos_token_id=0)
    )


def make_bert():
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    return BertForSequenceClassification(BertConfig(vocab_size=11, max_position_embeddings=16, **sizes))


def sentences(*lengths):
    """A padded batch, its labels ignored where the padding is."""
    ids = torch.randint(1, 11, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(1))
    known = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return {"input_ids": ids, "attention_mask": known.long(), "labels": ids.masked_fill(~known, IGNORED)}


def part(batch, rows):
    return {name: value[rows] for name, value in batch.items()}


def samples():
    return [{"input_ids": [1, 2, 3], "label": index % 2} for index in range(20)]


class Endless(IterableDataset):
    def __iter__(self):
        yield from iter(samples, None)


def gpt_job(**more):
    return from_transformers(make_gpt, train_data=samples, **more)


def after_update(job, batches, **settings):
    model = job.model()
    chosen = Settings(accumulation_steps=len(batches), **settings)
    TrainingStep(job, model, torch.optim.SGD(model.parameters(), 0.1), chosen, CPU)(batches)
    return nn.utils.parameters_to_vector(model.parameters()).detach()


# --- the loss --------------------------------------------------------------------------------------------------------


def test_loss_is_the_models_own():
    job, batch = gpt_job(), sentences(5, 3)
    model = job.model()
    assert torch.equal(job.loss(model, batch)[0], model(**batch).loss)


def test_causal_tokens_count_without_the_first_of_each_row():
    assert gpt_job().loss(make_gpt(), sentences(9, 4, 2))[1] == 8 + 3 + 1


def test_accumulating_unequal_sentences_equals_one_large_batch():
    job, whole = gpt_job(), sentences(9, 4, 2, 2)
    parts = [part(whole, slice(0, 1)), part(whole, slice(1, 4))]
    torch.testing.assert_close(after_update(job, parts), after_update(job, [whole]), atol=1e-6, rtol=0)


def test_one_label_a_row_counts_rows():
    job = from_transformers(make_bert, train_data=samples)
    batch = {"input_ids": torch.ones(4, 3, dtype=torch.long), "labels": torch.tensor([0, 1, 0, 1])}
    loss = job.loss(job.model(), batch)
    assert isinstance(loss, torch.Tensor)
    assert evaluate(job, job.model(), [batch], CPU, "fp32").loss > 0


class Strict(nn.Module):
    """Takes nothing it does not name."""

    def forward(self, input_ids, labels):
        return SimpleNamespace(loss=(input_ids - labels).float().mean())


def test_columns_the_model_does_not_name_are_dropped():
    batch = {"input_ids": torch.arange(2), "labels": torch.ones(2), "idx": torch.arange(2)}
    assert from_transformers(Strict, train_data=samples).loss(Strict(), batch) == -0.5
    kept = from_transformers(Strict, train_data=samples, arguments={"remove_unused_columns": False})
    with pytest.raises(TypeError, match="idx"):
        kept.loss(Strict(), batch)


def test_batch_without_labels_is_refused_with_its_keys():
    batch = sentences(5, 3)
    del batch["labels"]
    with pytest.raises(JobRaised, match=r"no loss.*input_ids, attention_mask.*'labels'"):
        gpt_job().loss(make_gpt(), batch)


def test_batch_that_is_no_mapping_is_refused():
    with pytest.raises(JobRaised, match="returned a Tensor; legroom needs a mapping"):
        gpt_job().loss(make_gpt(), torch.zeros(2))


# --- the model and its optimizer -------------------------------------------------------------------------------------


def test_pretrained_model_comes_in_training_mode(tmp_path):
    make_gpt().save_pretrained(tmp_path)
    job = from_transformers(lambda: GPT2LMHeadModel.from_pretrained(tmp_path), train_data=samples)
    assert not GPT2LMHeadModel.from_pretrained(tmp_path).training
    assert job.model().training


FIELDS = {field.name for field in fields(TrainingArguments)}


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
@pytest.mark.parametrize("name", sorted(FIELDS & {"gradient_checkpointing", "activation_checkpointing"}))
def test_checkpointing_is_turned_on_by_every_name_it_has(name):
    asked = f"is_{name}"
    assert getattr(gpt_job(arguments={name: True}).model(), asked)
    assert not getattr(gpt_job().model(), asked)


def test_weight_decay_spares_biases_and_norms():
    job = gpt_job(arguments={"weight_decay": 0.3, "adam_beta2": 0.9})
    model = job.model()
    optimizer = job.optimizer(model, 0.01)
    decayed = {id(p) for group in optimizer.param_groups if group["weight_decay"] == 0.3 for p in group["params"]}
    for name, parameter in model.named_parameters():
        assert (id(parameter) in decayed) == (not name.endswith("bias") and "ln_" not in name), name
    assert {group["lr"] for group in optimizer.param_groups} == {0.01}
    assert optimizer.defaults["betas"] == (0.9, 0.9)


def test_frozen_parameters_stay_out_of_the_optimizer():
    job = gpt_job()
    model = job.model()
    model.transformer.wte.requires_grad_(False)
    held = {id(p) for group in job.optimizer(model, 0.1).param_groups for p in group["params"]}
    assert held == {id(p) for p in model.parameters() if p.requires_grad}


@pytest.mark.parametrize("name", ["adamw_torch", "adamw_torch_fused"])
def test_trainers_adamw_updates(name):
    job = gpt_job(arguments={"optim": name})
    model = job.model()
    before = model.transformer.wte.weight.detach().clone()
    step = TrainingStep(job, model, job.optimizer(model, 0.01), job.baseline, CPU)
    step([sentences(5, 3)])
    assert not torch.equal(before, model.transformer.wte.weight)


def test_other_optimizers_are_refused_unless_given():
    with pytest.raises(UsageError, match=r"optim is 'adafactor'.*optimizer="):
        gpt_job(arguments={"optim": "adafactor"})
    job = gpt_job(arguments={"optim": "adafactor"}, optimizer=lambda model, rate: rate)
    assert job.optimizer(None, 0.5) == 0.5


def test_updates_equal_those_of_a_trainer(tmp_path):
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate")
    from transformers import Trainer, TrainingArguments

    whole = sentences(9, 4, 2, 2, 7, 3, 3, 5)
    rows = [part(whole, index) for index in range(8)]
    fields = {
        "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "learning_rate": 0.01, "weight_decay": 0.1,
        "num_train_epochs": 1, "max_grad_norm": 0.5, "lr_scheduler_type": "constant",
    }  # fmt: skip
    arguments = TrainingArguments(tmp_path, **fields, use_cpu=True, save_strategy="no", report_to=[], disable_tqdm=True)
    theirs = type("InOrder", (Trainer,), {"_get_train_sampler": lambda self, dataset: SequentialSampler(dataset)})(
        make_gpt(), arguments, train_dataset=rows
    )
    with warnings.catch_warnings(action="ignore"):
        theirs.train()
    job = from_transformers(make_gpt, train_data=lambda: rows, arguments=fields)
    model = job.model()
    step = TrainingStep(job, model, job.optimizer(model, job.baseline.learning_rate), job.baseline, CPU)
    for start in (0, 4):
        step([job.collate(rows[start : start + 2]), job.collate(rows[start + 2 : start + 4])])
    for (name, ours), (_, other) in zip(model.named_parameters(), theirs.model.named_parameters(), strict=True):
        torch.testing.assert_close(ours, other, atol=2e-5, rtol=0, msg=name)


# --- batches ---------------------------------------------------------------------------------------------------------


def test_text_beside_tokens_is_dropped_before_collating():
    rows = [{**row, "text": "a b", "tokens": ["a", "b"], "answers": {"text": "a"}} for row in samples()]
    batch = gpt_job().collate(rows[:3])
    assert set(batch) == {"input_ids", "labels"}
    assert batch["input_ids"].shape == (3, 3)


def test_text_stays_where_the_user_keeps_unused_columns():
    job = gpt_job(collate=lambda rows: rows, arguments={"remove_unused_columns": False})
    assert job.collate([{"text": "a"}]) == [{"text": "a"}]


def test_collate_has_the_name_it_has_in_a_job():
    with pytest.raises(UsageError, match=r"it is called collate, as in legroom\.Job"):
        gpt_job(collator=lambda rows: rows)


def test_collate_can_travel_to_a_new_process():
    assert pickle.loads(pickle.dumps(gpt_job().collate))(samples()[:2])["input_ids"].shape == (2, 3)


# --- arguments -------------------------------------------------------------------------------------------------------


def test_left_out_arguments_are_the_trainers_own():
    expected = Settings(batch_size=8, learning_rate=5e-5, schedule="linear", clip_norm=1.0, num_epochs=3, seed=42)
    assert gpt_job().baseline == expected


def test_settings_survive_the_way_there_and_back():
    settings = Settings(
        batch_size=3, accumulation_steps=4, learning_rate=0.1, schedule="cosine", warmup_steps=7, clip_norm=None,
        num_epochs=2, num_workers=5, prefetch_factor=6, precision="bf16", seed=9,
    )  # fmt: skip
    assert gpt_job(arguments=training_arguments(settings)).baseline == settings


def test_constant_rate_after_warm_up_has_two_names_there_and_one_here():
    settings = Settings(schedule="constant", warmup_steps=3)
    arguments = training_arguments(settings)
    assert arguments["lr_scheduler_type"] == "constant_with_warmup"
    assert gpt_job(arguments=arguments).baseline.schedule == "constant"


def test_arguments_relative_to_the_run_are_counted():
    arguments = {"per_device_train_batch_size": 3, "gradient_accumulation_steps": 2, "warmup_steps": 0.2}
    assert gpt_job(arguments=arguments).baseline.warmup_steps == 3  # 20 samples, 7 batches, 4 updates, 3 epochs
    assert gpt_job(arguments={**arguments, "max_steps": 9}).baseline.num_epochs == 3
    assert gpt_job(arguments={**arguments, "max_steps": 9}).baseline.warmup_steps == 2


@pytest.mark.parametrize(
    ("argument", "words"),
    [({"max_steps": 9}, "unless --steps 9"), ({"num_train_epochs": 2.5}, "2.5; legroom trains whole")],
)
def test_a_length_that_is_not_whole_epochs_is_told(argument, words):
    assert words in gpt_job(arguments=argument).notes[0]
    assert gpt_job().notes == ()


def test_relative_arguments_over_endless_data_ask_for_its_length():
    arguments = {"warmup_steps": 0.1}
    with pytest.raises(UsageError, match="num_samples="):
        from_transformers(make_gpt, train_data=Endless, arguments=arguments)
    job = from_transformers(make_gpt, train_data=Endless, arguments=arguments, num_samples=80)
    assert job.baseline.warmup_steps == 3


def test_real_training_arguments_do_as_well(tmp_path):
    pytest.importorskip("accelerate", reason="TrainingArguments can only be made where accelerate is installed")
    from transformers import TrainingArguments

    settings = Settings(batch_size=3, schedule="cosine", warmup_steps=7, clip_norm=0.5, seed=9)
    arguments = TrainingArguments(tmp_path, **training_arguments(settings), use_cpu=True)
    job = gpt_job(arguments=arguments)
    assert job.baseline == settings
    assert isinstance(job.optimizer(job.model(), 0.1), torch.optim.AdamW)


def test_an_object_in_place_of_what_makes_it_is_refused():
    with pytest.raises(JobRaised, match=r"from_transformers\.model is a GPT2LMHeadModel; legroom needs a function"):
        from_transformers(make_gpt(), train_data=samples)
    with pytest.raises(JobRaised, match=r"from_transformers\.train_data is a list"):
        from_transformers(make_gpt, train_data=samples())


def test_unknown_argument_names_those_close_to_it():
    with pytest.raises(UsageError, match="per_device_train_batch_size"):
        gpt_job(arguments={"per_device_batch_size": 4})


@pytest.mark.parametrize("argument", [{"label_smoothing_factor": 0.1}, {"deepspeed": "zero.json"}])
def test_what_our_step_does_not_do_is_refused(argument):
    with pytest.raises(UsageError, match=f"{next(iter(argument))} is .* does not do"):
        gpt_job(arguments=argument)


def test_missing_package_says_how_to_install(monkeypatch):
    real = builtins.__import__

    def without_transformers(name, *rest):
        if name == "transformers":
            raise ImportError("No module named 'transformers'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_transformers)
    with pytest.raises(UsageError, match="pip install transformers"):
        gpt_job()


# --- the schedule ----------------------------------------------------------------------------------------------------


SCHEDULES = {
    "linear": {"warmup_steps": 0.2},
    "constant": {"warmup_steps": 3},  # of which the Trainer takes no notice
    "constant_with_warmup": {"warmup_steps": 3},
    "cosine": {"warmup_steps": 2},
    "cosine with cycles": {"lr_scheduler_type": "cosine", "lr_scheduler_kwargs": {"num_cycles": 1.5}},
    "cosine_with_restarts": {"warmup_steps": 0.1, "lr_scheduler_kwargs": {"num_cycles": 2}},
    "cosine_with_min_lr": {"lr_scheduler_kwargs": {"min_lr_rate": 0.1}},
    "polynomial": {"warmup_steps": 2},
    "inverse_sqrt": {"warmup_steps": 4},
    "warmup_stable_decay": {"warmup_steps": 2, "lr_scheduler_kwargs": {"num_decay_steps": 4}},
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_rate_of_every_update_is_the_trainers(name, tmp_path):
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate")
    from transformers import Trainer, TrainerCallback, TrainingArguments

    theirs, ours = [], []

    class Watch(TrainerCallback):
        def on_step_begin(self, args, state, control, optimizer, **more):
            theirs.append(optimizer.param_groups[0]["lr"])

    rows = [part(sentences(4, 4, 4, 4, 4, 4, 4, 4), index) for index in range(8)]
    fields = {"lr_scheduler_type": name} | SCHEDULES[name]
    fields |= {"per_device_train_batch_size": 2, "num_train_epochs": 3, "learning_rate": 0.01}
    silent = {"use_cpu": True, "save_strategy": "no", "report_to": [], "disable_tqdm": True}
    with warnings.catch_warnings(action="ignore"):
        arguments = TrainingArguments(tmp_path, **fields, **silent)
        Trainer(make_gpt(), arguments, train_dataset=rows, callbacks=[Watch()]).train()
    job = from_transformers(make_gpt, train_data=lambda: rows, arguments=fields)

    def watched(model, rate):
        optimizer = job.optimizer(model, rate)
        optimizer.register_step_pre_hook(lambda each, *_: ours.append(each.param_groups[0]["lr"]))
        return optimizer

    request = Train(device="cpu", settings=asdict(job.baseline))
    Run(replace(job, optimizer=watched), request, rows, None).go()
    assert len(theirs) == 12
    assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-18)


@pytest.mark.parametrize("name", ["reduce_lr_on_plateau", "greedy"])
def test_a_schedule_that_waits_for_a_metric_is_refused_when_training(name):
    from transformers.trainer_utils import SchedulerType

    if name not in [kind.value for kind in SchedulerType]:
        pytest.skip(f"this version has no {name}")
    job = gpt_job(arguments={"lr_scheduler_type": name})
    with pytest.raises(UsageError, match=r"waits for a metric.*--schedule"):
        Run(job, Train(device="cpu", settings=asdict(job.baseline)), samples(), None)


def test_a_schedule_that_there_is_not_names_those_close_to_it():
    with pytest.raises(UsageError, match=r"'cosin', which there is not\. Close to it: cosine"):
        gpt_job(arguments={"lr_scheduler_type": "cosin"})


@pytest.mark.parametrize(
    ("text", "warmup"), [("polynomial:power=3", 0), ("polynomial-after-warmup", 4), ("cosine:end=0.1", 4)]
)
def test_a_schedule_with_numbers_reaches_the_trainer_as_the_same_rates(text, warmup):
    arguments = training_arguments(Settings(schedule=text, warmup_steps=warmup, learning_rate=0.1))
    job, optimizer = gpt_job(arguments=arguments), torch.optim.SGD([nn.Parameter(torch.zeros(1))], 0.1)
    scheduler = job.scheduler(optimizer, RunLength(num_steps=20, num_epochs=1, batches_per_epoch=20))
    expected = make_schedule(text, num_steps=20, steps_per_epoch=20, warmup_steps=warmup, peak=0.1)
    for step in range(20):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(expected(step))
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize(
    "settings",
    [
        Settings(schedule="polynomial:power=2", warmup_steps=5),
        Settings(schedule="multistep:epochs=3"),
        Settings(schedule="linear", warmup_steps=3, warmup_start=0.1),
    ],
)
def test_a_schedule_without_an_equal_is_not_handed_on_under_its_name(settings):
    with pytest.raises(UsageError, match=r"has no equal in TrainingArguments.*as_scheduler"):
        training_arguments(settings)


def test_an_own_schedule_stays_as_the_users_arguments_have_it():
    assert not {"lr_scheduler_type", "warmup_steps"} & set(training_arguments(Settings(schedule="own")))
