"""The training of ddp_run.py with standby trainers: GPUs that sample train, too, from a batch of each epoch on.

    uvatrain run DATA --fanouts 10,5 --batch-size 256 --roles 1:2 --switch 400 -- sh -c \\
        'torchrun --standalone --nproc-per-node $UVATRAIN_RANKS standby_run.py'

Ranks that stand by take no part in the steps before. When they join, they get weights and the optimizer's state from rank 0.
DistributedDataParallel keeps one group of ranks for all steps, so gradients are averaged by hand.
"""

import argparse
import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F
import uvatrain
from ddp import accuracy
from sage import Sage


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
    state = [(model.state_dict(), optimizer.state_dict()) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(state)
    if dist.get_rank() != 0 and state[0] is not None:
        weights, moments = copy.deepcopy(state[0])
        model.load_state_dict(weights)
        optimizer.load_state_dict(moments)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    train, valid = uvatrain.attach(), uvatrain.attach("valid")
    # Every rank makes the group, also one that is not in it.
    trainers = dist.new_group(list(range(train.trainers)))
    torch.manual_seed(0)
    model = Sage(train.dataset.feature_dim, 64, train.dataset.num_classes, layers=2)
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
        valid_accuracy = accuracy(model, valid, "cpu")
        if dist.get_rank() == 0:
            print(
                f"epoch {epoch}: {len(train)} steps, loss {loss_sum / len(train):.6f}, validation {valid_accuracy:.4f}",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
