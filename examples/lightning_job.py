"""A LightningModule and its LightningDataModule as they are, made a job by one call.

pip install lightning
legroom memory examples/lightning_job.py --device cpu --memory 1GiB
"""

import pytorch_lightning as pl  # `import lightning.pytorch as pl` works as well
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import legroom
from legroom.adapters.lightning import from_lightning


class PictureClassifier(pl.LightningModule):
    def __init__(self, width: int = 32, lr: float = 0.01):
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(width * 14 * 14, 10),
        )

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.layers(images), labels)
        self.log("train_loss", loss)  # harmless: legroom runs the module without a Trainer, and keeps no training log
        return loss

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        guesses = self.layers(images)
        loss = nn.functional.cross_entropy(guesses, labels)
        self.log("val_acc", (guesses.argmax(1) == labels).float().mean())  # the score, see below
        return loss  # returned, so that legroom need not run training_step again to know it

    def configure_optimizers(self):
        # legroom reads today's rate from here; another rate scales the whole schedule, the ratio between groups stays.
        optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.lr, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=self.trainer.max_epochs)]


class Pictures(pl.LightningDataModule):
    def setup(self, stage):
        images = torch.rand(2_000, 1, 28, 28, generator=torch.Generator().manual_seed(0))
        labels = images.flatten(1)[:, :10].argmax(1)
        self.train_set = TensorDataset(images[:1_800], labels[:1_800])
        self.valid_set = TensorDataset(images[1_800:], labels[1_800:])

    def train_dataloader(self):
        # Batch size and workers given here are the baseline; legroom makes its own loaders of other sizes.
        return DataLoader(self.train_set, batch_size=32, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.valid_set, batch_size=32)


def job() -> legroom.Job:
    return from_lightning(
        PictureClassifier,  # the class is a function that makes one; write a lambda where it takes arguments
        data=Pictures,
        # What you give to Trainer(...) today. trainer_arguments(settings) gives you tomorrow's.
        arguments={"max_epochs": 5, "gradient_clip_val": 1.0},
        score="val_acc",  # a metric that validation_step logs; or a legroom.Score
        goal="max",
    )
