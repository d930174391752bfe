"""The plan as lines of code or arguments, for those who train without legroom: made from its numbers alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from legroom.environments import EXPANDABLE, environment_text
from legroom.questions.base import Recommendation
from legroom.questions.plan.answer import PlanAnswer

NAMES = ("pytorch", "lightning", "transformers", "accelerate")
PRECISIONS = {
    "lightning": {"fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"},
    "accelerate": {"fp32": "no", "bf16": "bf16", "fp16": "fp16"},
}
"""What each calls the number formats."""
PASSES = (
    "from accelerate.utils import GradientAccumulationPlugin\n",
    "gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps={passes}, sync_with_dataloader=False), ",
)
"""Import and argument of Accelerator: given their number alone, it ends an update with each epoch, however few passes
that has by then."""
FACTOR = '''\
def factor(step):
    """Of the rate: a climb over {warmup} updates, then constant, then {cooldown} updates down to 0."""
    cooled = min(1.0, max(0.0, (step - {start}) / {fall}))
    return {climb} * (1 - cooled{power})
'''
CLIMB = '''\
def factor(step):
    """Of the rate: a climb over {warmup} updates, then constant."""
    return min(1.0, step / {warmup})
'''
SCHEDULER = "scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)\n"


def with_code(answer: PlanAnswer, optimizer: str) -> PlanAnswer:
    """The plan with its lines; optimizer: the class of the job's own, empty where nobody knows it."""
    words = {"variables": variables_text(answer.recommendations), "optimizer": optimizer}
    return replace(answer, code=code_of(answer.settings, answer.num_steps, answer.cooldown_steps, **words))


def variables_text(recommendations: Sequence[Recommendation]) -> str:
    """The variables of the environment that a plan names, as a shell sets them; its allocator is one of them."""
    found = {item.name: item.value for item in recommendations}
    set_ones = {name: value for name, value in EXPANDABLE.items() if value is not None}
    allocator = environment_text(set_ones) if found.get("allocator") == "expandable" else ""
    return " ".join(filter(None, (found.get("environment"), allocator)))


def code_of(
    settings: Mapping[str, Any],
    num_steps: int | None,
    cooldown_steps: int | None,
    *,
    variables: str = "",
    optimizer: str = "",
) -> dict[str, str]:
    """The plan in each of the libraries, by its name.

    variables: of the environment, as a shell sets them. optimizer: the class of the job's own.
    """
    words = {**settings, "num_steps": num_steps, "cooldown": cooldown_steps or 0}
    words |= {"variables": variables, "optimizer": optimizer}
    makers = (_pytorch, _lightning, _transformers, _accelerate)
    size = words.get("model_size", "").replace("=", " ")
    first = f"# make the model with {size}\n" if size else ""
    return {name: first + make(words) for name, make in zip(NAMES, makers, strict=True)}


def _schedule(words: Mapping[str, Any]) -> str:
    """The function `factor`; nothing where the rate is constant, or a comment where the schedule is the job's own."""
    name, warmup, cooldown = words["schedule"].partition(":")[0], words["warmup_steps"], words["cooldown"]
    if name == "stable" and words["num_steps"] and cooldown:
        return FACTOR.format(
            warmup=warmup,
            climb=f"min(1.0, step / {warmup})" if warmup else "1.0",
            cooldown=cooldown,
            start=words["num_steps"] - cooldown,
            fall=cooldown,
            power="**0.5" if "shape=sqrt" in words["schedule"] else "",
        )
    if name == "constant":
        return CLIMB.format(warmup=warmup) if warmup else ""
    return f"# your own schedule, {words['schedule']!r}, stays: step it after each update\n"


def _has_factor(words: Mapping[str, Any]) -> bool:
    return _schedule(words).startswith("def ")


def _start(words: Mapping[str, Any], command: str = "torchrun --nproc-per-node") -> str:
    """How to start so many processes, and with which variables; nothing where it is one without any."""
    several = words["num_devices"] > 1
    if not several and not words["variables"]:
        return ""
    program = f"{command} {words['num_devices']}" if several else "python"
    return f"# start with: {' '.join(filter(None, (words['variables'], program)))} this_file.py\n"


def _shared(words: Mapping[str, Any]) -> str:
    """What lets several processes share each update."""
    if words["num_devices"] == 1:
        return "batches = itertools.chain.from_iterable(itertools.repeat(loader))\n"
    return (
        "\n\ndef passes_over(loader):\n    for epoch in itertools.count():\n"
        "        loader.sampler.set_epoch(epoch)  # else all have one order\n        yield from loader\n\n\n"
        "batches = passes_over(loader)\n"
    )


