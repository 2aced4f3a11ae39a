"""The training of ddp_run.py with standby trainers: ranks that join the others at a batch of each epoch.

    uvatrain run DATA --fanouts 10,5 --batch-size 256 --roles 1:2 --switch 400 -- sh -c \\
        'torchrun --standalone --nproc-per-node $UVATRAIN_RANKS standby_run.py'

Each of them shares a GPU with a sampler. They take no part in the steps before. When they join, they get weights and the
optimizer's state from rank 0. DistributedDataParallel keeps one group of ranks for all steps, so gradients are averaged by hand.
"""

import argparse
import io
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn.functional as F
import uvatrain
from ddp import accuracy
from sage import Sage

# A rank that stands by waits for the others most of an epoch.
PATIENCE = timedelta(days=1)


def average_gradients(model: torch.nn.Module, group: dist.ProcessGroup | None, ranks: int) -> None:
    """Makes each gradient the mean over the ranks of the group. All of them have as many."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat, group=group)
    flat /= ranks
    for gradient, mean in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


def bring_up_to_date(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Gives all ranks the weights and the optimizer's state of rank 0."""
    saved = io.BytesIO()
    if dist.get_rank() == 0:
        torch.save((model.state_dict(), optimizer.state_dict()), saved)
    # As bytes, for a tensor of a GPU would come to that GPU in every process.
    state = [saved.getvalue()]
    dist.broadcast_object_list(state)
    if dist.get_rank() != 0:
        weights, moments = torch.load(io.BytesIO(state[0]), map_location="cpu")
        model.load_state_dict(weights)
        optimizer.load_state_dict(moments)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()

    train, valid = uvatrain.attach(), uvatrain.attach("valid")
    device = train.device
    if device != "cpu":
        torch.cuda.set_device(device)
    dist.init_process_group("gloo" if device == "cpu" else "nccl", timeout=PATIENCE)
    # Every rank makes the group, also one that is not in it.
    trainers = dist.new_group(list(range(train.trainers)), timeout=PATIENCE)
    torch.manual_seed(0)
    model = Sage(train.dataset.feature_dim, 64, train.dataset.num_classes, layers=2).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(args.epochs):
        model.train()
        loss_sum, have_joined = 0.0, False
        for batch in train:
            all_train = train.step_ranks > train.trainers
            if all_train and not have_joined:
                bring_up_to_date(model, optimizer)
                have_joined = True
            loss = F.cross_entropy(model(batch), batch.y, ignore_index=-1)
            optimizer.zero_grad()
            loss.backward()
            average_gradients(model, None if all_train else trainers, train.step_ranks)
            optimizer.step()
            loss_sum += loss.item()
        # Ranks that stand by have no batch of validation, and add nothing.
        valid_accuracy = accuracy(model, valid, device)
        if dist.get_rank() == 0:
            print(
                f"epoch {epoch}: {len(train)} steps, loss {loss_sum / len(train):.6f}, validation {valid_accuracy:.4f}",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
