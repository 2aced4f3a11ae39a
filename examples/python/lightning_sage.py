"""GraphSAGE under Lightning: the loaders are plain iterables to its Trainer.

    pip install lightning
    python lightning_sage.py DATA [--epochs 5]
"""

import argparse
from typing import Any

import lightning
import torch
import torch.nn.functional as F
import uvatrain
from sage import Sage


class Classifier(lightning.LightningModule):
    def __init__(self, width_in: int, classes: int):
        super().__init__()
        self.model = Sage(width_in, 64, classes, layers=2)

    def transfer_batch_to_device(
        self, batch: uvatrain.Batch, device: torch.device, dataloader_idx: int
    ) -> uvatrain.Batch:
        return batch  # Its tensors are where the loader's `device` says.

    def training_step(self, batch: uvatrain.Batch, index: int) -> torch.Tensor:
        return F.cross_entropy(self.model(batch), batch.y, ignore_index=-1)

    def validation_step(self, batch: uvatrain.Batch, index: int) -> None:
        known = batch.y >= 0
        right = (self.model(batch).argmax(1) == batch.y)[known].float()
        self.log("validation", right.mean(), batch_size=len(right), on_epoch=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=512)
    args = parser.parse_args()

    lightning.seed_everything(0)
    gpu = torch.cuda.is_available()
    options: dict[str, Any] = dict(fanouts=[10, 5], batch_size=args.batch_size, device="cuda:0" if gpu else "cpu")
    with (
        uvatrain.Loader(args.data, **options) as train,
        uvatrain.Loader(args.data, split="valid", **options) as valid,
    ):
        model = Classifier(train.dataset.feature_dim, train.dataset.num_classes)
        trainer = lightning.Trainer(
            max_epochs=args.epochs,
            accelerator="gpu" if gpu else "cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(model, train, valid)
        print(f"validation {trainer.callback_metrics['validation']:.4f}")


if __name__ == "__main__":
    main()