def _loader(words: Mapping[str, Any], order: str = "shuffle=True") -> str:
    ahead = f", prefetch_factor={words['prefetch_factor']}, persistent_workers=True" if words["num_workers"] else ""
    return (
        f"loader = DataLoader(dataset, batch_size={words['batch_size']}, {order}, drop_last=True, "
        f"num_workers={words['num_workers']}{ahead})\n"
    )


def _length(words: Mapping[str, Any]) -> str:
    joined = f" // {words['accumulation_steps']}" if words["accumulation_steps"] > 1 else ""
    return str(words["num_steps"]) if words["num_steps"] else f"{words['num_epochs']} * len(loader){joined}"


def _faster(words: Mapping[str, Any], model: str = "model") -> str:
    """Layout and compiled loss; images are to be laid out alike, best where they are loaded."""
    last = f"{model} = {model}.to(memory_format=torch.channels_last)  # images too, by the same word\n"
    return (last if words.get("channels_last") else "") + (
        "compute_loss = torch.compile(compute_loss)\n" if words.get("compile") else ""
    )


def _fused(words: Mapping[str, Any], indent: str = "") -> str:
    """The optimizer's fused form, before its first step; the same as fused=True where it is made."""
    lines = ("for group in optimizer.param_groups:", '    group["fused"], group["foreach"] = True, False')
    return "".join(f"{indent}{line}\n" for line in lines) if words.get("fused") else ""


def _pytorch(words: Mapping[str, Any]) -> str:
    clip, several = words["clip_norm"], words["num_devices"] > 1
    clips = f"    torch.nn.utils.clip_grad_norm_(model.parameters(), {clip})\n" if clip else ""
    order = "sampler=DistributedSampler(dataset, drop_last=True)" if several else "shuffle=True"
    wrap = (
        "torch.distributed.init_process_group()  # and torch.cuda.set_device(local rank) before the model is built\n"
        "model = torch.nn.parallel.DistributedDataParallel(model)\n"
    )
    scheduler, steps = (SCHEDULER, "    scheduler.step()\n") if _has_factor(words) else ("", "")
    return (
        _start(words)
        + "import itertools\n\nimport torch\nfrom torch.utils.data import DataLoader"
        + (", DistributedSampler\n\n" if several else "\n\n")
        + _schedule(words)
        + "\n"
        + _faster(words)
        + (wrap if several else "")
        + _loader(words, order)
        + f"optimizer = make_optimizer(model, {words['learning_rate']!r})\n"
        + _fused(words)
        + scheduler
        + _shared(words)
        + f"for step in range({_length(words)}):\n"
        + _passes(words)
        + clips
        + f"    optimizer.step()\n{steps}    optimizer.zero_grad()\n"
    )


def _passes(words: Mapping[str, Any]) -> str:
    """Forward and backward of an update, for PyTorch."""
    num, cast = words["accumulation_steps"], {"bf16": "torch.bfloat16", "fp16": "torch.float16"}.get(words["precision"])
    batch, share = ("batch", f" / {num}") if num > 1 else ("next(batches)", "")
    lines = [f"loss = compute_loss(model, {batch}){share}"]
    if cast:
        lines = [f"with torch.autocast(next(model.parameters()).device.type, {cast}):", f"    {lines[0]}"]
    lines += ["loss.backward()"]
    if num > 1:
        lines = [f"for batch in itertools.islice(batches, {num}):", *(f"    {line}" for line in lines)]
    return "".join(f"    {line}\n" for line in lines)


def _lightning(words: Mapping[str, Any]) -> str:
    devices = f'devices={words["num_devices"]}, strategy="ddp", ' if words["num_devices"] > 1 else ""
    length = f"max_steps={words['num_steps']}" if words["num_steps"] else f"max_epochs={words['num_epochs']}"
    made = "    return optimizer\n\n\n"
    if _has_factor(words):
        made = '    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}\n\n\n'
        made = f"    {SCHEDULER}{made}"
    return (
        _start({**words, "num_devices": 1})  # it starts its processes by itself
        + "import lightning\nimport torch\nfrom torch.utils.data import DataLoader\n\n"
        + _schedule(words)
        + f"\n\ndef configure_optimizers(self):  # of your LightningModule\n"
        f"    optimizer = make_optimizer(self, {words['learning_rate']!r})\n"
        + _fused(words, "    ")
        + made
        + _loader(words)
        + _faster({**words, "compile": False}, "module")
        + ("module = torch.compile(module)\n" if words.get("compile") else "")
        + f"trainer = lightning.Trainer({length}, {devices}accumulate_grad_batches={words['accumulation_steps']}, "
        f"precision={PRECISIONS['lightning'][words['precision']]!r}, gradient_clip_val={words['clip_norm']})\n"
    )


