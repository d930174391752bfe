"""How large an update several devices make: a plan's stays as it is, and where it grows the rate follows by a rule."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from legroom.errors import UsageError
from legroom.laws.rate_scaling import Recipe, scale
from legroom.questions.base import check_word
from legroom.training.several import batch_of, update_of

RATE_RULES = ("legw", "sqrt", "linear", "keep")
"""`adam` moves betas too, which are the job's own."""
DEFAULT_RULE = "legw"
"""Of updates that grow because devices were named and nothing else was: what `legroom devices` tells of them."""


@dataclass(frozen=True, slots=True)
class UpdateWords:
    """What somebody said of the update, besides settings."""

    effective_batch: int | None
    rate_rule: str | None

    def check(self, named: Mapping[str, Any]) -> None:
        """Refuse a rule that there is not, and one beside a rate."""
        if self.rate_rule is None:
            return
        check_word("--rate-rule", self.rate_rule, RATE_RULES)
        if "learning_rate" in named and self.rate_rule != "keep":
            raise UsageError("--rate-rule and --learning-rate both say what the rate is; give one")


def settle_update(
    chosen: dict[str, Any],
    baseline: Mapping[str, Any],
    of_plan: Mapping[str, Any],
    named: Mapping[str, Any],
    words: UpdateWords,
) -> list[str]:
    """Share the update out to the devices and move the rate where it grew; returned is what to say of that."""
    before = {**baseline, **({"num_devices": 1} if of_plan else {}), **of_plan}
    is_sized = words.effective_batch is not None or "batch_size" in named
    if words.effective_batch is not None:
        chosen["batch_size"] = batch_of(words.effective_batch, chosen, named)
    elif "batch_size" in of_plan and not is_sized and chosen["num_devices"] != before["num_devices"]:
        share_out(chosen, before, named)
    if words.rate_rule is None and chosen["num_devices"] == 1:
        return []
    return scale_rate(chosen, before, named, words.rate_rule or ("keep" if is_sized else DEFAULT_RULE))


def share_out(chosen: dict[str, Any], before: Mapping[str, Any], named: Mapping[str, Any]) -> None:
    """Give other devices than a plan names its update, by fewer or more passes or else by another batch.

    Passes first: a batch that was found to fit a device, and to be fast there, stays.
    """
    passes, num = before["accumulation_steps"] * before["num_devices"], chosen["num_devices"]
    if "accumulation_steps" not in named and passes % num == 0:
        chosen["accumulation_steps"] = passes // num
        return
    try:
        chosen["batch_size"] = batch_of(update_of(before), chosen, {})
    except UsageError as error:
        raise UsageError(f"{error}. That is the plan's update; name another with --effective-batch") from None


def scale_rate(chosen: dict[str, Any], before: Mapping[str, Any], named: Mapping[str, Any], rule: str) -> list[str]:
    """Move the rate and its warm-up with the update, and say so; `before`: the settings that they were chosen for."""
    old, new = update_of(before), update_of(chosen)
    if old == new or "learning_rate" in named:
        return []
    grown, rate, warmup = f"An update is of {new:,} samples instead of {old:,}", before["learning_rate"], "warmup_steps"
    if rule == "keep":
        return [f"{grown}, and the rate stays {rate:.3g}; --rate-rule {DEFAULT_RULE} would move it"]
    # Warm-up is counted in epochs by the laws and in updates here: with "epochs" of one sample they are the same.
    recipe = Recipe(batch_size=old, learning_rate=rate, warmup_epochs=before[warmup] * old)
    scaled = scale(rule, recipe, new)
    chosen["learning_rate"] = scaled.learning_rate
    if warmup not in named:
        chosen[warmup] = scaled.warmup_steps(1 / new)
    if scaled.warmup_start and "warmup_start" not in named:
        chosen["warmup_start"] = scaled.warmup_start
    climb = f", after a warm-up of {chosen[warmup]:,} updates instead of {before[warmup]:,}" if before[warmup] else ""
    return [
        f"{grown}, so the rate is {scaled.learning_rate:.3g} instead of {rate:.3g}{climb}: by the rule {rule}, which "
        "nobody measured here. --rate-rule keep leaves it"
    ]
