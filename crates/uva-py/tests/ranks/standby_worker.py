"""One rank of test_ddp.py's run with standby trainers: trains by the example's functions and writes down what it saw."""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import uvatrain
from ddp_worker import loss_of, model_for

sys.path.append(str(Path(__file__).resolve().parents[4] / "examples" / "python"))

from standby_run import average_gradients, bring_up_to_date


def main() -> None:
    out, epochs = Path(sys.argv[1]), int(sys.argv[2])
    dist.init_process_group("gloo")
    train, valid = uvatrain.attach(), uvatrain.attach("valid")
    trainers = dist.new_group(list(range(train.trainers)))
    model = model_for(train.dataset)
    if dist.get_rank() >= train.trainers:
        # What it has before it joins must not matter.
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(100.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    seen, states = [], []
    for _ in range(epochs):
        have_joined = False
        for batch in train:
            all_train = train.step_ranks > train.trainers
            if all_train and not have_joined:
                bring_up_to_date(model, optimizer)
                have_joined = True
            seen.append([batch.epoch, batch.index, batch.hash, train.step_ranks])
            states.append(train.state_dict())
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            average_gradients(model, None if all_train else trainers, train.step_ranks)
            optimizer.step()
    # What is left of the first epoch after each of its steps, by the state of rank 0.
    all_states = [states]
    dist.broadcast_object_list(all_states)
    rests = []
    for state in all_states[0]:
        if state["epoch"] == 0:
            train.load_state_dict(state)
            rests.append([[batch.epoch, batch.index, batch.hash] for batch in train])
    # The state of three ranks of which none stands by, after two steps.
    plain = {**train.state_dict(), "epoch": 0, "first": 0, "batch": 2, "trainers": train.world_size}
    train.load_state_dict(plain)
    of_plain = [batch.index for batch in train]
    valid_rests = []
    for done in range(len(valid)):
        valid.set_epoch(0)
        for _, _ in zip(range(done + 1), valid):
            state = valid.state_dict()
        valid.load_state_dict(state)
        valid_rests.append([batch.index for batch in valid])
    record = {"seen": seen, "states": states, "rests": rests, "of_plain": of_plain, "valid_rests": valid_rests}
    record |= {"trainers": train.trainers, "batches": len(train)}
    record["parameters"] = [parameter.detach().flatten().tolist() for parameter in model.parameters()]
    (out / f"rank{dist.get_rank()}.json").write_text(json.dumps(record))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