def _transformers(words: Mapping[str, Any]) -> str:
    length = f"max_steps={words['num_steps']}" if words["num_steps"] else f"num_train_epochs={words['num_epochs']}"
    if words["cooldown"]:
        shape = "1-sqrt" if "shape=sqrt" in words["schedule"] else "linear"
        kwargs = {"num_decay_steps": words["cooldown"], "decay_type": shape}
        schedule = f'lr_scheduler_type="warmup_stable_decay",\n    lr_scheduler_kwargs={kwargs!r},'
    elif words["schedule"] == "constant":
        schedule = 'lr_scheduler_type="constant_with_warmup",'
    else:
        schedule = f"# your own schedule, {words['schedule']!r}, stays"
    ahead = f"\n    dataloader_prefetch_factor={words['prefetch_factor']},\n    dataloader_persistent_workers=True,"
    ahead = ahead if words["num_workers"] else ""
    more = '    optim="adamw_torch_fused",  # where yours is AdamW\n' if words.get("fused") else ""
    more += "    torch_compile=True,\n" if words.get("compile") else ""
    more += "    # model.to(memory_format=torch.channels_last), images too\n" if words.get("channels_last") else ""
    return (
        _start(words) + "from transformers import TrainingArguments\n\n"
        "arguments = TrainingArguments(\n"
        f'    output_dir="out",\n    {length},\n'
        f"    per_device_train_batch_size={words['batch_size']},\n"
        f"    gradient_accumulation_steps={words['accumulation_steps']},\n"
        f"    learning_rate={words['learning_rate']!r},\n    warmup_steps={words['warmup_steps']},\n    {schedule}\n"
        f"    max_grad_norm={words['clip_norm'] or 0.0},\n"
        f"    bf16={words['precision'] == 'bf16'},\n    fp16={words['precision'] == 'fp16'},\n"
        f"    dataloader_num_workers={words['num_workers']},{ahead}\n    dataloader_drop_last=True,\n{more}"
        f"    seed={words['seed']},\n)\n" + _own_optimizer(words)
    )


def _own_optimizer(words: Mapping[str, Any]) -> str:
    """How Trainer takes the optimizer that the rate was found for: it makes an AdamW of its own else."""
    optimizer = words["optimizer"] or "optimizer"
    return (
        f"# The rate is for your {optimizer}, where Trainer makes an AdamW of its own:\n"
        f"# Trainer(args=arguments, ..., optimizers=(make_optimizer(model, {words['learning_rate']!r}), None))\n"
    )


def _accelerate(words: Mapping[str, Any]) -> str:
    clips = (
        f"        if accelerator.sync_gradients:\n"
        f"            accelerator.clip_grad_norm_(model.parameters(), {words['clip_norm']})\n"
        if words["clip_norm"]
        else ""
    )
    precision = PRECISIONS["accelerate"][words["precision"]]
    passes, several = words["accumulation_steps"], words["num_devices"] > 1
    has_factor = _has_factor(words)
    kept, steps = (", scheduler", "        scheduler.step()\n") if has_factor else ("", "")
    if several and has_factor:  # one that was prepared steps once for each process
        kept, steps = "", "        if accelerator.sync_gradients:\n            scheduler.step()\n"
    imported, accumulates = PASSES if passes > 1 else ("", "")
    return (
        _start(words, "accelerate launch --num_processes")
        + "import itertools\n\nimport torch\nfrom accelerate import Accelerator\n"
        f"{imported}from torch.utils.data import DataLoader\n\n"
        + _schedule(words)
        + "\n"
        + f"accelerator = Accelerator({accumulates.format(passes=passes)}mixed_precision={precision!r})\n"
        + _faster(words)
        + _loader(words)
        + f"optimizer = make_optimizer(model, {words['learning_rate']!r})\n"
        + _fused(words)
        + (SCHEDULER if has_factor else "")
        + f"model, optimizer, loader{kept} = accelerator.prepare(model, optimizer, loader{kept})\n"
        + "batches = itertools.chain.from_iterable(itertools.repeat(loader))\n"
        + f"for batch in itertools.islice(batches, {f'{passes} * ' if passes > 1 else ''}{_length(words)}):\n"
        + "    with accelerator.accumulate(model):\n"
        + "        accelerator.backward(compute_loss(model, batch))\n"
        + clips
        + f"        optimizer.step()\n{steps}        optimizer.zero_grad()\n"
    )
