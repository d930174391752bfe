"""A LightningModule with its LightningDataModule, as a Lightning user has them."""

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import legroom
from legroom.adapters.lightning import from_lightning


class Classifier(pl.LightningModule):
    def __init__(self, hidden: int = 32, lr: float = 0.05):
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(nn.Linear(16, hidden), nn.ReLU(), nn.Linear(hidden, 3))

    def forward(self, inputs):
        return self.layers(inputs)

    def training_step(self, batch, batch_idx):
        inputs, labels = batch
        loss = nn.functional.cross_entropy(self(inputs), labels)
        self.log("train_loss", loss, prog_bar=True)
        return {"loss": loss}

    def validation_step(self, batch, batch_idx):
        inputs, labels = batch
        outputs = self(inputs)
        loss = nn.functional.cross_entropy(outputs, labels)
        self.log_dict({"val_loss": loss, "val_accuracy": (outputs.argmax(1) == labels).float().mean()})
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.lr, momentum=0.9)
        steps = self.trainer.estimated_stepping_batches
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)}


class Rows(pl.LightningDataModule):
    def setup(self, stage):
        inputs = torch.randn(300, 16, generator=torch.Generator().manual_seed(0))
        rows = TensorDataset(inputs, inputs[:, :3].argmax(1))
        self.train_rows, self.valid_rows = torch.utils.data.random_split(rows, [240, 60])

    def train_dataloader(self):
        return DataLoader(self.train_rows, batch_size=24, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.valid_rows, batch_size=24)


def job() -> legroom.Job:
    return from_lightning(Classifier, data=Rows, arguments={"max_epochs": 4, "gradient_clip_val": 1.0})
